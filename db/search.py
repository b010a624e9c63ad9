"""Search over memories: full text (an OR of terms, identifiers in one piece and in parts) and vectors, each ranked within
the filters, fused by reciprocal rank. A vector below the floor counts for nothing, so an unrelated question finds nothing."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections.abc import Sequence

from pgvector import Vector

from cems.models import Memory
from cems.terms import terms
from db.connect import Database
from db.memories import memory_of
from db.queries import SQL

RRF_K = 60
"""The constant of reciprocal rank fusion (Cormack, Clarke and Büttcher 2009)."""
DEPTH = 100
"""Candidates of each leg."""
QUERY_LIMIT = 4000
"""Characters of a question; the rest is not searched for."""
FLOORS = {"bge-small-en-v1.5-int8@384": 0.55}
"""Cosine below which two texts have nothing to do with each other, by model; unrelated pairs of bge-small lie below .55."""


@dataclasses.dataclass(frozen=True)
class Question:
    """What is searched for, and where; None: anywhere, any."""

    text: str
    vector: Sequence[float] | None = None
    model_id: str | None = None
    projects: Sequence[uuid.UUID] | None = None
    """Besides these, what holds everywhere is searched too."""
    kind: str | None = None
    concept: str | None = None
    file: str | None = None
    since: dt.datetime | None = None
    limit: int = 10


@dataclasses.dataclass(frozen=True)
class Hit:
    """A memory found, and by which leg."""

    memory: Memory
    score: float
    words_rank: int | None
    words_score: float | None
    meaning_rank: int | None
    meaning_score: float | None


def search(db: Database, question: Question, now: dt.datetime) -> list[Hit]:
    """The best memories for a question, best first; none is a normal answer."""
    text = question.text[:QUERY_LIMIT].replace("\0", "")
    args = {
        "owner": db.owner_id,
        "text": text,
        "terms": terms(text),
        "vector": Vector(list(question.vector)) if question.vector is not None else None,
        "model": question.model_id or "",
        "floor": FLOORS.get(question.model_id or "", 0.3),
        "projects": list(question.projects) if question.projects is not None else None,
        "kind": question.kind,
        "concept": question.concept,
        "file": question.file,
        "since": question.since,
        "limit": question.limit,
        "depth": DEPTH,
        "k": RRF_K,
        "now": now,
    }
    with db.transaction() as conn:
        rows = conn.execute(SQL["search.hybrid"], args).fetchall()
    legs = ("score", "words_rank", "words_score", "meaning_rank", "meaning_score")
    return [Hit(memory_of(row), **{leg: row[leg] for leg in legs}) for row in rows]
