"""Which model's vectors answer. Models live side by side in one table, and vectors are made newest memory first; so while a new
model's are being made, the oldest memories have only those of the one before. `cems search` asks `serving_model` and uses that
model's embedder as long as it can; what is true is read from the rows, there is no switch that could be wrong. The hooks and
`cems mcp` do not ask: they put questions to the local embedder alone, never to one behind a network, and where it has no
vectors yet, words find. Looks only; the reader's role is enough."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections.abc import Sequence

from db.connect import Database
from db.queries import SQL

SAMPLE = 50
"""Oldest memories that are looked at: a millisecond."""
ENOUGH = 0.9
"""The share of the vectors of the model that has most with which the wanted one answers: a few memories may be refused by its
embedder for good, and must not hold up the switch."""


@dataclasses.dataclass(frozen=True)
class Vectors:
    """What there is of one model."""

    model: str
    vectors: int
    first_at: dt.datetime
    """When the oldest of them was made."""
    last_at: dt.datetime


def serving_model(db: Database, wanted: str | None = None) -> str | None:
    """The model to put questions to: `wanted`, unless the oldest memories have clearly more vectors of another one, because
    those of the wanted one are still being made. None: nothing is wanted and there is no vector.

    Args:
        wanted: the model that the settings ask for.
    """
    with db.transaction() as conn:
        rows = conn.execute(SQL["reindex.oldest"], {"owner": db.owner_id, "sample": SAMPLE}).fetchall()
    if not rows:
        return wanted
    best = max(rows, key=lambda row: (row["vectors"], row["newest"], row["model"]))
    if any(row["model"] == wanted and row["vectors"] >= ENOUGH * best["vectors"] for row in rows):
        return wanted
    found: str = best["model"]
    return found


def models(db: Database) -> list[Vectors]:
    """Every model there are vectors of."""
    with db.transaction() as conn:
        rows = conn.execute(SQL["reindex.models"], {"owner": db.owner_id}).fetchall()
    return [Vectors(**row) for row in rows]


def live_missing(db: Database, model: str, besides: Sequence[uuid.UUID] = ()) -> int:
    """How many memories that can be found have no vector of this model, without those of `besides`."""
    args = {"owner": db.owner_id, "model": model, "besides": list(besides)}
    with db.transaction() as conn:
        row = conn.execute(SQL["reindex.live_missing"], args).fetchone()
    return int(row["missing"]) if row else 0
