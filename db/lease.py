"""Leases: a named role that one process holds for a time and renews. They live in rows, because poolers and distributed
engines lose advisory locks; a holder that dies is replaced when its time is over, or at once by a process that knows it
is dead."""

from __future__ import annotations

import datetime as dt
import uuid

from cems.errors import AlreadyRunning
from db.connect import Database
from db.queries import SQL

HOLD = dt.timedelta(seconds=120)
"""How long a lease lasts without being renewed."""


def acquire(
    db: Database, name: str, holder: uuid.UUID, described: str, now: dt.datetime, *, host: str = ""
) -> None:
    """Take or renew a lease.

    Args:
        described: who holds it, for people; begins with the host's name.
        host: take it from any holder on this host; only for a caller who holds a file lock that every holder there holds.

    Raises:
        AlreadyRunning: somebody else holds it; says who and until when.
    """
    with db.transaction() as conn:
        args = {
            "owner": db.owner_id,
            "name": name,
            "holder": holder,
            "described": described,
            "now": now,
            "expires": now + HOLD,
            "same_host": f"{host} " if host else "\x7f",
        }
        if conn.execute(SQL["lease.acquire"], args).rowcount:
            return
        row = conn.execute(SQL["lease.holder"], args).fetchone()
    held_by = f"{row['described']} until {row['expires_at']:%H:%M:%S %Z}" if row else "another process"
    raise AlreadyRunning(f"{name} is held by {held_by}")


def release(db: Database, name: str, holder: uuid.UUID) -> None:
    """Give a lease back; somebody else's is left alone."""
    with db.transaction() as conn:
        conn.execute(SQL["lease.release"], {"owner": db.owner_id, "name": name, "holder": holder})
