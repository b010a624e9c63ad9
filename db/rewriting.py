"""What reflection and summarization read: the live memories that may be rewritten into fewer, how far a job has looked at
them, and what must not come back. Besides that they write through `db.changes` alone."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections.abc import Sequence

from cems.models import Kind, Layer, Origin
from db.connect import Database, Row
from db.queries import SQL

MOST = 3_000
"""Memories of a project that are read at once; what is left is read by a later run."""


@dataclasses.dataclass(frozen=True)
class Source:
    """A live memory that another one may be made of."""

    id: uuid.UUID
    changed_at: dt.datetime
    layer: Layer
    kind: Kind
    project_id: uuid.UUID | None
    project: str | None
    """The project's name."""
    title: str
    body: str
    around: str
    concepts: list[str]
    files: list[str]
    origin: Origin
    author: str
    confidence: float
    occurred_at: dt.datetime
    seen_count: int
    shown_count: int
    used_count: int
    last_shown_at: dt.datetime | None
    last_used_at: dt.datetime | None
    pinned: bool
    fresh: bool
    """The job has not looked at it since it changed."""

    @property
    def kept(self) -> bool:
        """Whether it stays as it is, whatever is written about it."""
        return self.pinned or self.author == "hand"


@dataclasses.dataclass(frozen=True)
class Waiting:
    """A project with observations a job has not looked at."""

    project: uuid.UUID
    name: str
    fresh: int
    unfinished: bool
    """An earlier run wrote some reflections of this project and did not come to its end."""


@dataclasses.dataclass(frozen=True)
class Over:
    """A memory that is over, and why."""

    id: uuid.UUID
    changed_at: dt.datetime
    title: str
    why: str


def waiting(db: Database, mark: str, project: uuid.UUID | None, now: dt.datetime) -> list[Waiting]:
    """Projects with observations that a job has not looked at; `project`: only this one."""
    rows = _all(db, "rewriting.fresh", mark=mark, project=project, now=now)
    return [Waiting(r["project"], r["name"], r["fresh"], bool(r["unfinished"])) for r in rows]


def of_project(db: Database, mark: str, project: uuid.UUID, now: dt.datetime) -> list[Source]:
    """What can be condensed in a project, oldest first; the MOST that are fresh or newest."""
    rows = _sources(db, "of_project", mark=mark, project=project, now=now, limit=MOST)
    return sorted(rows, key=lambda s: (s.occurred_at, s.id))


def preferences(db: Database, mark: str, now: dt.datetime) -> list[Source]:
    """The user's preferences of every project and those that hold everywhere, oldest first."""
    return _sources(db, "preferences", mark=mark, now=now)


def quiet_projects(
    db: Database, project: uuid.UUID | None, before: dt.datetime
) -> list[tuple[uuid.UUID | None, int]]:
    """Projects that may have memories to be summarised, with how many; `project`: only this one."""
    rows = _all(db, "rewriting.quiet_projects", project=project, before=before)
    return [(row["project"], row["quiet"]) for row in rows]


def quiet(
    db: Database, marks: Sequence[str], project: uuid.UUID | None, before: dt.datetime, now: dt.datetime
) -> list[Source]:
    """Memories of a project that were neither said nor used since `before` and that no job of these marks has looked at,
    oldest first."""
    return _sources(db, "quiet", marks=list(marks), project=project, before=before, now=now, limit=MOST)


def over(db: Database, project: uuid.UUID | None, before: dt.datetime) -> list[Over]:
    """Memories that ended or were put off before a time, oldest first, without those that a person brought back."""
    rows = _all(db, "rewriting.over", project=project, before=before, limit=MOST)
    return [Over(**row) for row in rows]


def forgotten(db: Database, content_hash: bytes, project: uuid.UUID | None) -> bool:
    """Whether a person forgot this content, so that it must not come back."""
    return bool(_all(db, "memory.is_forgotten", content_hash=content_hash, project=project))


def forgotten_rules(db: Database) -> dict[bytes, str | None]:
    """What a person forgot in any project, by the hash of its content: the sentence, where it was a preference and is still
    stored."""
    return {bytes(row["content_hash"]): row["title"] for row in _all(db, "rewriting.forgotten_rules")}


def _all(db: Database, name: str, **args: object) -> list[Row]:
    with db.transaction() as conn:
        return conn.execute(SQL[name], {"owner": db.owner_id, **args}).fetchall()


def _sources(db: Database, name: str, **args: object) -> list[Source]:
    with db.transaction() as conn:
        rows = conn.execute(_STATEMENTS[name], {"owner": db.owner_id, **args}).fetchall()
    return [Source(**row) for row in rows]


_OF_OTHERS = {
    "project": "p.name as project",
    "fresh": "(k.changed_at is null or k.changed_at < m.changed_at) as fresh",
}
_COLUMNS = ", ".join(_OF_OTHERS.get(f.name, f"m.{f.name}") for f in dataclasses.fields(Source))
_STATEMENTS = {
    name: SQL[f"rewriting.{name}"].replace(b"COLUMNS", _COLUMNS.encode())
    for name in ("of_project", "preferences", "quiet")
}
