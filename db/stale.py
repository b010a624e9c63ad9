"""Memories that have gone stale, for the job that archives them. Looks only."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence

from db.connect import Database, Row
from db.queries import SQL


def unused(
    db: Database,
    *,
    before: dt.datetime,
    confidence: float,
    now: dt.datetime,
    project: uuid.UUID | None,
    besides: Sequence[uuid.UUID],
    limit: int,
) -> list[Row]:
    """Memories that were never used, nor said or changed since `before`, and have less confidence: id, changed_at, title."""
    with db.transaction() as conn:
        return conn.execute(
            SQL["reindex.stale"],
            {
                "owner": db.owner_id,
                "before": before,
                "confidence": confidence,
                "now": now,
                "project": project,
                "besides": list(besides),
                "limit": limit,
            },
        ).fetchall()
