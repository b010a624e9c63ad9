"""What a person does with memories one by one: pin, snooze, archive, forget, restore, erase. Several at once are changed all or
none; what the state of a memory does not allow is refused with a word on what to do instead, and what is so already is left
as it is. None of this touches text or vectors, so nothing has to be embedded again; only `forget` and `erase` take vectors."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, get_args

import psycopg

from cems.errors import CemsError, NotFound, UsageError
from cems.failpoint import failpoint
from cems.ids import short
from db import around
from db.connect import Connection, Database, Row
from db.queries import SQL

Action = Literal["pin", "unpin", "snooze", "unsnooze", "archive", "forget", "restore", "erase"]
ACTIONS: tuple[Action, ...] = get_args(Action)
State = Literal["pinned", "snoozed", "archived", "superseded"]
STATES: tuple[State, ...] = get_args(State)
SNOOZE = dt.timedelta(days=30)
"""How long a memory is snoozed when nobody says."""


class NotInThisState(CemsError):
    """The state of the memory does not allow this."""


@dataclasses.dataclass(frozen=True)
class Standing:
    """How a memory stands besides its content."""

    pinned: bool
    snoozed_until: dt.datetime | None
    """None as well where that time has come."""
    archived_at: dt.datetime | None
    forgotten_at: dt.datetime | None
    superseded_by: uuid.UUID | None
    superseded_how: str | None
    """`merged`, `condensed` or `replaced`."""


def pin(db: Database, memory: uuid.UUID, now: dt.datetime) -> None:
    """Pin a memory: given to sessions before others, never archived or summarised."""
    change(db, "pin", [memory], now)


def unpin(db: Database, memory: uuid.UUID, now: dt.datetime) -> None:
    """Take the pin off."""
    change(db, "unpin", [memory], now)


def snooze(db: Database, memory: uuid.UUID, until: dt.datetime, now: dt.datetime) -> None:
    """Do not give a memory back before `until`."""
    change(db, "snooze", [memory], now, until=until)


def unsnooze(db: Database, memory: uuid.UUID, now: dt.datetime) -> None:
    """Give a snoozed memory back again."""
    change(db, "unsnooze", [memory], now)


def archive(db: Database, memory: uuid.UUID, now: dt.datetime) -> None:
    """Put a memory away: not given back until it is said again or restored."""
    change(db, "archive", [memory], now)


def forget(db: Database, memory: uuid.UUID, now: dt.datetime) -> None:
    """Forget a memory: it is never given back, and the same content is never stored again. `restore` undoes it."""
    change(db, "forget", [memory], now)


def restore(db: Database, memory: uuid.UUID, now: dt.datetime) -> None:
    """Bring a forgotten, archived or snoozed memory back, and with it what was merged into it."""
    change(db, "restore", [memory], now)


def erase(db: Database, memory: uuid.UUID, now: dt.datetime) -> None:
    """Delete a memory for good, with its vectors, its sources, the text of the lines it quotes (also where it stands around
    other memories) and what runs of maintenance wrote down of it. Its content's tombstone stays, as a hash, so that the same
    content is not learnt again."""
    change(db, "erase", [memory], now)


def change(
    db: Database,
    action: Action,
    memories: Sequence[uuid.UUID],
    now: dt.datetime,
    *,
    until: dt.datetime | None = None,
    dry_run: bool = False,
) -> list[uuid.UUID]:
    """Do the same with several memories, all or none; returns those that were not so already.

    Args:
        until: how long to snooze.
        dry_run: only look whether it can be done.

    Raises:
        NotFound: one of them is not there.
        NotInThisState: one of them cannot be changed so; the message says why, the hint what can be done.
        UsageError: `until` is not to come.
    """
    if action == "snooze" and (until is None or until <= now):
        raise UsageError("a memory is snoozed until a time to come", hint="such as --days 30")
    changed = []
    with db.transaction() as conn:
        found = conn.execute(SQL["lifecycle.lock"], {"owner": db.owner_id, "ids": list(memories)}).fetchall()
        rows = {row["id"]: row for row in found}
        for memory in memories:
            if memory not in rows:
                raise NotFound(f"there is no memory {memory}", hint="`cems memory list` shows ids")
        for memory in dict.fromkeys(memories):
            if _Changing(conn, db.owner_id, now, until).do(action, rows[memory]):
                changed.append(memory)
                failpoint("mid_lifecycle")
        if dry_run:
            raise psycopg.Rollback
    return changed


def standing(db: Database, memory: uuid.UUID, now: dt.datetime) -> Standing:
    """How a memory stands.

    Raises:
        NotFound: there is no such memory.
    """
    with db.transaction() as conn:
        args = {"owner": db.owner_id, "id": memory, "now": now}
        row = conn.execute(SQL["lifecycle.standing"], args).fetchone()
    if row is None:
        raise NotFound(f"there is no memory {memory}")
    return Standing(**row)


def in_state(db: Database, state: State, now: dt.datetime) -> list[uuid.UUID]:
    """The memories that are in a state now."""
    with db.transaction() as conn:
        args = {"owner": db.owner_id, "state": state, "now": now}
        return [row["id"] for row in conn.execute(SQL["lifecycle.in_state"], args).fetchall()]


def belongings(db: Database, memory: uuid.UUID) -> Row:
    """What an erasure would delete with a memory: vectors, sources, lines whose text goes, how many other memories quote those
    lines, and how many were merged into it and are forgotten with it."""
    with db.transaction() as conn:
        row = conn.execute(SQL["lifecycle.belongings"], {"owner": db.owner_id, "id": memory}).fetchone()
    assert row is not None
    return row


def derived(db: Database, memory: uuid.UUID) -> list[Row]:
    """Memories that were made of this one and may repeat its words: id, layer, kind, title, how (`merged`, `condensed`),
    forgotten. They stay when it is forgotten or erased."""
    with db.transaction() as conn:
        return conn.execute(SQL["lifecycle.derived"], {"owner": db.owner_id, "id": memory}).fetchall()


class _Changing:
    """Changes one memory inside a transaction. Each action returns whether there was anything to do."""

    def __init__(
        self,
        conn: Connection,
        owner: uuid.UUID,
        now: dt.datetime,
        until: dt.datetime | None,
    ) -> None:
        self._conn, self._owner, self._now, self._until = conn, owner, now, until

    def do(self, action: Action, row: Row) -> bool:
        actions: Mapping[Action, Callable[[Row], bool]] = {
            "pin": self._pin,
            "unpin": self._unpin,
            "snooze": self._snooze,
            "unsnooze": self._unsnooze,
            "archive": self._archive,
            "forget": self._forget,
            "restore": self._restore,
            "erase": self._erase,
        }
        return actions[action](row)

    def _pin(self, row: Row) -> bool:
        _refuse(row, "be pinned", "forgotten", "archived", "superseded")
        return not row["pinned"] and self._quietly(row, "set_pinned", pinned=True)

    def _unpin(self, row: Row) -> bool:
        _refuse(row, "be unpinned", "forgotten")
        return bool(row["pinned"]) and self._quietly(row, "set_pinned", pinned=False)

    def _snooze(self, row: Row) -> bool:
        _refuse(row, "be snoozed", "forgotten", "archived", "superseded")
        return row["snoozed_until"] != self._until and self._quietly(row, "set_snoozed", until=self._until)

    def _unsnooze(self, row: Row) -> bool:
        _refuse(row, "be unsnoozed", "forgotten")
        return row["snoozed_until"] is not None and self._quietly(row, "set_snoozed", until=None)

    def _archive(self, row: Row) -> bool:
        _refuse(row, "be archived", "forgotten", "superseded")
        if row["archived_at"] is not None:
            return False
        _refuse(row, "be archived", "pinned")
        return self._quietly(row, "archive")

    def _forget(self, row: Row) -> bool:
        if row["forgotten_at"] is not None:
            return False
        # What was replaced is history of its own; what was merged or condensed lives on elsewhere, and that is what to forget.
        if row["superseded_how"] in ("merged", "condensed"):
            _refuse(row, "be forgotten by itself", "superseded")
        self._bury(row)
        return True

    def _restore(self, row: Row) -> bool:
        if row["forgotten_at"] is None:
            _refuse(row, "be restored", "superseded")
            if row["archived_at"] is None and row["snoozed_until"] is None:
                return False
        if (same := self._execute("same_content", row).fetchone()) is not None:
            raise NotInThisState(
                f"memory {short(row['id'])} cannot be restored: {short(same['id'])} says the same and is there",
                hint=f"look at it with `cems memory show {short(same['id'])}`",
            )
        self._execute("restore", row)
        self._execute("drop_tombstone", row, content_hash=row["content_hash"], project=row["project_id"])
        return True

    def _erase(self, row: Row) -> bool:
        self._bury(row)
        self._execute("scrub", row)
        around.erase(self._conn, self._owner, row["id"], self._now)  # while the lines have their text
        self._execute("erase_lines", row)
        self._execute("relink_superseded", row)
        for merged in self._execute("forget_merged", row).fetchall():
            self._conn.execute(
                SQL["lifecycle.add_tombstone"], {"owner": self._owner, "now": self._now, **merged}
            )
            self._execute("drop_vectors", merged)
        self._execute("archive_superseded", row)
        self._execute("erase", row)
        return True

    def _bury(self, row: Row) -> None:
        if row["forgotten_at"] is None:
            self._execute("forget", row)
        self._execute("add_tombstone", row, content_hash=row["content_hash"], project=row["project_id"])
        self._execute("drop_vectors", row)

    def _quietly(self, row: Row, name: str, **args: object) -> bool:
        """Change what says nothing about the content: no job needs to look again because of it."""
        self._execute("keep_marks", row)
        self._execute(name, row, **args)
        return True

    def _execute(self, name: str, row: Row, **args: object) -> psycopg.Cursor[Row]:
        given = {"owner": self._owner, "id": row["id"], "now": self._now, **args}
        return self._conn.execute(SQL[f"lifecycle.{name}"], given)


def _refuse(row: Row, what: str, *states: str) -> None:
    """Raise where a memory is in one of these states."""
    me, other = short(row["id"]), short(row["superseded_by"]) if row["superseded_by"] else ""
    how = row["superseded_how"] or "replaced"
    into = f"replaced by {other}" if how == "replaced" else f"{how} into {other}"
    reasons = {
        "forgotten": (row["forgotten_at"], "forgotten", f"bring it back first: `cems memory restore {me}`"),
        "superseded": (
            row["superseded_by"],
            into,
            f"`cems memory show {other}` is what stands for it; `cems maintenance --history` shows the run to undo",
        ),
        "archived": (row["archived_at"], "archived", f"bring it back first: `cems memory restore {me}`"),
        "pinned": (row["pinned"], "pinned", f"take the pin off first: `cems memory unpin {me}`"),
    }
    for state in states:
        so, word, hint = reasons[state]
        if so:
            raise NotInThisState(f"memory {me} is {word} and cannot {what}", hint=hint)
