"""What tests of consolidation share: memories with vectors of a test's choice, runs of the job, what is there afterwards."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from pgvector import Vector

from cems.clock import Clock
from cems.ids import derived, uuid7
from cems.models import Kind, Observation
from cems.providers import Embedder, TextGenerator
from cems.providers.fake import HashEmbedder
from cems.settings import Settings
from db import memories, runs
from db.connect import Database, Row
from maintenance import consolidation
from maintenance.job import Job

DAY = dt.datetime(2026, 11, 1, 12, tzinfo=dt.UTC)
EMBEDDER = HashEmbedder()
PROJECT = derived("project", "harbour")


def angle(degrees: float) -> list[float]:
    """A unit vector; the cosine of two is that of the angle between them."""
    return [math.cos(math.radians(degrees)), math.sin(math.radians(degrees))] + [0.0] * 382


@dataclasses.dataclass(frozen=True)
class Said:
    """A memory to be stored."""

    title: str
    body: str = ""
    kind: Kind = "decision"
    project: uuid.UUID | None = PROJECT
    day: int = 0
    """When it was said; the session too."""
    vector: Sequence[float] | None = dataclasses.field(default_factory=lambda: angle(0))
    files: tuple[str, ...] = ()
    concepts: tuple[str, ...] = ()
    author: str = "rules"
    confidence: float = 0.8
    now: dt.datetime | None = None
    """When it was stored; None: when it was said."""


def say(db: Database, *every: Said) -> list[uuid.UUID]:
    """Store memories with one source each; returns their ids."""
    ids = []
    with db.transaction() as conn:
        for project in {s.project for s in every} - {None}:
            assert project is not None
            args = (db.owner_id, project, str(project), "harbour", "/", DAY)
            conn.execute("insert into project values (%s, %s, %s, %s, %s, %s) on conflict do nothing", args)
        for said in every:
            at = DAY + dt.timedelta(days=said.day)
            seen = Observation(
                said.kind, said.title, said.body, said.concepts, said.files, said.confidence, (), at,
                said.project or uuid.UUID(int=0),
            )  # fmt: skip
            stored = memories.Stored()
            memories._store_one(
                conn, db.owner_id, seen, said.project, said.author, None, said.now or at, stored
            )
            memory = stored.ids[0]
            ids.append(memory)
            conn.execute(
                "insert into memory_source (owner_id, id, memory_id, quote, origin, at, recorded_at)"
                " values (%s, %s, %s, %s, 'user', %s, %s)",
                (db.owner_id, uuid7(), memory, said.title[:600], at, at),
            )
            if said.vector is not None:
                give(conn, db.owner_id, memory, said.vector)
    return ids


def give(conn: Any, owner: uuid.UUID, memory: uuid.UUID, vector: Sequence[float]) -> None:
    """Give a memory a vector."""
    conn.execute(
        "insert into embedding (owner_id, memory_id, model_id, vector, content_hash, created_at)"
        " values (%s, %s, %s, %s, '', %s) on conflict do nothing",
        (owner, memory, EMBEDDER.model_id, Vector(list(vector)), DAY),
    )


def embed(db: Database, vector: Sequence[float] | None = None) -> None:
    """Give everything that has no vector one."""
    with db.transaction() as conn:
        rows = conn.execute(
            "select id from memory m where forgotten_at is null and not exists"
            " (select from embedding e where e.memory_id = m.id)"
        ).fetchall()
        for row in rows:
            give(conn, db.owner_id, row["id"], vector or angle(0))


def consolidate(
    db: Database,
    settings: Settings,
    clock: Clock,
    generator: TextGenerator | None = None,
    *,
    embedder: Embedder | None = EMBEDDER,
    dry_run: bool = False,
    stopping: Callable[[], bool] = lambda: False,
) -> Job:
    """One run of the job."""
    run = None
    if not dry_run:
        run = runs.begin(db, "consolidation", asked_by="hand", described="here", now=clock.now())
    job = Job(db, settings, clock, run, generator, embedder, stopping=stopping)
    consolidation.run_once(job)
    if run is not None:
        runs.finish(db, run, "done", job.report.to_json(), clock.now())
    return job


def live(db: Database) -> list[Row]:
    """What recall may give back, by title, each with its sources."""
    with db.transaction() as conn:
        return conn.execute(
            "select m.*, (select count(*)::integer from memory_source s where s.memory_id = m.id) as sources from memory m"
            " where superseded_by is null and archived_at is null and forgotten_at is null order by title, id"
        ).fetchall()


def titles(db: Database) -> list[str]:
    """Titles of what is live."""
    return [row["title"] for row in live(db)]


def row_of(db: Database, memory: uuid.UUID) -> Row:
    """One memory's row."""
    with db.transaction() as conn:
        row = conn.execute("select * from memory where id = %s", (memory,)).fetchone()
    assert row is not None
    return row
