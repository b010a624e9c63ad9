"""Words of a line that stand around other memories as well: erasing a memory takes them from there too, and from what runs of
maintenance wrote down. Nobody is shown what stands around a memory, so nobody would see that a copy was left. Only whole
lines count: a short answer such as “yes” goes where it stands by itself, never out of the middle of a word."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence

from cems.terms import around
from db.connect import Connection, Row
from db.queries import SQL

_START = 40
"""Characters by which a line is looked for: what stands around a memory is the beginning of a line, never less of it."""


def erase(conn: Connection, owner: uuid.UUID, memory: uuid.UUID, now: dt.datetime) -> int:
    """Take the lines that a memory quotes out of what stands around others, inside the caller's transaction and before the
    lines lose their text. Returns how many memories had them; their vectors are made anew."""
    args = {"owner": owner, "id": memory, "now": now}
    said = [text for row in conn.execute(SQL["around.quoted"], args) if (text := around(row["text"]))]
    if not said:
        return 0
    looked_for = args | {"starts": [_start(text) for text in said]}
    _scrub(conn, owner, said, conn.execute(SQL["around.written"], looked_for).fetchall())
    beside = conn.execute(SQL["around.beside"], looked_for).fetchall()
    ids = [row["id"] for row in beside if _holds(row["around"], said)]
    for row in conn.execute(SQL["around.lock"], args | {"ids": ids}).fetchall():
        left = _without(row["around"], said)
        conn.execute(SQL["around.set"], args | {"id": row["id"], "around": left})
        conn.execute(SQL["lifecycle.drop_vectors"], args | {"id": row["id"]})
    return len(ids)


def _scrub(conn: Connection, owner: uuid.UUID, said: Sequence[str], written: Sequence[Row]) -> None:
    found = [row for row in written if _holds(row["before"], said) or _holds(row["after"], said)]
    places = {"runs": [row["run_id"] for row in found], "numbers": [row["number"] for row in found]}
    conn.execute(SQL["around.scrub"], {"owner": owner, **places})


def _start(whole: str) -> str:
    """How a line that is a beginning of this begins, in a text of whole lines; the end of a short one is part of it."""
    return f"\n{whole[:_START]}" if len(whole) > _START else f"\n{whole}\n"


def _holds(text: str | None, said: Sequence[str]) -> bool:
    return any(_is_of(line, said) for line in (text or "").split("\n"))


def _without(text: str, said: Sequence[str]) -> str:
    """The lines that are no beginning of what was said. The first keeps its place: it is the one a vector knows."""
    kept = [line for line in text.split("\n")[1:] if not _is_of(line, said)]
    first = text.split("\n", 1)[0]
    return "\n".join(["" if _is_of(first, said) else first, *kept]).rstrip("\n")


def _is_of(line: str, said: Sequence[str]) -> bool:
    return any(whole.startswith(line) and len(line) >= min(len(whole), _START) for whole in said)
