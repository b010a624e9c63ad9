"""Memories in the database: stored from observations or by hand with their evidence, listed and shown. The same content seen
again adds a source and a count to the memory there is; forgotten content is not stored again. What a person changes of a
memory is in `db.lifecycle`."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import uuid
from collections.abc import Sequence
from typing import Any

from cems.errors import NotFound, UsageError
from cems.failpoint import failpoint
from cems.ids import uuid7
from cems.models import Evidence, Kind, Memory, Observation
from cems.project import Project
from cems.terms import AROUND_LIMIT, memory_terms
from cems.text import normalise, sanitise
from db import successors
from db.connect import Connection, Database, Row
from db.parts_of_ids import by_part_of_id
from db.queries import SQL


@dataclasses.dataclass
class Stored:
    """What became of observations that were stored."""

    new: dict[str, int] = dataclasses.field(default_factory=dict)
    """New memories by kind."""
    seen_again: int = 0
    forgotten: int = 0
    """Observations refused because their content was forgotten."""
    ids: list[uuid.UUID] = dataclasses.field(default_factory=list)


def content_hash(kind: str, title: str, body: str) -> bytes:
    """What makes two observations the same. A preference is its sentence, whatever was said around it; of everything else
    the body belongs to it, because different fixes and decisions share short titles."""
    text = normalise(title) if kind == "preference" else normalise(title) + "\n" + normalise(body)
    return hashlib.blake2b(f"{kind}\n{text}".encode("utf-8", "replace"), digest_size=16).digest()


def store(
    conn: Connection,
    owner: uuid.UUID,
    observations: Sequence[Observation],
    author: str,
    session: uuid.UUID | None,
    now: dt.datetime,
) -> Stored:
    """Store observations with their sources, inside the caller's transaction."""
    stored = Stored()
    for seen in observations:
        _store_one(conn, owner, seen, seen.project_id, author, session, now, stored)
        failpoint("mid_insert")
    return stored


def _store_one(
    conn: Connection,
    owner: uuid.UUID,
    seen: Observation,
    project: uuid.UUID | None,
    author: str,
    session: uuid.UUID | None,
    now: dt.datetime,
    stored: Stored,
) -> None:
    digest = content_hash(seen.kind, seen.title, seen.body)
    content = {"owner": owner, "content_hash": digest, "project": project}
    if author == "hand":
        conn.execute(SQL["memory.lift_tombstone"], content)
    successor = successors.successor(conn, owner, project, seen.kind, digest)
    if successor == "forgotten" or conn.execute(SQL["memory.is_forgotten"], content).fetchone():
        stored.forgotten += 1
        return
    if successor is not None:
        conn.execute(SQL["memory.wake"], {"owner": owner, "id": successor, "at": seen.occurred_at})
        _add_to(conn, owner, successor, seen, session, now, stored, is_new=False)
        return
    row = conn.execute(
        SQL["memory.store"],
        {
            "owner": owner,
            "id": uuid7(),
            "layer": "observation",
            "kind": seen.kind,
            "project": project,
            "title": seen.title,
            "body": seen.body,
            "terms": memory_terms(seen.title, seen.body, seen.files, seen.occurred_at),
            # Of where it was said first. Said again it keeps that: more would weaken each word of it, and its vector would
            # have to be made anew each time.
            "around": sanitise(seen.around)[:AROUND_LIMIT],
            "concepts": list(seen.concepts),
            "files": list(seen.files),
            "confidence": seen.confidence,
            "origin": seen.origin if seen.evidence else "user",
            "author": author,
            "content_hash": digest,
            "occurred_at": seen.occurred_at,
            "now": now,
        },
    ).fetchone()
    assert row is not None
    _add_to(conn, owner, row["id"], seen, session, now, stored, is_new=row["is_new"])


def _add_to(
    conn: Connection,
    owner: uuid.UUID,
    memory: uuid.UUID,
    seen: Observation,
    session: uuid.UUID | None,
    now: dt.datetime,
    stored: Stored,
    *,
    is_new: bool,
) -> None:
    """Add an observation's sources to its memory; where the memory was there before, count it as seen again."""
    stored.ids.append(memory)
    added = sum(_add_source(conn, owner, memory, e, session, seen.occurred_at, now) for e in seen.evidence)
    if is_new:
        stored.new[seen.kind] = stored.new.get(seen.kind, 0) + 1
    elif added or not seen.evidence:
        stored.seen_again += 1
        conn.execute(
            SQL["memory.seen_again"],
            {
                "owner": owner,
                "id": memory,
                "now": now,
                "files": list(seen.files),
                "concepts": list(seen.concepts),
                "confidence": seen.confidence,
                "origin": seen.origin if seen.evidence else "user",
            },
        )


def _add_source(
    conn: Connection,
    owner: uuid.UUID,
    memory: uuid.UUID,
    evidence: Evidence,
    session: uuid.UUID | None,
    at: dt.datetime,
    now: dt.datetime,
) -> int:
    return conn.execute(
        SQL["memory.add_source"],
        {
            "owner": owner,
            "id": uuid7(),
            "memory": memory,
            "line": evidence.line,
            "session": session,
            "quote": evidence.quote,
            "origin": evidence.origin,
            "at": at,
            "now": now,
        },
    ).rowcount


def add_by_hand(db: Database, entries: Sequence[HandWritten], now: dt.datetime) -> Stored:
    """Store memories a person wrote, all or none."""
    stored = Stored()
    with db.transaction() as conn:
        for entry in entries:
            if entry.project is not None:
                conn.execute(
                    SQL["memory.ensure_project"],
                    {
                        "owner": db.owner_id,
                        "id": entry.project.id,
                        "now": now,
                        "identity": entry.project.identity,
                        "name": entry.project.name,
                        "root": entry.project.root,
                    },
                )
            seen = Observation(
                entry.kind,
                entry.title,
                entry.body,
                entry.concepts,
                entry.files,
                1.0,
                (),
                now,
                uuid.UUID(int=0),
            )
            project = entry.project.id if entry.project else None
            _store_one(conn, db.owner_id, seen, project, "hand", None, now, stored)
    return stored


@dataclasses.dataclass(frozen=True)
class HandWritten:
    """A memory as a person gives it; project None: it holds everywhere."""

    kind: Kind
    title: str
    body: str = ""
    concepts: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    project: Project | None = None


@dataclasses.dataclass(frozen=True)
class Filter:
    """Which memories to list; None: any."""

    ids: Sequence[uuid.UUID] | None = None
    kind: str | None = None
    layer: str | None = None
    concept: str | None = None
    file: str | None = None
    since: dt.datetime | None = None
    projects: Sequence[uuid.UUID] | None = None
    everywhere: bool = True
    """With projects: also what holds everywhere."""
    state: str = "active"
    """`active`, `forgotten` or `all`."""
    limit: int = 50


def list_memories(db: Database, wanted: Filter) -> list[Memory]:
    """Memories, newest first."""
    with db.transaction() as conn:
        rows = conn.execute(
            SQL["memory.list"], {"owner": db.owner_id, **dataclasses.asdict(wanted)}
        ).fetchall()
    return [memory_of(row) for row in rows]


def memory_of(row: Row) -> Memory:
    """A row of `memory.list` or of a search as a Memory."""
    fields: dict[str, Any] = {f.name: row[f.name] for f in dataclasses.fields(Memory)}
    return Memory(**{**fields, "concepts": tuple(row["concepts"]), "files": tuple(row["files"])})


def resolve_id(db: Database, text: str) -> uuid.UUID:
    """The memory whose id is `text`, or ends with it as short ids do, or begins with it.

    Raises:
        NotFound: none, or more than one.
    """
    return by_part_of_id(db, "memory.ids_like", text, "memory", "`cems memory list` shows ids")


def show(db: Database, memory: uuid.UUID) -> tuple[Memory, list[dict[str, Any]]]:
    """A memory and the evidence it stands on, oldest first.

    Raises:
        NotFound: there is no such memory.
    """
    found = list_memories(db, Filter(ids=[memory], state="all"))
    if not found:
        raise NotFound(f"there is no memory {memory}")
    with db.transaction() as conn:
        evidence = conn.execute(SQL["memory.evidence"], {"owner": db.owner_id, "id": memory}).fetchall()
    return found[0], evidence


def find_project(db: Database, wanted: str) -> list[uuid.UUID]:
    """Projects by name, identity, root folder or id.

    Raises:
        NotFound: no project is called that.
    """
    with db.transaction() as conn:
        rows = conn.execute(SQL["memory.find_projects"], {"owner": db.owner_id, "wanted": wanted}).fetchall()
    if not rows:
        raise NotFound(
            f"no project is called {wanted!r}",
            hint="`cems status` lists the projects; a folder's path works too",
        )
    if len({r["identity"] for r in rows}) > 1:
        several = ", ".join(r["identity"] for r in rows)
        raise UsageError(
            f"several projects are called {wanted!r}: {several}", hint="name one by its identity"
        )
    return [r["id"] for r in rows]


def projects(db: Database) -> list[Row]:
    """Every project with how many memories it has: id, identity, name, root, memories."""
    with db.transaction() as conn:
        return conn.execute(SQL["memory.projects"], {"owner": db.owner_id}).fetchall()
