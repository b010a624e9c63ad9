"""Reads a transcript as the observer does, without a database: bytes → landed lines."""

from __future__ import annotations

import collections
import uuid
from pathlib import Path
from uuid import UUID

import msgspec

from cems.models import Line, ToolUse
from cems.redact import Redactor
from db.ingest import Cursor, Landing
from observer.land import Lines, Projects, Session

MACHINE = uuid.UUID("00000000-0000-4000-8000-00000000cafe")


class _Landed(msgspec.Struct):
    uuid: UUID
    session_id: UUID
    project_id: UUID
    kind: str
    origin: str
    text: str
    at: str | None = None
    bytes: int = 0
    tools: list[ToolUse] | None = None


def lines_of(path: Path, agent: str | None = None) -> tuple[list[Line], collections.Counter[str]]:
    """The landed lines of one transcript, in order, and how many records each rule skipped."""
    import datetime as dt

    session = Session(path.stem, agent, str(path.parent), MACHINE)
    reader = Lines(session, Redactor(b"k" * 32), Projects(MACHINE))
    cursor = Cursor(uuid.uuid4(), MACHINE, str(path), session.id)
    landing = Landing(cursor, cursor)
    data = path.read_bytes()
    if not data.endswith(b"\n"):
        data += b"\n"
    skipped = reader.take(data, 0, landing, dt.datetime.now(dt.UTC))
    rows = msgspec.json.decode(landing.rows, type=list[_Landed])
    known: set[uuid.UUID] = set()
    lines = []
    for row in rows:
        if row.uuid in known:
            continue
        known.add(row.uuid)
        fields = {
            name: getattr(row, name)
            for name in ("uuid", "session_id", "project_id", "kind", "origin", "text", "bytes")
        }
        at = dt.datetime.fromisoformat(row.at) if row.at else None
        lines.append(Line(**fields, tools=tuple(row.tools or ()), at=at))
    return lines, skipped
