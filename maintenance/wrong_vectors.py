"""Stored vectors that are not those of their memories' words: made of a text that was changed since, or by an embedder that
computed something else. A sample is computed anew; what differs is removed, to be made again with what is missing. Only where
the embedder runs on this machine: elsewhere each look would be paid for."""

from __future__ import annotations

import uuid

from cems.errors import BadAnswer, ProviderError
from cems.providers import Embedder, Vector
from db import embeddings, old_vectors, serving
from maintenance import vectors
from maintenance.job import Job

SAMPLE = 20
"""Of the newest vectors, and as many by chance: some seconds once a month."""
SAME = 0.98
"""Cosine of a stored vector and one made now of the same words; quantisation differs a little between processors."""
ALIKE, UNLIKE = (
    ("the database migration failed", "migrating the database went wrong"),
    "bananas are yellow fruit",
)


def sound(embedder: Embedder) -> bool:
    """Whether an embedder gives unit vectors that put like beside like. Raises as `Embedder.embed_documents`."""
    one, two, other = embedder.embed_documents([*ALIKE, UNLIKE])
    return 0.99 < dot(one, one) < 1.01 and dot(one, two) > dot(one, other) + 0.1


def drop(job: Job) -> None:
    """Remove what is wrong in a sample; where that is most of it, all vectors of the model."""
    embedder = job.embedder
    if embedder is None or embedder.needs_network:
        return
    model = embedder.model_id
    rows = embeddings.sample(job.db, model, SAMPLE, f"{job.clock.now():%Y-%m}")
    wrong: list[uuid.UUID] = []
    try:
        if rows and not sound(embedder):
            job.report.note(f"{model} computes wrongly on this machine: `cems doctor` says more")
            return
        for row in rows:
            if job.stopping():
                return
            if not _fits(embedder, embeddings.embedded_text(row), row["vector"].to_list()):
                wrong.append(row["id"])
    except ProviderError as error:
        job.report.note(f"{vectors.PURPOSE}: {error}")
        return
    if wrong:
        _drop(job, model, wrong, every=len(wrong) * 2 > len(rows))


def dot(one: Vector, other: Vector) -> float:
    """The cosine of two unit vectors."""
    return sum(a * b for a, b in zip(one, other, strict=True))


def _fits(embedder: Embedder, text: str, stored: Vector) -> bool:
    try:
        return dot(embedder.embed_documents([text])[0], stored) >= SAME
    except BadAnswer:  # there would be no other vector
        return True


def _drop(job: Job, model: str, wrong: list[uuid.UUID], *, every: bool) -> None:
    number = len(wrong)
    if every:
        number = next((v.vectors for v in serving.models(job.db) if v.model == model), 0)
    if job.run is None:
        job.report.changed += number
        job.report.note(f"{number} vectors of {model} are not of their words: they would be made anew")
        return
    if every:
        gone = vectors.drop(job, model, number)
    else:
        gone = old_vectors.drop_some(job.db, job.run, model, wrong, job.clock.now())
        job.report.changed += gone
    job.report.note(f"{gone} vectors of {model} were not of their words, and are made anew")
