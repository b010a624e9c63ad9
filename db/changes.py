"""The only place where maintenance writes memories. A `Change` is applied in one short transaction, fenced by the run's
lease, and only if every memory it stands on is still as it was read; each row it writes is recorded with what it was
before, so that a run can be shown and undone row by row. Nothing is deleted but what an undone run had made."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import psycopg
from psycopg.types.json import Jsonb

from cems.errors import CemsError, LostRace, NotFound
from cems.failpoint import failpoint
from cems.ids import short, uuid7
from db.connect import Connection, Database, Row
from db.lease import HOLD
from db.queries import SQL
from db.runs import Run

What = Literal["merged", "replaced", "condensed", "summarized", "archived", "promoted"]
Values = Mapping[str, Any]
"""Columns of a row and their values: strings, numbers, lists, times, uuids or bytes."""

COLUMNS = (
    "layer", "kind", "project_id", "title", "body", "terms", "around", "concepts", "files", "key", "valid_from", "valid_to",
    "confidence", "origin", "author", "content_hash", "occurred_at", "recorded_at", "changed_at", "seen_count",
    "shown_count", "used_count", "last_shown_at", "last_used_at", "pinned", "snoozed_until", "superseded_by",
    "superseded_how", "archived_at", "forgotten_at",
)  # fmt: skip
"""The stored columns of a memory besides its key."""
COUNTS = frozenset({"seen_count", "shown_count", "used_count"})
"""Go on counting after a run; undoing takes back only what the run added."""
FOLLOWING = frozenset({"changed_at", "last_shown_at", "last_used_at"})
"""Move with counts; undoing restores them where nothing moved them since."""
TEXT = frozenset({"title", "body", "around"})
"""What a memory's vector is made of."""


class UndoRefused(CemsError):
    """The run cannot be undone."""


@dataclasses.dataclass(frozen=True)
class Change:
    """One step of a run: written whole or not at all."""

    what: What
    why: str
    """For people, short, without a memory's text."""
    seen: Mapping[uuid.UUID, dt.datetime]
    """The memories it stands on, with `changed_at` as they were read; if one differs or is no longer live, nothing is
    written."""
    updates: Mapping[uuid.UUID, Values] = dataclasses.field(default_factory=dict)
    """New values of columns. `changed_at` is set by itself; where text changes, the memory's vectors go."""
    made: Values | None = None
    """A new memory, every column that has no default, `id` included."""
    into: uuid.UUID | None = None
    """The memory that stands for the others afterwards; it gets the sources of `gives`."""
    gives: Sequence[uuid.UUID] = ()
    """Memories whose sources are copied to `into`."""
    counts: Sequence[uuid.UUID] = ()
    """Memories whose counts and last uses are united with those of `into`, as all of them are when this is written: sessions
    count on meanwhile without changing anything else. `into` is one of `updates`."""
    links: Sequence[uuid.UUID] = ()
    """Memories that `into` stands on."""


def apply(db: Database, run: Run, change: Change, now: dt.datetime) -> bool:
    """Write a change; False where a memory has changed since it was read, or is being written right now: nothing was done,
    and the next run sees it as it is then.

    Raises:
        LostRace: the run no longer holds its lease.
    """
    with db.transaction() as conn:
        fence = {"owner": db.owner_id, "lease": run.lease, "run": run.id, "expires": now + HOLD}
        if not conn.execute(SQL["change.fence"], fence).rowcount:
            raise LostRace("another run of this job has begun")
        ids = sorted({*change.seen, *change.updates})
        rows = _rows(conn.execute(SQL["change.lock"], {"owner": db.owner_id, "ids": ids}).fetchall())
        if len(rows) != len(ids) or not all(_unchanged(rows[i], at) for i, at in change.seen.items()):
            return False
        _Writer(conn, db.owner_id, run.id, change, now).write(rows)
        failpoint(f"mid_{run.job}")
    failpoint(f"after_{run.job}")
    return True


class _Writer:
    """Writes the rows of one change and records each."""

    def __init__(
        self, conn: Connection, owner: uuid.UUID, run: uuid.UUID, change: Change, now: dt.datetime
    ) -> None:
        self._conn, self._owner, self._run, self._change, self._now = conn, owner, run, change, now
        at = conn.execute(SQL["change.next_number"], {"owner": owner, "run": run}).fetchone()
        assert at is not None
        self._number, self._step = at["number"], at["step"] + 1

    def write(self, rows: Mapping[uuid.UUID, Row]) -> None:
        change = self._change
        if change.made is not None:
            self._make(
                {"owner_id": self._owner, "recorded_at": self._now, "changed_at": self._now}
                | dict(change.made)
            )
        for memory, values in sorted(change.updates.items()):
            if memory == change.into and change.counts:
                values = _counted([rows[m] for m in (memory, *change.counts)]) | dict(values)
            self._update(memory, rows[memory], values)
        for giver in change.gives:
            self._copy_sources(giver)
        for linked in change.links:
            self._link(linked)

    def _make(self, values: Values) -> None:
        row = self._one("insert_memory", values=_json({**_DEFAULTS, **values}))
        self._record("memory", values["id"], None, row)

    def _update(self, memory: uuid.UUID, before: Row, values: Values) -> None:
        if TEXT & {k for k, v in values.items() if _plain(v) != before[k]}:
            args = {"owner": self._owner, "ids": [memory]}
            for found in self._conn.execute(SQL["change.take_vectors"], args).fetchall():
                self._record("embedding", memory, found["row"], None)
        row = self._one("update_memory", id=memory, values=_json({"changed_at": self._now} | dict(values)))
        self._record("memory", memory, before, row)

    def _copy_sources(self, giver: uuid.UUID) -> None:
        given = self._conn.execute(SQL["change.source_ids"], {"owner": self._owner, "id": giver}).fetchall()
        args = {
            "owner": self._owner,
            "into": self._change.into,
            "sources": [row["id"] for row in given],
            "ids": [uuid7() for _ in given],
        }
        for found in self._conn.execute(SQL["change.copy_sources"], args).fetchall():
            self._record("memory_source", giver, None, found["row"])

    def _link(self, linked: uuid.UUID) -> None:
        values = {
            "owner_id": self._owner,
            "id": uuid7(),
            "memory_id": self._change.into,
            "source_memory_id": linked,
            "quote": "",
            "origin": self._origin_of(linked),
            "recorded_at": self._now,
        }
        args = {"owner": self._owner, "values": _json(values)}
        for found in self._conn.execute(SQL["change.insert_source"], args).fetchall():
            self._record("memory_source", linked, None, found["row"])

    def _origin_of(self, memory: uuid.UUID) -> str:
        row = self._conn.execute(SQL["change.origin_of"], {"owner": self._owner, "id": memory}).fetchone()
        assert row is not None
        return str(row["origin"])

    def _one(self, name: str, **args: Any) -> Row:
        row = self._conn.execute(_STATEMENTS[name], {"owner": self._owner, **args}).fetchone()
        assert row is not None
        return dict(row["row"])

    def _record(self, table: str, memory: uuid.UUID, before: Row | None, after: Row | None) -> None:
        self._number += 1
        into = self._change.into if memory != self._change.into else None
        self._conn.execute(
            SQL["change.record"],
            {
                "owner": self._owner,
                "run": self._run,
                "number": self._number,
                "step": self._step,
                "what": self._change.what,
                "why": self._change.why[:500],
                "table": table,
                "memory": memory,
                "into": into,
                "before": Jsonb(before) if before is not None else None,
                "after": Jsonb(after) if after is not None else None,
            },
        )


def of_run(db: Database, run: uuid.UUID) -> list[Row]:
    """The rows a run wrote, in order: number, step, what, why, table_name, memory_id, into_id, before, after."""
    with db.transaction() as conn:
        return conn.execute(SQL["change.of_run"], {"owner": db.owner_id, "run": run}).fetchall()


def mark(db: Database, job: str, looked_at: Mapping[uuid.UUID, dt.datetime]) -> None:
    """Note that a job has looked at memories as they were at `changed_at`; until they change it need not again."""
    args = {"owner": db.owner_id, "job": job, "ids": list(looked_at), "changed": list(looked_at.values())}
    with db.transaction() as conn:
        conn.execute(SQL["change.mark"], args)


def undone_pairs(db: Database, memories: Sequence[uuid.UUID]) -> set[frozenset[uuid.UUID]]:
    """Pairs, one of each among `memories`, that a run joined and a person parted again by undoing it."""
    with db.transaction() as conn:
        rows = conn.execute(
            SQL["change.undone_pairs"], {"owner": db.owner_id, "ids": list(memories)}
        ).fetchall()
    return {frozenset((row["memory_id"], row["into_id"])) for row in rows}


def undo(db: Database, run: uuid.UUID, now: dt.datetime, *, dry_run: bool = False) -> int:
    """Give every row a run wrote its former content, all or none; returns how many memories that were.

    Raises:
        NotFound: there is no such run.
        UndoRefused: it still runs, was undone before, or a memory was changed since; the message says which and how.
    """
    with db.transaction() as conn:
        args = {"owner": db.owner_id, "run": run, "now": now}
        state = conn.execute(SQL["change.run_state"], args).fetchone()
        if state is None:
            raise NotFound(f"there is no run {run}", hint="`cems maintenance --history` shows them")
        if not conn.execute(SQL["change.begin_undo"], args).rowcount:
            raise UndoRefused(
                "the run was undone before" if state["undone_at"] else "the run has not ended yet"
            )
        written = conn.execute(SQL["change.of_run"], args).fetchall()
        memories = _Undoing(conn, db.owner_id, written).run()
        if dry_run:
            raise psycopg.Rollback
    return memories


class _Undoing:
    """Takes the rows of a run back, last first, after a look at what became of each since."""

    def __init__(self, conn: Connection, owner: uuid.UUID, written: Sequence[Row]) -> None:
        self._conn, self._owner, self._written = conn, owner, written
        ids = sorted({row["memory_id"] for row in written} | {row["into_id"] for row in written} - {None})
        args = {"owner": owner, "ids": ids}
        self._rows = _rows(conn.execute(SQL["change.lock_waiting"], args).fetchall())

    def run(self) -> int:
        memories = set()
        for change in reversed(self._written):
            if change["before"] is None and change["after"] is None:
                raise UndoRefused("a memory of this run was erased since")
            if change["table_name"] == "memory":
                self._memory(change)
                memories.add(change["memory_id"])
            elif change["table_name"] == "memory_source":
                self._execute("change.delete_source", id=change["after"]["id"])
            else:
                self._execute("change.put_vector", values=Jsonb(change["before"]))
        return len(memories)

    def _memory(self, change: Row) -> None:
        memory, before, after = change["memory_id"], change["before"], change["after"]
        now = self._rows.get(memory)
        if now is None:
            raise UndoRefused(f"memory {short(memory)} was erased since")
        differs = [c for c in COLUMNS if c not in COUNTS | FOLLOWING and now[c] != after[c]]
        if differs:
            what = "forgotten" if "forgotten_at" in differs else f"changed ({', '.join(differs)})"
            raise UndoRefused(
                f"memory {short(memory)} was {what} since",
                hint=f"look at it with `cems memory show {short(memory)}`",
            )
        if before is None:
            self._unmake(memory)
            return
        values = {c: _former(c, before[c], after[c], now[c]) for c in COLUMNS if before[c] != after[c]}
        if TEXT & values.keys():
            self._execute("change.take_vectors", ids=[memory])
        found = self._execute_one("update_memory", id=memory, values=Jsonb(values))
        self._rows[memory] = found["row"]

    def _unmake(self, memory: uuid.UUID) -> None:
        if (row := self._execute("change.referring", id=memory).fetchone()) is not None:
            raise UndoRefused(
                f"memory {short(memory)}, which this run made, is what {short(row['id'])} stands on",
                hint="undo the later run first",
            )
        self._execute("change.delete_memory", id=memory)
        del self._rows[memory]

    def _execute(self, name: str, **args: Any) -> psycopg.Cursor[Row]:
        return self._conn.execute(SQL[name], {"owner": self._owner, **args})

    def _execute_one(self, name: str, **args: Any) -> Row:
        row = self._conn.execute(_STATEMENTS[name], {"owner": self._owner, **args}).fetchone()
        assert row is not None
        return row


def _former(column: str, before: Any, after: Any, now: Any) -> Any:
    """The value a column gets back: counts lose what the run added, times that moved since stay."""
    if column in COUNTS:
        return max(now - (after - before), 0)
    if column in FOLLOWING and now != after:
        return now
    return before


def _counted(rows: Sequence[Row]) -> dict[str, Any]:
    """The counts of several memories together, and the latest of their last uses."""
    latest = {
        c: max((r[c] for r in rows if r[c] is not None), key=dt.datetime.fromisoformat, default=None)
        for c in ("last_shown_at", "last_used_at")
    }
    return {c: sum(row[c] for row in rows) for c in sorted(COUNTS)} | latest


def _unchanged(row: Row, at: dt.datetime) -> bool:
    """Whether a locked row is live and as it was read."""
    live = all(row[c] is None for c in ("superseded_by", "archived_at", "forgotten_at"))
    return live and dt.datetime.fromisoformat(row["changed_at"]) == at


def _rows(found: Sequence[Row]) -> dict[uuid.UUID, Row]:
    return {row["id"]: row["row"] for row in found}


def _json(values: Values) -> Jsonb:
    return Jsonb({k: _plain(v) for k, v in values.items()})


def _plain(value: Any) -> Any:
    """A column's value as Postgres writes it into JSON, as far as comparing text needs."""
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, dt.datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    return list(value) if isinstance(value, tuple) else value


_DEFAULTS: Values = {
    "terms": "", "around": "", "concepts": [], "files": [], "seen_count": 1, "shown_count": 0, "used_count": 0, "pinned": False,
}  # fmt: skip
"""A record's missing fields are null, whatever the table's defaults are."""
_STATEMENTS = {
    name: SQL[f"change.{name}"].replace(b"COLUMNS", ", ".join(COLUMNS).encode())
    for name in ("update_memory", "insert_memory")
}
