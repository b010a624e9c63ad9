"""Taking a run of maintenance back, row by row: each memory is as it was before, all or none. It is refused where a person or a
later run changed a result since, or where what was observed meanwhile could belong to several. What the run had made is the
only thing that is deleted; that it was shown or used meanwhile goes with it, or no run could be undone for long."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from cems.errors import CemsError, NotFound
from cems.ids import short
from db.changes import COLUMNS, COUNTS, FOLLOWING, STATEMENTS, TEXT, by_id
from db.connect import Connection, Database, Row
from db.queries import SQL


class UndoRefused(CemsError):
    """The run cannot be undone."""


def undo(db: Database, run: uuid.UUID, now: dt.datetime, *, dry_run: bool = False) -> int:
    """Give every row a run wrote its former content, all or none; returns how many memories that were. A run whose process
    died counts as killed as soon as its lease is over.

    Raises:
        NotFound: there is no such run.
        UndoRefused: it still runs, was undone before, or a memory was changed since; the message says which and how.
    """
    with db.transaction() as conn:
        args = {"owner": db.owner_id, "run": run, "now": now}
        state = conn.execute(SQL["undo.run_state"], args).fetchone()
        if state is None:
            raise NotFound(f"there is no run {run}", hint="`cems maintenance --history` shows them")
        if not conn.execute(SQL["undo.begin_undo"], args).rowcount:
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
        self._rows = by_id(conn.execute(SQL["undo.lock_waiting"], args).fetchall())

    def run(self) -> int:
        memories = set()
        for change in reversed(self._written):
            if change["before"] is None and change["after"] is None:
                raise UndoRefused("a memory of this run was erased since")
            if change["table_name"] == "memory":
                self._memory(change)
                memories.add(change["memory_id"])
            elif change["table_name"] == "memory_source":
                self._execute("undo.delete_source", id=change["after"]["id"])
            else:
                self._execute("undo.put_vector", values=Jsonb(change["before"]))
        return len(memories)

    def _memory(self, change: Row) -> None:
        memory, before, after = change["memory_id"], change["before"], change["after"]
        now = self._rows.get(memory)
        if now is None:
            raise UndoRefused(f"memory {short(memory)} was erased since")
        differs = [c for c in COLUMNS if c not in COUNTS | FOLLOWING and now[c] != after[c]]
        if differs:
            what = "forgotten" if "forgotten_at" in differs else f"changed ({', '.join(differs)})"
            raise UndoRefused(f"memory {short(memory)} was {what} since", hint=_look_at(memory))
        if before is None:
            self._unmake(memory, now, said_again=max(now["seen_count"] - after["seen_count"], 0))
            return
        values = {c: _former(c, before[c], after[c], now[c]) for c in COLUMNS if before[c] != after[c]}
        if TEXT & values.keys():
            self._execute("change.take_vectors", ids=[memory])
        self._write(memory, values)

    def _write(self, memory: uuid.UUID, values: Row) -> None:
        args = {"owner": self._owner, "id": memory, "values": Jsonb(values)}
        try:
            with self._conn.transaction():
                row = self._conn.execute(STATEMENTS["update_memory"], args).fetchone()
        except psycopg.errors.UniqueViolation as error:
            raise self._said_already(memory, self._rows[memory] | values) from error
        assert row is not None
        self._rows[memory] = row["row"]

    def _said_already(self, memory: uuid.UUID, wanted: Row) -> UndoRefused:
        """What was replaced was observed again, as a memory of its own."""
        content = {
            "project": wanted["project_id"],
            "kind": wanted["kind"],
            "content_hash": wanted["content_hash"],
        }
        same = self._execute("undo.same", id=memory, **content).fetchone()
        other = short(same["id"]) if same else "another memory"
        return UndoRefused(
            f"memory {short(memory)} cannot come back: {other} says the same and is there",
            hint=_look_at(same["id"]) if same else "",
        )

    def _unmake(self, memory: uuid.UUID, now: Row, said_again: int) -> None:
        if (row := self._execute("undo.referring", id=memory).fetchone()) is not None:
            raise UndoRefused(
                f"memory {short(memory)}, which this run made, is what {short(row['id'])} stands on",
                hint="undo the later run first",
            )
        # What the run wrote of its sources is gone already.
        left = self._execute("undo.sources_left", id=memory).fetchone()
        if said_again or (left is not None and left["n"]):
            self._hand_on(memory, now, said_again)
        self._execute("undo.delete_memory", id=memory)
        del self._rows[memory]

    def _hand_on(self, memory: uuid.UUID, now: Row, said_again: int) -> None:
        """What was observed again meanwhile belongs to the memory whose content it is. Where the run replaced several by one,
        nothing says to which."""
        replaced = {
            row["memory_id"]
            for row in self._written
            if row["table_name"] == "memory" and row["after"]["superseded_by"] == str(memory)
        }
        if len(replaced) != 1:
            raise UndoRefused(
                f"what memory {short(memory)}, which this run made, stands for was said again since",
                hint=_look_at(memory),
            )
        (heir,) = replaced
        before = self._rows[heir]
        self._execute("undo.move_sources", id=memory, heir=heir)
        moved = max(before["changed_at"], now["changed_at"], key=dt.datetime.fromisoformat)
        self._write(heir, {"seen_count": before["seen_count"] + said_again, "changed_at": moved})

    def _execute(self, name: str, **args: Any) -> psycopg.Cursor[Row]:
        return self._conn.execute(SQL[name], {"owner": self._owner, **args})


def _former(column: str, before: Any, after: Any, now: Any) -> Any:
    """The value a column gets back: counts lose what the run added, times that moved since stay."""
    if column in COUNTS:
        return max(now - (after - before), 0)
    if column in FOLLOWING and now != after:
        return now
    return before


def _look_at(memory: uuid.UUID) -> str:
    return f"look at it with `cems memory show {short(memory)}`"
