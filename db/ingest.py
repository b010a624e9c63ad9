"""The write transactions of the observer, and nobody else's: landing lines and moving the cursor, closing batches,
claiming, finishing, releasing and splitting them. Each is one short transaction; each is fenced, so that of two processes
which try the same step one writes and the other raises LostRace with nothing written."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections.abc import Sequence
from typing import Any

import msgspec
from psycopg.types.json import Json, Jsonb

from cems.errors import LostRace
from cems.failpoint import failpoint
from cems.ids import uuid7
from cems.models import Line, Observation, ToolUse
from db import memories, usage
from db.connect import Connection, Database, Row
from db.queries import SQL

LINE_CAP = 32 * 1024
"""Bytes one line counts for in a batch: no more of it than this is ever kept."""


@dataclasses.dataclass(frozen=True)
class Cursor:
    """How far a transcript has been read, as the database has it."""

    id: uuid.UUID
    machine_id: uuid.UUID
    path: str
    session_id: uuid.UUID
    generation: int = 0
    offset: int = 0
    """Always the byte after a newline."""
    head: bytes = b""
    head_length: int = 0
    marker: bytes = b""
    """Hash of the last bytes before the offset, taken from the bytes that were read."""
    marker_length: int = 0
    size: int = 0
    inode: int = 0
    modified_ns: int = 0
    landed: int = 0
    skipped: dict[str, int] = dataclasses.field(default_factory=dict)
    state: dict[str, Any] = dataclasses.field(default_factory=dict)
    """What the reader of the next chunk needs of this one."""


class NewProject(msgspec.Struct):
    """A project as the landing found it."""

    id: uuid.UUID
    identity: str
    name: str
    root: str


class NewSession(msgspec.Struct):
    """A session as the landing found it."""

    id: uuid.UUID
    name: str
    agent: str | None = None
    parent_id: uuid.UUID | None = None
    project_id: uuid.UUID | None = None
    title: str | None = None
    entrypoint: str | None = None
    started_at: dt.datetime | None = None
    last_at: dt.datetime | None = None
    ended_at: dt.datetime | None = None


@dataclasses.dataclass(frozen=True)
class SetAside:
    """A complete line that could not be handled."""

    offset: int
    length: int
    digest: bytes
    reason: str
    excerpt: str


@dataclasses.dataclass
class Landing:
    """All that one chunk of a transcript brings."""

    before: Cursor
    after: Cursor
    rows: bytes = b"[]"
    """JSON array of rows for `line`."""
    row_count: int = 0
    projects: Sequence[NewProject] = ()
    sessions: Sequence[NewSession] = ()
    set_aside: Sequence[SetAside] = ()
    cleared: Sequence[str] = ()
    """Names of sessions that a clear in this chunk ended."""
    showings: Sequence[usage.Showing] = ()
    sayings: Sequence[usage.Saying] = ()


@dataclasses.dataclass(frozen=True)
class Claimed:
    """A batch under lease, with its lines. The lease must outlast the provider's timeout."""

    id: uuid.UUID
    lease: uuid.UUID
    session_id: uuid.UUID
    attempts: int
    """This attempt included."""
    question: uuid.UUID | None
    lines: Sequence[Line]


def cursors(db: Database, machine: uuid.UUID) -> dict[str, Cursor]:
    """Every cursor of a machine, by path."""
    with db.transaction() as conn:
        rows = conn.execute(SQL["ingest.transcripts"], {"owner": db.owner_id, "machine": machine}).fetchall()
    return {row["path"]: _cursor(row) for row in rows}


def cursor(db: Database, transcript: uuid.UUID) -> Cursor | None:
    """One cursor as the database has it now; what to do after any doubt."""
    with db.transaction() as conn:
        row = conn.execute(SQL["ingest.transcript"], {"owner": db.owner_id, "id": transcript}).fetchone()
    return _cursor(row) if row else None


def land(db: Database, landing: Landing, now: dt.datetime) -> int:
    """Insert the lines and move the cursor, in one transaction; returns how many lines were new.

    Raises:
        LostRace: the cursor is no longer where this landing read from.
    """
    before, after = landing.before, landing.after
    with db.transaction() as conn:
        owner = {"owner": db.owner_id, "now": now}
        row = conn.execute(SQL["ingest.land"], owner | _landed(landing)).fetchone()
        if row is None:
            raise LostRace
        for aside in landing.set_aside:
            place = {"id": uuid7(), "transcript": before.id, "generation": after.generation}
            conn.execute(SQL["ingest.set_aside"], owner | dataclasses.asdict(aside) | place)
        if landing.cleared:
            ended = {"session": before.session_id, "names": list(landing.cleared)}
            conn.execute(SQL["ingest.end_sessions_of"], owner | ended)
        usage.learn(conn, db.owner_id, landing.showings, landing.sayings, now)
        failpoint("before_land_commit")
    failpoint("after_land_commit")
    return int(row["landed"])


def landed_call(db: Database, transcript: uuid.UUID, call_id: str) -> ToolUse | None:
    """A tool call of a transcript that landed before, by its id; for a result that comes after a restart."""
    wanted = {"owner": db.owner_id, "transcript": transcript, "wanted": Jsonb([{"id": call_id}])}
    with db.transaction() as conn:
        row = conn.execute(SQL["ingest.landed_call"], wanted).fetchone()
    uses = msgspec.convert(row["tools"], list[ToolUse]) if row else []
    return next((use for use in uses if use.id == call_id), None)


# ---- batches


def waiting_sessions(db: Database, now: dt.datetime, idle: dt.timedelta) -> list[Row]:
    """Sessions with lines in no batch: session_id, lines, bytes, boundary, ended, idle."""
    with db.transaction() as conn:
        return conn.execute(
            SQL["ingest.waiting_sessions"],
            {"owner": db.owner_id, "now": now, "idle": idle, "line_cap": LINE_CAP},
        ).fetchall()


def waiting_lines(db: Database, session: uuid.UUID) -> tuple[list[Row], uuid.UUID | None]:
    """A session's lines in no batch, in order (uuid, kind, origin, bytes, boundary), and the question before them."""
    with db.transaction() as conn:
        args = {"owner": db.owner_id, "session": session, "line_cap": LINE_CAP}
        rows = conn.execute(SQL["ingest.waiting_lines"], args).fetchall()
        question = conn.execute(SQL["ingest.last_question"], args).fetchone()
    return rows, question["uuid"] if question else None


def close_batch(
    db: Database,
    session: uuid.UUID,
    lines: Sequence[Row],
    question: uuid.UUID | None,
    closed_by: str,
    now: dt.datetime,
) -> None:
    """Put waiting lines into a new batch.

    Raises:
        LostRace: one of the lines is in a batch already.
    """
    with db.transaction() as conn:
        _new_batch(
            conn,
            db.owner_id,
            session,
            [(r["uuid"], r["bytes"]) for r in lines],
            question,
            closed_by,
            now,
            from_batch=None,
        )


def claim(
    db: Database, now: dt.datetime, lease_time: dt.timedelta, machine: uuid.UUID | None = None
) -> Claimed | None:
    """Take the oldest due batch under a lease; None where none is due. A crash afterwards only delays it: until
    the lease runs out, or until the next observer of the machine calls `free_claims`."""
    lease = uuid7()
    with db.transaction() as conn:
        args = {
            "owner": db.owner_id,
            "now": now,
            "lease": lease,
            "lease_time": lease_time,
            "machine": machine,
        }
        row = conn.execute(SQL["ingest.claim_batch"], args).fetchone()
        if row is None:
            return None
        rows = conn.execute(
            SQL["ingest.batch_lines"], {"owner": db.owner_id, "batch": row["id"], "question": row["question"]}
        ).fetchall()
    failpoint("after_claim")
    lines = [_line(r) for r in rows]
    return Claimed(row["id"], lease, row["session_id"], row["attempts"], row["question"], lines)


def free_claims(db: Database, machine: uuid.UUID, *, outage: bool = False) -> int:
    """Give back every batch that an observer of this machine holds; returns how many. For an observer that knows
    the one before it to be dead, or that lost its own claim with a connection. Whoever still works on one finds
    it gone (LostRace). The attempt counts, unless an outage of the database ended it."""
    with db.transaction() as conn:
        args = {"owner": db.owner_id, "machine": machine, "give_back": 1 if outage else 0}
        return conn.execute(SQL["ingest.free_claims"], args).rowcount


def finish(
    db: Database, claimed: Claimed, observations: Sequence[Observation], author: str, now: dt.datetime
) -> memories.Stored:
    """Store what was observed and close the batch, in one transaction.

    Raises:
        LostRace: the lease ran out and another process has the batch, or finished it.
    """
    with db.transaction() as conn:
        done = conn.execute(
            SQL["ingest.finish_batch"],
            {
                "owner": db.owner_id,
                "batch": claimed.id,
                "lease": claimed.lease,
                "author": author,
                "observations": len(observations),
                "now": now,
            },
        )
        if done.rowcount != 1:
            raise LostRace
        stored = memories.store(conn, db.owner_id, observations, author, claimed.session_id, now)
        failpoint("before_finish_commit")
    failpoint("after_finish_commit")
    return stored


def release(db: Database, claimed: Claimed, error: str, not_before: dt.datetime, *, burnt: bool) -> None:
    """Give a batch back, to be tried again; an attempt that says nothing about the batch is not counted (`burnt` False)."""
    with db.transaction() as conn:
        conn.execute(
            SQL["ingest.release_batch"],
            {
                "owner": db.owner_id,
                "batch": claimed.id,
                "lease": claimed.lease,
                "error": error[:500],
                "not_before": not_before,
                "give_back": 0 if burnt else 1,
            },
        )


def set_batch_aside(db: Database, claimed: Claimed, error: str) -> None:
    """Take a batch out of the queue, with its lines and the last error, until somebody retries it."""
    with db.transaction() as conn:
        conn.execute(
            SQL["ingest.set_batch_aside"],
            {"owner": db.owner_id, "batch": claimed.id, "lease": claimed.lease, "error": error[:500]},
        )


def split(db: Database, claimed: Claimed, at: int, error: str, now: dt.datetime) -> None:
    """Keep a batch's own lines before index `at` and move the others into a new batch; attempts begin anew for both.

    Raises:
        LostRace: another process has the batch.
    """
    own = [line for line in claimed.lines if line.uuid != claimed.question]
    first, second = own[:at], own[at:]
    questions = [line.uuid for line in own[:at] if line.kind == "prompt"]
    question = None if second[0].kind == "prompt" else questions[-1] if questions else claimed.question
    with db.transaction() as conn:
        kept = conn.execute(
            SQL["ingest.shrink_batch"],
            {
                "owner": db.owner_id,
                "batch": claimed.id,
                "lease": claimed.lease,
                "lines": len(first),
                "bytes": sum(min(line.bytes, LINE_CAP) for line in first),
                "now": now,
                "error": error[:500],
            },
        )
        if kept.rowcount != 1:
            raise LostRace
        moved = [(line.uuid, min(line.bytes, LINE_CAP)) for line in second]
        _new_batch(
            conn, db.owner_id, claimed.session_id, moved, question, "split", now, from_batch=claimed.id
        )


def next_due(db: Database) -> dt.datetime | None:
    """When the next pending batch can be claimed; None where none is pending."""
    with db.transaction() as conn:
        row = conn.execute(SQL["ingest.next_due"], {"owner": db.owner_id}).fetchone()
    return row["due"] if row else None


def _new_batch(
    conn: Connection,
    owner: uuid.UUID,
    session: uuid.UUID,
    lines: Sequence[tuple[uuid.UUID, int]],
    question: uuid.UUID | None,
    closed_by: str,
    now: dt.datetime,
    *,
    from_batch: uuid.UUID | None,
) -> None:
    batch = uuid7()
    conn.execute(
        SQL["ingest.new_batch"],
        {
            "owner": owner,
            "id": batch,
            "session": session,
            "closed_by": closed_by,
            "lines": len(lines),
            "bytes": sum(size for _, size in lines),
            "question": question,
            "now": now,
        },
    )
    uuids = [line for line, _ in lines]
    filled = conn.execute(
        SQL["ingest.fill_batch"], {"owner": owner, "batch": batch, "uuids": uuids, "from_batch": from_batch}
    )
    if filled.rowcount != len(uuids):
        raise LostRace


def _landed(landing: Landing) -> Row:
    """The parameters of the statement that lands."""
    before, after = landing.before, landing.after
    return {
        "id": before.id,
        "machine": before.machine_id,
        "path": before.path,
        "session": before.session_id,
        "old_generation": before.generation,
        "old_offset": before.offset,
        "generation": after.generation,
        "offset": after.offset,
        "head": after.head,
        "head_length": after.head_length,
        "marker": after.marker,
        "marker_length": after.marker_length,
        "size": after.size,
        "inode": after.inode,
        "modified_ns": after.modified_ns,
        "state": Jsonb(after.state),
        "skipped": Jsonb(after.skipped),
        "copies": after.skipped.get("copy", 0),
        "row_count": landing.row_count,
        "rows": Json(landing.rows, bytes),
        "projects": Json(landing.projects, msgspec.json.encode),
        "sessions": Json(landing.sessions, msgspec.json.encode),
    }


def _cursor(row: Row) -> Cursor:
    return Cursor(**{**row, "head": bytes(row["head"]), "marker": bytes(row["marker"])})


def _line(row: Row) -> Line:
    tools = msgspec.convert(row["tools"], tuple[ToolUse, ...]) if row["tools"] else ()
    return Line(**{**row, "tools": tools})
