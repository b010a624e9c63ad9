"""Vectors of memories, side by side for each model. A memory without one is found by keywords until it has one."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence

from pgvector import Vector

from db.connect import Database, Row
from db.queries import SQL

AROUND = 160
"""Characters of what was said before a memory that its vector knows. Recall@10 of vectors alone on conversations, without and
with them: .645 and .680 tuned on, .528 and .553 held out (bench/retrieval.py)."""


def embedded_text(row: Row) -> str:
    """The text that stands for a memory: its own words, then the nearest of what stood around it. Kind, project and date
    stay out: they are filters, and in front of each text they make all vectors more alike (.645 became .603)."""
    text = f"{row['title']}: {row['body']}" if row["body"] else str(row["title"])
    before = (row.get("around") or "").split("\n", 1)[0][:AROUND]
    return f"{text}\nAfter: {before}" if before else text


def missing(db: Database, model_id: str, limit: int, besides: Sequence[uuid.UUID] = ()) -> list[Row]:
    """Memories without a vector of this model, newest first: id, kind, title, body, around, changed_at, occurred_at,
    project."""
    with db.transaction() as conn:
        return conn.execute(
            SQL["embedding.missing"],
            {"owner": db.owner_id, "model": model_id, "limit": limit, "besides": list(besides)},
        ).fetchall()


def count_missing(db: Database, model_id: str) -> int:
    """How many memories have no vector of this model."""
    with db.transaction() as conn:
        row = conn.execute(
            SQL["embedding.count_missing"], {"owner": db.owner_id, "model": model_id}
        ).fetchone()
    return int(row["missing"]) if row else 0


def sample(db: Database, model_id: str, limit: int, seed: str) -> list[Row]:
    """Stored vectors of a model and what they should be of, newest first: id, title, body, around, vector. The newest ones, and
    as many by chance.

    Args:
        seed: another one takes others.
    """
    args = {"owner": db.owner_id, "model": model_id, "limit": limit, "seed": seed}
    with db.transaction() as conn:
        return conn.execute(SQL["reindex.sample"], args).fetchall()


def add(
    db: Database,
    model_id: str,
    vectors: Sequence[tuple[uuid.UUID, list[float]]],
    now: dt.datetime,
    *,
    made_from: Sequence[Row] = (),
) -> int:
    """Store vectors; a memory erased or forgotten meanwhile gets none. Returns how many were new.

    Args:
        made_from: the rows of `missing` whose texts they are of; one that was changed meanwhile, as by a merge, gets none.
    """
    read_at = {row["id"]: row["changed_at"] for row in made_from}
    added = 0
    with db.transaction() as conn:
        for memory, vector in vectors:
            args = {
                "owner": db.owner_id,
                "model": model_id,
                "id": memory,
                "vector": Vector(vector),
                "read_at": read_at.get(memory),
                "now": now,
            }
            added += conn.execute(SQL["embedding.add"], args).rowcount
    return added
