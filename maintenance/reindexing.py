"""The job that keeps finding quick and complete: it archives what has gone stale, mends the indexes, makes the vectors of the
current model that are missing or wrong, and then removes those of earlier models.

A transcript that is gone removes nothing here or anywhere: what was read of it is in the database. Nothing else is deleted
either: no line, no call to a model, no memory."""

from __future__ import annotations

from maintenance import indexes, stale, vectors, wrong_vectors
from maintenance.job import Job


def run_once(job: Job) -> None:
    """Look at everything, until that is done or the job is asked to stop. Broken indexes come before vectors, because they
    slow everything down and are mended in minutes; making all vectors anew may take several runs."""
    stale.archive(job)
    if job.project is not None:
        job.report.note("vectors and indexes belong to no project; only stale memories were looked at")
        return
    vectors.sweep(job)
    indexes.check(job)
    wrong_vectors.drop(job)
    vectors.drop_old(job, vectors.fill(job))
    indexes.refresh_statistics(job)
