"""What tests of re-indexing share: runs of the job, models that refuse or die, and what is there afterwards. As a program
(`python -m tests.reindexing DIMENSIONS [POINT HIT]`) it runs the job once and dies where it is told to."""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Callable, Sequence

from cems.clock import Clock, SystemClock
from cems.errors import BadAnswer, ProviderUnavailable
from cems.failpoint import armed
from cems.providers import Embedder, Vector
from cems.providers.fake import HashEmbedder
from cems.settings import Settings
from cems.settings import load as load_settings
from db import runs
from db.access import owner_id
from db.connect import Access, Connection, Database
from maintenance import reindexing
from maintenance.job import Job

OLD, NEW = HashEmbedder(256), HashEmbedder(384)


class Named(HashEmbedder):
    """Hashed words under the name of a model that has an index."""

    def __init__(self, name: str, dimensions: int) -> None:
        super().__init__(dimensions)
        self._name = f"{name}@{dimensions}"

    @property
    def model_id(self) -> str:
        return self._name


class Refusing(HashEmbedder):
    """Refuses texts with a word in them, or all from some number on because it is away."""

    def __init__(self, word: str = "", *, away_after: int | None = None) -> None:
        super().__init__()
        self._word, self._away_after = word, away_after

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        if self._away_after is not None and len(self.texts) >= self._away_after:
            raise ProviderUnavailable("it is away")
        if self._word and any(self._word in text for text in texts):
            raise BadAnswer("that is no text")
        return super().embed_documents(texts)


def reindex(
    db: Database,
    settings: Settings,
    clock: Clock,
    embedder: Embedder | None = NEW,
    *,
    dry: bool = False,
    stopping: Callable[[], bool] = lambda: False,
) -> Job:
    """One run of the job, written down as the worker would."""
    began = None
    if not dry:
        began = runs.begin(
            db, "reindexing", asked_by="hand", described="here 1", now=clock.now(), host="here"
        )
    job = Job(db, settings, clock, began, None, embedder, None, stopping)
    reindexing.run_once(job)
    if began is not None:
        runs.finish(db, began, "done", job.report.to_json(), clock.now())
    return job


def counts(sql: Connection) -> dict[str, int]:
    """How many vectors there are of each model."""
    rows = sql.execute("select model_id, count(*)::integer as n from embedding group by model_id").fetchall()
    return {row["model_id"]: row["n"] for row in rows}


def invalid(sql: Connection) -> list[str]:
    """Indexes that do not serve, and what was left of rebuilding one."""
    rows = sql.execute(
        "select c.relname as name from pg_index i join pg_class c on c.oid = i.indexrelid"
        " where c.relnamespace = 'cems'::regnamespace and (not i.indisvalid or c.relname like '%\\_cc%')"
    ).fetchall()
    return [row["name"] for row in rows]


def main(argv: list[str]) -> None:
    """Run the job once; die at a point when it is reached for that time."""
    settings, clock, hits = load_settings(), SystemClock(), itertools.count(1)

    def die() -> None:
        if next(hits) == int(argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)

    if len(argv) > 1:
        armed[argv[1]] = die
    with Database(Access(settings.database_url, "cems_writer", owner_id(settings))) as db:
        reindex(db, settings, clock, HashEmbedder(int(argv[0])))


if __name__ == "__main__":
    main(sys.argv[1:])
