"""Vectors of the current model for every memory that lacks one, made so gently that whoever searches meanwhile hardly notices;
and, once none is missing, the end of those of earlier models. Each few are stored as they are made, newest memory first, so
a run that ends early has done part of the work. Until all are there, the old ones answer `cems search`
(`db/serving.py`)."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import sys
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from cems.errors import BadAnswer, LlmPaused, ProviderError
from cems.failpoint import failpoint
from cems.models import Usage
from cems.providers import Embedder, Vector
from cems.providers.usage import estimate_tokens
from db import embeddings, old_vectors, serving
from db.connect import Row
from db.serving import Vectors
from maintenance.job import Job

PURPOSE = "embedding"
CHUNK = 16
"""Memories whose vectors are stored together: an index takes some milliseconds for each, and a search waits for no more."""
CHUNK_NETWORK = 64
REST = 1.0
"""Seconds of rest for each second of work on this machine: half of one processor is used, at a low priority."""
LONGEST_REST = 5.0
STEP = 0.2
"""Seconds of rest after which it is asked whether to stop."""
MOST_UNFIT = 100
"""Memories that an embedder may refuse before it is no longer asked."""
DROPPED = 2_000
"""Vectors removed in one transaction."""
QUIET = dt.timedelta(days=7)
"""An earlier model that somebody still stored vectors of may be another machine's current one; after so long it is not."""


def fill(job: Job) -> list[uuid.UUID]:
    """Make what is missing, until nothing is, or it is time to stop; returns the memories that the embedder refuses."""
    if job.embedder is None:
        job.report.note("no embedder: vectors stay as they are")
        return []
    model = job.embedder.model_id
    missing = embeddings.count_missing(job.db, model)
    job.report.seen += missing
    if job.dry_run:
        job.report.changed += missing
        if missing:
            job.report.note(f"{missing} vectors of {model} would be made")
        return []
    with ThreadPoolExecutor(1, "cems-reindex", initializer=_step_back) as pool:
        filling = _Filling(job, job.embedder, pool, missing)
        filling.run()
    job.report.changed += filling.made
    job.report.failed += len(filling.unfit)
    left = max(embeddings.count_missing(job.db, model) - len(filling.unfit), 0)
    job.report.waiting += left
    if filling.made:
        job.report.note(f"{filling.made} vectors of {model} made")
    if filling.unfit:
        job.report.note(f"{len(filling.unfit)} memories are refused by {model}; words find them")
    if left:
        job.report.note(f"{left} vectors of {model} are still missing; the next run goes on")
    return filling.unfit


def drop_old(job: Job, unfit: Sequence[uuid.UUID] = ()) -> None:
    """Remove the vectors of earlier models, when the current one's are complete and nobody makes the earlier ones any more.

    Args:
        unfit: memories that the current embedder refuses; while they are few, nobody waits for them.
    """
    if job.embedder is None:
        return
    model, every = job.embedder.model_id, serving.models(job.db)
    old = [v for v in every if v.model != model]
    if not old or not any(v.model == model for v in every):
        return
    current = next(v for v in every if v.model == model)
    few = unfit if len(unfit) <= min(MOST_UNFIT, (1 - serving.ENOUGH) * current.vectors) else ()
    if missing := serving.live_missing(job.db, model, few):
        if not job.dry_run:
            names = ", ".join(v.model for v in old)
            job.report.note(f"vectors of {names} stay until the {missing} missing ones of {model} are there")
        return
    for one in old:
        if not _over(one, current, job.clock.now()):
            job.report.note(f"vectors of {one.model} stay: somebody still makes them")
        elif job.run is None:
            job.report.changed += one.vectors
            job.report.note(f"{one.vectors} vectors of {one.model} would be removed")
        else:
            _drop_model(job, one)


def sweep(job: Job) -> None:
    """A forgotten memory keeps nothing that a reader sees, its vector included."""
    if job.run is not None and (swept := old_vectors.drop_forgotten(job.db, job.run, job.clock.now())):
        job.report.changed += swept
        job.report.note(f"{swept} vectors of forgotten memories removed")


def _over(one: Vectors, current: Vectors, now: dt.datetime) -> bool:
    return one.last_at <= current.first_at or now - one.last_at > QUIET


def drop(job: Job, model: str, vectors: int) -> int:
    """Remove so many vectors, which are all of a model, a part at a time; returns how many are gone."""
    assert job.run is not None
    gone = 0
    while not job.stopping():
        dropped = old_vectors.drop(job.db, job.run, model, DROPPED, job.clock.now())
        failpoint("after_drop")
        gone += dropped
        job.progress("old vectors removed", gone, vectors)
        if dropped < DROPPED:
            break
    job.report.changed += gone
    return gone


def _drop_model(job: Job, one: Vectors) -> None:
    gone = drop(job, one.model, one.vectors)
    if gone < one.vectors:
        job.report.waiting += one.vectors - gone
    job.report.note(
        f"{gone} vectors of {one.model} removed; undoing does not bring them back, they can be made again"
    )


class _Filling:
    """Makes vectors with one embedder, a few at a time."""

    def __init__(self, job: Job, embedder: Embedder, pool: ThreadPoolExecutor, missing: int) -> None:
        self.made = 0
        self.unfit: list[uuid.UUID] = []
        self._job, self._embedder, self._pool, self._missing = job, embedder, pool, missing
        self._chunk = CHUNK_NETWORK if embedder.needs_network else CHUNK

    def run(self) -> None:
        job, busy = self._job, time.process_time()
        while not job.stopping() and len(self.unfit) <= MOST_UNFIT:
            rows = embeddings.missing(job.db, self._embedder.model_id, self._chunk, self.unfit)
            if not rows:
                return
            try:
                vectors = self._vectors(rows)
            except (LlmPaused, ProviderError) as error:
                job.report.note(f"{PURPOSE}: {error}")
                return
            self.made += embeddings.add(
                job.db, self._embedder.model_id, vectors, job.clock.now(), made_from=rows
            )
            failpoint("after_vectors")
            job.progress("vectors made", self.made, self._missing)
            if not self._embedder.needs_network:
                # By the processor's time: where others keep it busy, the work is slow enough already.
                rest(min((time.process_time() - busy) * REST, LONGEST_REST), job.stopping)
            busy = time.process_time()

    def _vectors(self, rows: Sequence[Row]) -> list[tuple[uuid.UUID, Vector]]:
        """The vectors of some memories; those that are refused are left out from now on.

        Raises:
            ProviderError, LlmPaused: it is not the texts.
        """
        texts = [embeddings.embedded_text(row) for row in rows]
        # One by one where nothing is saved by asking for many at once: then a single refused text costs nothing either.
        together = self._embedder.needs_network
        if together:
            with contextlib.suppress(BadAnswer):
                return [(row["id"], v) for row, v in zip(rows, self._embed(texts), strict=True)]
        found = []
        for row, text in zip(rows, texts, strict=True):
            try:
                found.append((row["id"], self._embed([text])[0]))
            except BadAnswer:
                self.unfit.append(row["id"])
        return found

    def _embed(self, texts: list[str]) -> list[Vector]:
        if self._embedder.needs_network:
            return self._from_network(texts)
        return self._pool.submit(self._embedder.embed_documents, texts).result()

    def _from_network(self, texts: list[str]) -> list[Vector]:
        """Within the day's caps, and written into the ledger."""
        embedder, used = self._embedder, Usage(input_tokens=sum(map(estimate_tokens, texts)))
        return self._job.call(
            PURPOSE, embedder.model_id, lambda: embedder.embed_documents(texts), lambda _: used
        )


def rest(seconds: float, stopping: Callable[[], bool]) -> None:
    """Do nothing for so long, or until it is time to stop: whoever asks that is not kept waiting."""
    while seconds > 0 and not stopping():
        time.sleep(min(seconds, STEP))
        seconds -= STEP


def _step_back() -> None:
    """A low priority for this thread, where threads have their own (Linux); the process keeps its own. Not the lowest: on a
    machine that is never idle that would come to nothing."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
