"""Jobs of the tests' own in the place of the four: in a test's own process, and in the real program as
`python -m tests.stand_in_jobs ARGUMENTS`, which runs `cems ARGUMENTS` with the jobs that the variable JOBS names."""

from __future__ import annotations

import datetime as dt
import json
import os
import sys
import time
import types
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from db.changes import Change
from db.memories import Filter, list_memories
from db.runs import JOBS
from maintenance.job import Job

Body = Callable[[Job], None]
COMMAND = (sys.executable, "-m", "tests.stand_in_jobs")


def put(name: str, body: Body) -> types.ModuleType:
    """A module with this job, where the product looks for its own."""
    module = types.ModuleType(f"maintenance.{name}")
    module.run_once = body  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    return module


def quick(job: Job) -> None:
    job.report.seen += 1


def slow(job: Job) -> None:
    """Works in small steps until it is told to stop, or for a minute."""
    _note("begun")
    for step in range(600):
        if job.stopping():
            job.report.waiting = 600 - step
            return
        job.report.seen += 1
        job.progress("steps", step, 600)
        time.sleep(0.1)


def hang(job: Job) -> None:
    """Never asks whether to stop."""
    job.report.seen = 7
    _note("begun")
    time.sleep(60)


def fail(job: Job) -> None:
    job.report.waiting = 3
    raise ValueError("always use tabs, the memory said")


def idle(job: Job) -> None:
    job.report.seen = job.report.waiting = 5
    job.report.note("its reader is broken")


def archive(job: Job) -> None:
    """Archives every memory there is."""
    for memory in list_memories(job.db, Filter(projects=[job.project] if job.project else None)):
        job.report.seen += 1
        seen = {memory.id: _changed_at(job, memory.id)}
        job.apply(
            Change("archived", "nobody used it", seen, {memory.id: {"archived_at": job.clock.now()}}),
            memory.title,
        )


def _changed_at(job: Job, memory: uuid.UUID) -> dt.datetime:
    with job.db.transaction() as conn:
        row = conn.execute("select changed_at from memory where id = %s", (memory,)).fetchone()
    assert row is not None
    changed_at: dt.datetime = row["changed_at"]
    return changed_at


def _note(what: str) -> None:
    """Tell the test where the job is."""
    with Path(os.environ["JOBS_LOG"]).open("a") as out:
        out.write(what + "\n")


BODIES: Mapping[str, Body] = {
    "quick": quick, "slow": slow, "hang": hang, "fail": fail, "idle": idle, "archive": archive,
}  # fmt: skip


def main() -> int:
    wanted = json.loads(os.environ.pop("JOBS", "{}"))
    for job in JOBS:
        put(job, BODIES[wanted.get(job, "quick")])
    from cems.cli import main as cems

    return cems(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
