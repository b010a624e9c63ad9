"""Words of a line that stand around other memories as well: erasing a memory takes them from there too, and from what runs of
maintenance wrote down. Nobody is shown what stands around a memory, so nobody would see that a copy was left."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence

from cems.terms import around
from db.connect import Connection
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
    args["starts"] = [text[:_START] for text in said]
    conn.execute(SQL["around.scrub"], args)
    changed = 0
    for row in conn.execute(SQL["around.beside"], args).fetchall():
        left = _without(row["around"], said)
        if left != row["around"]:
            conn.execute(SQL["around.set"], args | {"id": row["id"], "around": left})
            conn.execute(SQL["lifecycle.drop_vectors"], args | {"id": row["id"]})
            changed += 1
    return changed


def _without(text: str, said: Sequence[str]) -> str:
    """The lines that are no beginning of what was said. The first keeps its place: it is the one a vector knows."""
    kept = [line for line in text.split("\n")[1:] if not _is_of(line, said)]
    first = text.split("\n", 1)[0]
    return "\n".join(["" if _is_of(first, said) else first, *kept]).rstrip("\n")


def _is_of(line: str, said: Sequence[str]) -> bool:
    return any(whole.startswith(line) and len(line) >= min(len(whole), _START) for whole in said)
