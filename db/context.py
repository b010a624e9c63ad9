"""What a session is given when it starts, as the database has it: candidates for what holds, what one session brought, and
the last sessions of a project. The order of every list depends on the data alone."""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
import uuid
from collections.abc import Sequence

from cems.models import Memory
from db.connect import Database, Row
from db.memories import memory_of
from db.queries import SQL

DEPTH = 120
"""Candidates of each project, by each order."""


@dataclasses.dataclass(frozen=True)
class Wanted:
    """Which memories may be given: of which projects (and what holds everywhere), and the whitelist. A memory without
    concepts passes the list of concepts, and one that a person added passes both lists."""

    projects: Sequence[uuid.UUID]
    kinds: Sequence[str]
    concepts: Sequence[str] = ()
    """None given: any."""


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A memory, and what speaks for it besides its date."""

    memory: Memory
    used: int
    pinned: bool


@dataclasses.dataclass(frozen=True)
class LastSession:
    """A session of the project, and the newest memories it brought; where it has a summary, that comes first."""

    id: uuid.UUID
    title: str | None
    last_at: dt.datetime
    memories: tuple[Memory, ...]


def standing(
    db: Database,
    wanted: Wanted,
    now: dt.datetime,
    *,
    since: dt.datetime | None = None,
    besides: uuid.UUID | None = None,
) -> list[Candidate]:
    """Candidates for what holds, newest first.

    Args:
        since: only what was recorded after this time.
        besides: without what stands on lines of this session.
    """
    args = {
        "owner": db.owner_id,
        "projects": list(wanted.projects),
        "kinds": list(wanted.kinds),
        "concepts": list(wanted.concepts) or None,
        "now": now,
        "since": since,
        "besides": besides,
        "depth": DEPTH,
    }
    with db.transaction() as conn:
        return [_candidate(row) for row in conn.execute(SQL["context.standing"], args).fetchall()]


def of_session(db: Database, session: uuid.UUID, now: dt.datetime, limit: int) -> list[Candidate]:
    """What a session and its subagents brought, newest first."""
    args = {"owner": db.owner_id, "session": session, "now": now, "limit": limit}
    with db.transaction() as conn:
        return [_candidate(row) for row in conn.execute(SQL["context.of_session"], args).fetchall()]


def last_line_at(db: Database, session: uuid.UUID) -> dt.datetime | None:
    """The time of a session's last line; None where none has landed."""
    with db.transaction() as conn:
        args = {"owner": db.owner_id, "session": session}
        row = conn.execute(SQL["context.last_line_at"], args).fetchone()
    return row["last_at"] if row else None


def last_sessions(
    db: Database, projects: Sequence[uuid.UUID], besides: uuid.UUID, now: dt.datetime, *, limit: int = 6
) -> list[LastSession]:
    """The newest sessions of some projects, without the one that starts."""
    args = {
        "owner": db.owner_id,
        "projects": list(projects),
        "besides": besides,
        "now": now,
        "limit": limit,
        "memories": 3,
    }
    with db.transaction() as conn:
        rows = conn.execute(SQL["context.last_sessions"], args).fetchall()
    found = []
    for session, group in itertools.groupby(rows, key=lambda row: row["session"]):
        own = list(group)
        memories = tuple(memory_of(row) for row in own if row["id"] is not None)
        found.append(LastSession(session, own[0]["session_title"], own[0]["last_at"], memories))
    return found


def _candidate(row: Row) -> Candidate:
    return Candidate(memory_of(row), row["used_count"], row["pinned"])
