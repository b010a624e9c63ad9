"""Which model's vectors answer. Models live side by side in one table, and vectors are made newest memory first; so while a new
model's are being made, the oldest memories have only those of the one before. Whoever searches asks `serving_model` and
uses that model's embedder as long as it can; what is true is read from the rows, there is no switch that could be wrong.
Looks only; the reader's role is enough."""

from __future__ import annotations

import dataclasses
import datetime as dt

from db.connect import Database
from db.queries import SQL

SAMPLE = 50
"""Oldest memories that are looked at: a millisecond, and a few that an embedder refuses do not hold up the switch."""


@dataclasses.dataclass(frozen=True)
class Vectors:
    """What there is of one model."""

    model: str
    vectors: int
    first_at: dt.datetime
    """When the oldest of them was made."""
    last_at: dt.datetime


def serving_model(db: Database, wanted: str | None = None) -> str | None:
    """The model to put questions to: `wanted`, unless the oldest memories have more vectors of another one, because those of
    the wanted one are still being made. None: nothing is wanted and there is no vector.

    Args:
        wanted: the model that the settings ask for.
    """
    with db.transaction() as conn:
        rows = conn.execute(SQL["reindex.oldest"], {"owner": db.owner_id, "sample": SAMPLE}).fetchall()
    if not rows:
        return wanted
    best = max(rows, key=lambda row: (row["vectors"], row["model"] == wanted, row["newest"], row["model"]))
    found: str = best["model"]
    return found


def models(db: Database) -> list[Vectors]:
    """Every model there are vectors of."""
    with db.transaction() as conn:
        rows = conn.execute(SQL["reindex.models"], {"owner": db.owner_id}).fetchall()
    return [Vectors(**row) for row in rows]


def live_missing(db: Database, model: str) -> int:
    """How many memories that can be found have no vector of this model."""
    with db.transaction() as conn:
        row = conn.execute(SQL["reindex.live_missing"], {"owner": db.owner_id, "model": model}).fetchone()
    return int(row["missing"]) if row else 0
