"""What `cems status` and the reports of runs read: counts, sizes, times. Looks only; every number comes from one short
statement, so a large database answers quickly."""

from __future__ import annotations

import datetime as dt
from typing import Any

from cems.errors import LlmPaused
from db import ledger, migrate
from db.connect import Database, Row
from db.ledger import Caps
from db.queries import SQL


def server(db: Database) -> dict[str, Any]:
    """Versions and size: postgres, pgvector, schema, schema_wanted, bytes."""
    found = _one(db, "server")
    return found | {"schema_wanted": migrate.migrations()[-1].version}


def queue(db: Database, now: dt.datetime) -> dict[str, Any]:
    """Batches that wait: pending, leased, oldest, next_due, retried, last_error; and lines in no batch yet: lines, sessions."""
    return _one(db, "queue", now) | _one(db, "waiting_lines")


def pause(db: Database, purpose: str, caps: Caps, now: dt.datetime) -> dict[str, Any]:
    """Why and until when calls for a purpose wait; both None where they do not."""
    try:
        ledger.check(db, purpose, caps, now)
    except LlmPaused as paused:
        return {"why": paused.reason, "until": paused.until}
    return {"why": None, "until": None}


def set_aside(db: Database) -> dict[str, Any]:
    """How many batches and lines are set aside."""
    return _one(db, "set_aside")


def landed(db: Database) -> dict[str, Any]:
    """Transcripts known, bytes and lines landed, and when the last one landed."""
    return _one(db, "landed")


def memories(db: Database) -> dict[str, Any]:
    """Active memories by layer, kind and project, and how many are forgotten, archived or superseded."""
    rows = _all(db, "memories")
    active = [row for row in rows if row["state"] == "active"]
    found: dict[str, Any] = {"total": sum(row["count"] for row in active)}
    for name, wanted, among in (
        ("by_layer", "layer", active),
        ("by_kind", "kind", active),
        ("by_state", "state", rows),
    ):
        counts: dict[str, int] = {}
        for row in among:
            counts[row[wanted]] = counts.get(row[wanted], 0) + row["count"]
        found[name] = dict(sorted(counts.items(), key=lambda item: -item[1]))
    return found


def vectors(db: Database) -> dict[str, int]:
    """Vectors by model."""
    return {row["model_id"]: row["count"] for row in _all(db, "vectors")}


def leases(db: Database, now: dt.datetime) -> list[Row]:
    """Who holds which role now: name, described, acquired_at, expires_at."""
    with db.transaction() as conn:
        return conn.execute(SQL["lease.all"], {"owner": db.owner_id, "now": now}).fetchall()


def call_milliseconds(db: Database, purpose: str, since: dt.datetime) -> float | None:
    """How long a successful call took lately, on average; None where there was none."""
    with db.transaction() as conn:
        row = conn.execute(
            SQL["status.call_milliseconds"], {"owner": db.owner_id, "purpose": purpose, "since": since}
        ).fetchone()
    return row["milliseconds"] if row else None


def _one(db: Database, name: str, now: dt.datetime | None = None) -> dict[str, Any]:
    return _all(db, name, now)[0]


def _all(db: Database, name: str, now: dt.datetime | None = None) -> list[Row]:
    with db.transaction() as conn:
        return conn.execute(SQL[f"status.{name}"], {"owner": db.owner_id, "now": now}).fetchall()
