"""Notes that an agent writes down by a tool call. It may do so because a page it read says so; therefore a note has the trust
of what an assistant says in a session and no more: it can be no preference, adds no weight to a memory that is there, and
brings nothing back that was forgotten or erased."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from typing import Literal

from cems.ids import uuid7
from cems.terms import memory_terms
from db.connect import Database
from db.memories import HandWritten, content_hash
from db.queries import SQL
from db.successors import successor

AUTHOR = "mcp"
CONFIDENCE = 0.6
"""Nobody checked it against a quote."""


@dataclasses.dataclass(frozen=True)
class Added:
    """What became of a note."""

    outcome: Literal["new", "known", "forgotten"]
    id: uuid.UUID | None
    """The memory that has its content; None where that was forgotten, or went while it was looked for."""


def add(db: Database, note: HandWritten, session: uuid.UUID | None, now: dt.datetime) -> Added:
    """Store a note with its session as its source.

    Args:
        note: of a project, and no preference: the database refuses one that is not the user's.
    """
    assert note.project is not None, "only a person may say that something holds everywhere"
    owner, project = db.owner_id, note.project
    digest = content_hash(note.kind, note.title, note.body)
    content = {"owner": owner, "content_hash": digest, "project": project.id, "kind": note.kind}
    with db.transaction() as conn:
        heir = successor(conn, owner, project.id, note.kind, digest)
        if heir == "forgotten" or conn.execute(SQL["memory.is_forgotten"], content).fetchone():
            return Added("forgotten", None)
        if heir is not None:
            return Added("known", heir)
        place = {"identity": project.identity, "name": project.name, "root": project.root}
        conn.execute(SQL["memory.ensure_project"], {"owner": owner, "id": project.id, "now": now, **place})
        written = {
            "id": uuid7(),
            "title": note.title,
            "body": note.body,
            "terms": memory_terms(note.title, note.body, note.files, now),
            "concepts": list(note.concepts),
            "files": list(note.files),
            "confidence": CONFIDENCE,
            "author": AUTHOR,
            "now": now,
        }
        row = conn.execute(SQL["note.store"], content | written).fetchone()
        if row is None:
            same = conn.execute(SQL["note.same"], content).fetchone()
            return Added("known", same["id"] if same else None)
        source = {"owner": owner, "id": uuid7(), "memory": row["id"], "session": session, "now": now}
        conn.execute(SQL["note.add_source"], source)
        return Added("new", row["id"])
