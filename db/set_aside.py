"""What could not be handled and waits for a person: batches that got no usable answer, and lines that could not be read.
Nothing here is deleted; a batch goes back into the queue, a line is marked as resolved once it has landed."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Literal, NamedTuple

from cems.errors import NotFound
from db.connect import Database, Row
from db.queries import SQL


class Ref(NamedTuple):
    """One thing that is set aside."""

    id: uuid.UUID
    what: Literal["batch", "line"]


def batches(db: Database, batch: uuid.UUID | None = None) -> list[Row]:
    """Batches set aside, or one of them: id, session, session_title, agent, project, created_at, attempts, last_error, lines,
    bytes, closed_by."""
    with db.transaction() as conn:
        return conn.execute(SQL["set_aside.batches"], {"owner": db.owner_id, "id": batch}).fetchall()


def batch_lines(db: Database, batch: uuid.UUID) -> list[Row]:
    """The landed lines of a batch, in order: uuid, kind, origin, text, at, bytes."""
    with db.transaction() as conn:
        return conn.execute(SQL["set_aside.batch_lines"], {"owner": db.owner_id, "id": batch}).fetchall()


def lines(db: Database, line: uuid.UUID | None = None) -> list[Row]:
    """Lines set aside, or one of them: id, transcript, offset, bytes, reason, excerpt, created_at, session, agent, …"""
    with db.transaction() as conn:
        return conn.execute(SQL["set_aside.lines"], {"owner": db.owner_id, "id": line}).fetchall()


def resolve_id(db: Database, text: str) -> Ref:
    """What is set aside under an id that is, or begins with, `text`.

    Raises:
        NotFound: nothing, or more than one thing.
    """
    wanted = text.strip().lower()
    hint = "`cems set-aside list` shows ids"
    if not wanted or any(c not in "0123456789abcdef-" for c in wanted):
        raise NotFound(f"{text!r} is not the id of something set aside", hint=hint)
    with db.transaction() as conn:
        rows = conn.execute(SQL["set_aside.ids_like"], {"owner": db.owner_id, "part": wanted}).fetchall()
    if len(rows) != 1:
        which = "nothing that is set aside" if not rows else "more than one thing that is set aside"
        raise NotFound(f"{which} has the id {text}", hint=hint)
    return Ref(rows[0]["id"], rows[0]["what"])


def retry_batch(db: Database, batch: uuid.UUID, now: dt.datetime) -> bool:
    """Put a batch back into the queue, its attempts begun anew; False where it is set aside no longer."""
    with db.transaction() as conn:
        args = {"owner": db.owner_id, "id": batch, "now": now}
        return conn.execute(SQL["set_aside.retry_batch"], args).rowcount == 1


def resolve_line(db: Database, line: uuid.UUID, now: dt.datetime) -> bool:
    """Mark a line as dealt with; False where it is already."""
    with db.transaction() as conn:
        args = {"owner": db.owner_id, "id": line, "now": now}
        return conn.execute(SQL["set_aside.resolve_line"], args).rowcount == 1
