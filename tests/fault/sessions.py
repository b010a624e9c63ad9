"""Transcripts for tests of one case each: files of a few records, written as the case needs them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from db.connect import Connection, Row
from tests.fault.writer import encode, record

SESSION = "5e551011-0000-4000-8000-000000000001"


def session_file(projects: Path, name: str = SESSION, folder: str = "-nowhere-shop") -> Path:
    """Where a session's transcript is; its folder exists afterwards."""
    path = projects / folder / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def prompt(number: int, session: str = SESSION, **more: Any) -> dict[str, Any]:
    return record(session, number, "user", **more)


def answer(number: int, session: str = SESSION, **more: Any) -> dict[str, Any]:
    return record(session, number, "assistant", **more)


def said(text: str, session: str = SESSION, **more: Any) -> dict[str, Any]:
    """A user record of these words."""
    made = record(session, 0, "user", **more)
    return made | {"message": {"role": "user", "content": text}}


def replied(*blocks: Any, session: str = SESSION, **more: Any) -> dict[str, Any]:
    """An assistant record; a block that is a text becomes a text block."""
    made = record(session, 0, "assistant", **more)
    content = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
    return made | {
        "message": {"id": f"msg_{uuid.uuid4().hex}", "role": "assistant", "model": "m", "content": content}
    }


def call(name: str, call_id: str = "toolu_1", **given: Any) -> dict[str, Any]:
    """A tool_use block."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def result(text: object, call_id: str = "toolu_1", *, error: bool = False, **more: Any) -> dict[str, Any]:
    """A user record with a tool's result."""
    block = {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": error}
    made = record(SESSION, 0, "user", **more)
    return made | {"message": {"role": "user", "content": [block]}}


def lines(*records: Any) -> bytes:
    """Records as whole lines; bytes stay as they are and get a newline."""
    return b"".join((r if isinstance(r, bytes) else encode(r)) + b"\n" for r in records)


def write(path: Path, *records: Any) -> Path:
    """Write a transcript anew."""
    path.write_bytes(lines(*records))
    return path


def append(path: Path, *records: Any) -> None:
    with path.open("ab") as f:
        f.write(lines(*records))


def uuids(records: Sequence[Any]) -> list[str]:
    return [r["uuid"] for r in records]


def landed(sql: Connection) -> list[Row]:
    """The lines of the database, in the order of their files."""
    return sql.execute(
        b"select l.*, t.path from line l join transcript t on t.id = l.transcript_id"
        b' order by t.path, l.generation, l."offset", l.part'
    ).fetchall()


def landed_uuids(sql: Connection) -> list[str]:
    return [str(row["uuid"]) for row in landed(sql)]


def count(sql: Connection, query: str) -> int:
    """The number a query `select … as n` gives."""
    row = sql.execute(query.encode()).fetchone()
    assert row is not None
    return int(row["n"])
