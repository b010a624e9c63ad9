"""Memories that nobody used for a long time and that were doubtful from the start are archived: no longer given back, until
they are said again or a person brings them back. Never what was used, pinned, written by hand, or is a preference."""

from __future__ import annotations

import datetime as dt
import uuid

from db import stale
from db.changes import Change
from maintenance.job import Job

CHUNK = 200
"""Memories read at a time."""


def archive(job: Job) -> None:
    """Archive what has gone stale, one memory a step."""
    settings, looked_at = job.settings, list[uuid.UUID]()
    now = job.clock.now()
    days, confidence = settings.archive_after_days, settings.archive_confidence
    why = f"not used, said or changed for {days} days, confidence below {confidence:.0%}"
    before = now - dt.timedelta(days=days)
    archived = 0
    while not job.stopping():
        found = stale.unused(
            job.db,
            before=before,
            confidence=confidence,
            now=now,
            project=job.project,
            besides=looked_at,
            limit=CHUNK,
        )
        for row in found:
            looked_at.append(row["id"])
            job.report.seen += 1
            values = {row["id"]: {"archived_at": job.clock.now()}}
            archived += job.apply(
                Change("archived", why, {row["id"]: row["changed_at"]}, values), row["title"]
            )
            if job.stopping():
                break
        job.progress("stale memories", archived, None)
        if len(found) < CHUNK:
            break
    if archived:
        job.report.note(f"{archived} unused memories {'would be ' if job.dry_run else ''}archived")
