"""Rows by what people type of their ids: the whole, the end of it as short ids are, or its beginning."""

from __future__ import annotations

import uuid

from cems.errors import NotFound
from db.connect import Database
from db.queries import SQL


def by_part_of_id(db: Database, statement: str, text: str, noun: str, hint: str) -> uuid.UUID:
    """The one id that is `text`, or ends or begins with it.

    Args:
        statement: gives the ids that are like `part`, at least two where there are several.
        noun: what has such ids, for messages; `hint` says where to look them up.

    Raises:
        NotFound: none, or more than one.
    """
    wanted = text.strip().lower()
    if len(wanted) < 4 or any(c not in "0123456789abcdef-" for c in wanted):
        raise NotFound(f"{text!r} is not the id of a {noun}", hint=hint)
    with db.transaction() as conn:
        rows = conn.execute(SQL[statement], {"owner": db.owner_id, "part": wanted}).fetchall()
    if len(rows) != 1:
        raise NotFound(f"{f'more than one {noun}' if rows else f'no {noun}'} has the id {text}", hint=hint)
    found: uuid.UUID = rows[0]["id"]
    return found
