"""The only place where maintenance writes memories. A `Change` is applied in one short transaction, fenced by the run's
lease, and only if every memory it stands on is still as it was read; each row it writes is recorded with what it was
before, so that a run can be shown and undone row by row (`db.undoing`). Nothing is deleted."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from psycopg.types.json import Jsonb

from cems.errors import LostRace
from cems.failpoint import failpoint
from cems.ids import uuid7
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
FOLLOWING = frozenset(
    {
        "changed_at",
        "last_shown_at",
        "last_used_at",
        *("confidence", "origin", "files", "concepts", "occurred_at"),
    }
)
"""Move with counts, whenever content is observed again; undoing restores them where nothing moved them since."""
TEXT = frozenset({"title", "body", "around"})
"""What a memory's vector is made of."""


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
    count on meanwhile without changing anything else. `into` is one of `updates`, or `made` with their counts alone."""
    links: Sequence[uuid.UUID] = ()
    """Memories that `into` stands on."""


def apply(db: Database, run: Run, change: Change, now: dt.datetime) -> bool:
    """Write a change; False where a memory has changed since it was read, or is being written right now: nothing was done,
    and the next run sees it as it is then.

    Raises:
        LostRace: the run no longer holds its lease, or has ended.
    """
    with db.transaction() as conn:
        fence(conn, db, run, now)
        ids = sorted({*change.seen, *change.updates})
        rows = by_id(conn.execute(SQL["change.lock"], {"owner": db.owner_id, "ids": ids}).fetchall())
        if len(rows) != len(ids) or not all(_unchanged(rows[i], at) for i, at in change.seen.items()):
            return False
        _Writer(conn, db.owner_id, run.id, change, now).write(rows)
        failpoint(f"mid_{run.job}")
    failpoint(f"after_{run.job}")
    return True


def fence(conn: Connection, db: Database, run: Run, now: dt.datetime) -> None:
    """Let only the run that holds the job's lease and has not ended write on in this transaction; its lease is renewed.

    Raises:
        LostRace: it was taken for dead, or was written down as ended.
    """
    args = {"owner": db.owner_id, "lease": run.lease, "run": run.id, "expires": now + HOLD}
    if not conn.execute(SQL["change.fence"], args).rowcount:
        raise LostRace("another run of this job has begun, or this one has ended")


class _Writer:
    """Writes the rows of one change and records each."""

    def __init__(
        self, conn: Connection, owner: uuid.UUID, run: uuid.UUID, change: Change, now: dt.datetime
    ) -> None:
        self._conn, self._owner, self._run, self._change, self._now = conn, owner, run, change, now
        at = conn.execute(SQL["change.next_number"], {"owner": owner, "run": run}).fetchone()
        self._number: int = at["number"] if at else 0
        self._step: int = at["step"] + 1 if at else 1

    def write(self, rows: Mapping[uuid.UUID, Row]) -> None:
        change = self._change
        if change.made is not None:
            self._make(
                {"owner_id": self._owner, "recorded_at": self._now, "changed_at": self._now}
                | dict(change.made)
                | (_counted([rows[m] for m in change.counts]) if change.counts else {})
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
        row = self._conn.execute(STATEMENTS[name], {"owner": self._owner, **args}).fetchone()
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


def by_id(found: Sequence[Row]) -> dict[uuid.UUID, Row]:
    """Locked rows by their id, each as a document of its columns."""
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
STATEMENTS = {
    name: SQL[f"change.{name}"].replace(b"COLUMNS", ", ".join(COLUMNS).encode())
    for name in ("update_memory", "insert_memory")
}
"""Those that write every stored column of a memory."""
