"""Runs consolidation once as a process under test: `python -m tests.fault.consolidate [POINT HIT]`, which dies when the point
is reached for that time."""

from __future__ import annotations

import itertools
import os
import signal
import sys

from cems.clock import SystemClock
from cems.failpoint import armed
from cems.settings import load as load_settings
from db import runs
from db.access import owner_id
from db.connect import Access, Database
from maintenance import consolidation
from maintenance.job import Job
from tests.consolidating import EMBEDDER


def main(argv: list[str]) -> None:
    settings, clock, hits = load_settings(), SystemClock(), itertools.count(1)

    def die() -> None:
        if next(hits) == int(argv[1]):
            os.kill(os.getpid(), signal.SIGKILL)

    if argv:
        armed[argv[0]] = die
    with Database(Access(settings.database_url, "cems_writer", owner_id(settings))) as db:
        run = runs.begin(
            db, "consolidation", asked_by="hand", described="test 1", now=clock.now(), host="test"
        )
        job = Job(db, settings, clock, run, None, EMBEDDER)
        consolidation.run_once(job)
        runs.finish(db, run, "done", job.report.to_json(), clock.now())


if __name__ == "__main__":
    main(sys.argv[1:])
