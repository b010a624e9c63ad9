"""Memories opened one by one, for whoever was given their ids: the whole text and what replaced it, the evidence it stands on,
what was learnt around it, and how fresh all of it is. Looks only, with the reader's role: what was forgotten is not there."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections.abc import Sequence
from typing import Any

from cems.models import Memory
from db.connect import Database, Row
from db.memories import Filter, list_memories, memory_of
from db.queries import SQL

NIL = uuid.UUID(int=0)


@dataclasses.dataclass(frozen=True)
class Opened:
    """A memory with what a list does not tell."""

    memory: Memory
    project_id: uuid.UUID | None
    pinned: bool
    how: str | None
    """Where it is superseded: `merged`, `condensed` or `replaced`; None where nobody noted it."""
    successor: Memory | None
    """Where it is superseded: what stands for it now."""
    hidden: bool
    """It is superseded by something that was forgotten since, and must not come back by this way."""


def opened(
    db: Database, ids: Sequence[uuid.UUID], projects: Sequence[uuid.UUID] | None = None
) -> list[Opened]:
    """The memories of these ids, in their order; those that are not there are left out.

    Args:
        projects: only of these, and what holds everywhere; None: of any.
    """
    args = {
        "owner": db.owner_id,
        "ids": list(ids),
        "projects": None if projects is None else list(projects),
    }
    with db.transaction() as conn:
        rows = {row["id"]: row for row in conn.execute(SQL["detail.opened"], args).fetchall()}
    ends = list({row["ends_in"] for row in rows.values()} - {None})
    standing = {m.id: m for m in list_memories(db, Filter(ids=ends, state="all"))} if ends else {}
    return [_opened(rows[one], standing) for one in dict.fromkeys(ids) if one in rows]


def _opened(row: Row, standing: dict[uuid.UUID, Memory]) -> Opened:
    successor = standing.get(row["ends_in"])
    lost = row["ends_in"] is not None and successor is None  # forgotten between the two looks
    return Opened(
        memory_of(row), row["project_id"], row["pinned"], row["how"], successor, row["hidden"] or lost
    )


def evidence(
    db: Database, memory: uuid.UUID, limit: int, projects: Sequence[uuid.UUID] | None = None
) -> list[dict[str, Any]]:
    """What a memory stands on, oldest first: quote, origin, at, recorded_at, session, session_title, agent, and where it is
    another memory source_memory_id and source_title, which is None where that one was forgotten or is `elsewhere`.

    Args:
        projects: what is of another project than these is `elsewhere`; None: nothing is.
    """
    args = {
        "owner": db.owner_id,
        "id": memory,
        "limit": limit,
        "projects": None if projects is None else list(projects),
    }
    with db.transaction() as conn:
        return conn.execute(SQL["detail.evidence"], args).fetchall()


def neighbours(
    db: Database,
    project: uuid.UUID,
    at: dt.datetime,
    now: dt.datetime,
    *,
    memory: uuid.UUID = NIL,
    before: int,
    after: int,
) -> list[Memory]:
    """What was learnt in one project just before and after a time, oldest first, without the memory asked about.

    Args:
        memory: whose time it is; without one, what happened at that very time counts as after.
    """
    args = {
        "owner": db.owner_id,
        "project": project,
        "at": at,
        "id": memory,
        "before": before,
        "after": after,
        "now": now,
    }
    with db.transaction() as conn:
        return [memory_of(row) for row in conn.execute(SQL["detail.neighbours"], args).fetchall()]


def freshness(db: Database, project: uuid.UUID) -> Row:
    """Active memories: here, everywhere, total; newest: when the last one was recorded; landed_at: when a session last brought
    a line."""
    with db.transaction() as conn:
        row = conn.execute(SQL["detail.freshness"], {"owner": db.owner_id, "project": project}).fetchone()
    assert row is not None
    return row
