"""Vectors that are no longer needed are removed, fenced by the run's lease. They are derived from text and can be made again,
so what is removed here is not recorded for undoing: a copy of every number of an old model would be larger than the table it
was taken from, and would serve nobody."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence

from db.changes import fence
from db.connect import Database
from db.queries import SQL
from db.runs import Run


def drop(db: Database, run: Run, model: str, limit: int, now: dt.datetime) -> int:
    """Remove so many of a model's vectors at most; returns how many.

    Raises:
        LostRace: the run no longer holds its lease, or has ended.
    """
    with db.transaction() as conn:
        fence(conn, db, run, now)
        args = {"owner": db.owner_id, "model": model, "limit": limit}
        return conn.execute(SQL["reindex.drop_vectors"], args).rowcount


def drop_some(db: Database, run: Run, model: str, memories: Sequence[uuid.UUID], now: dt.datetime) -> int:
    """Remove a model's vectors of these memories; returns how many.

    Raises:
        LostRace: the run no longer holds its lease, or has ended.
    """
    with db.transaction() as conn:
        fence(conn, db, run, now)
        args = {"owner": db.owner_id, "model": model, "ids": list(memories)}
        return conn.execute(SQL["reindex.drop_some"], args).rowcount


def drop_forgotten(db: Database, run: Run, now: dt.datetime) -> int:
    """Remove vectors of memories that were forgotten; returns how many there were.

    Raises:
        LostRace: the run no longer holds its lease, or has ended.
    """
    with db.transaction() as conn:
        fence(conn, db, run, now)
        return conn.execute(SQL["reindex.drop_forgotten"], {"owner": db.owner_id}).rowcount
