"""Runs of maintenance jobs: one at a time for an owner and job, by a lease; each written down with what it counted, so that
due-ness, history and status come from rows and a restart forgets nothing."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from typing import Any, Literal, get_args

from psycopg.types.json import Jsonb

from cems.errors import AlreadyRunning, LostRace
from cems.ids import uuid7
from db import lease
from db.connect import Database, Row
from db.parts_of_ids import by_part_of_id
from db.queries import SQL

Job = Literal["consolidation", "reflection", "summarization", "reindexing"]
JOBS: tuple[Job, ...] = get_args(Job)
AskedBy = Literal["schedule", "hand"]
Outcome = Literal["done", "stopped", "failed"]
"""Finished; asked to stop or out of time, the next run goes on; ended by an error."""
STUCK = 3
"""Runs in a row that did nothing although work was waiting, after which something is wrong with the job."""


@dataclasses.dataclass(frozen=True)
class Run:
    """A run that is going on, and the lease it holds."""

    id: uuid.UUID
    job: Job
    described: str

    @property
    def lease(self) -> str:
        """The name of the job's lease."""
        return f"job {self.job}"


def begin(
    db: Database,
    job: Job,
    *,
    asked_by: AskedBy,
    described: str,
    now: dt.datetime,
    due_at: dt.datetime | None = None,
    project: uuid.UUID | None = None,
    host: str = "",
) -> Run:
    """Begin a run; what an earlier one left without an end counts as killed.

    Args:
        described, host: see `db.lease.acquire`.

    Raises:
        AlreadyRunning: the job runs elsewhere, or has just run there for the moment `due_at`.
    """
    run = Run(uuid7(), job, described)
    lease.acquire(db, run.lease, run.id, described, now, host=host)
    args = {
        "owner": db.owner_id,
        "id": run.id,
        "job": job,
        "asked_by": asked_by,
        "due_at": due_at,
        "project": project,
        "now": now,
    }
    begun = 0
    try:
        with db.transaction() as conn:
            conn.execute(SQL["run.end_killed"], args)
            # Under the lease: whoever asked what is due may have done so before another worker's run ended.
            written = conn.execute(SQL["run.begin"], args).rowcount
        begun = written
    finally:
        if not begun:  # or an error would hold the job until the lease is over
            lease.release(db, run.lease, run.id)
    if not begun:
        raise AlreadyRunning(f"{job} has just run elsewhere for the same moment")
    return run


def renew(db: Database, run: Run, now: dt.datetime) -> None:
    """Hold the lease for longer.

    Raises:
        LostRace: the run was taken for dead and another one began, whether or not that has ended since; or this one was
            written down as ended.
    """
    try:
        lease.acquire(db, run.lease, run.id, run.described, now)
    except AlreadyRunning as error:
        raise LostRace(f"the run was taken over: {error}") from error
    # Only now: under the lease nobody else can end it as killed.
    with db.transaction() as conn:
        going = conn.execute(SQL["run.is_running"], {"owner": db.owner_id, "id": run.id}).fetchone()
    if going is None:
        lease.release(db, run.lease, run.id)
        raise LostRace("the run was taken over, or has ended")


def finish(
    db: Database,
    run: Run,
    outcome: Outcome,
    report: dict[str, Any],
    now: dt.datetime,
    *,
    error: str | None = None,
) -> None:
    """Write down how a run ended, and give the lease back."""
    with db.transaction() as conn:
        conn.execute(
            SQL["run.finish"],
            {
                "owner": db.owner_id,
                "id": run.id,
                "outcome": outcome,
                "report": Jsonb(report),
                "error": error[:500] if error else None,
                "now": now,
            },
        )
    lease.release(db, run.lease, run.id)


def answered(db: Database, job: Job, since: dt.datetime) -> list[Row]:
    """Runs by schedule for moments since `since`, newest first: due_at, started_at, finished_at, outcome,
    ended_by."""
    with db.transaction() as conn:
        return conn.execute(
            SQL["run.answered"], {"owner": db.owner_id, "job": job, "since": since}
        ).fetchall()


def first_due(db: Database) -> dt.datetime:
    """When this database was made; nothing was due before."""
    with db.transaction() as conn:
        row = conn.execute(SQL["run.first_due"]).fetchone()
    assert row is not None
    at: dt.datetime = row["at"]
    return at


def history(
    db: Database, *, job: Job | None = None, run: uuid.UUID | None = None, limit: int = 20
) -> list[Row]:
    """Runs, newest first: id, job, asked_by, due_at, project, started_at, finished_at, outcome, report, error, undone_at,
    changes."""
    with db.transaction() as conn:
        args = {"owner": db.owner_id, "job": job, "id": run, "limit": limit}
        return conn.execute(SQL["run.history"], args).fetchall()


def resolve_id(db: Database, text: str) -> uuid.UUID:
    """The run whose id is `text`, or ends or begins with it.

    Raises:
        NotFound: none, or more than one.
    """
    return by_part_of_id(db, "run.ids_like", text, "run", "`cems maintenance --history` shows ids")


def latest(db: Database) -> dict[str, Row]:
    """The newest run of each job that has ended, by job."""
    with db.transaction() as conn:
        rows = conn.execute(SQL["run.latest"], {"owner": db.owner_id}).fetchall()
    return {row["job"]: row for row in rows}


def running(db: Database, now: dt.datetime) -> list[Row]:
    """Runs that go on: job, id, asked_by, started_at, described."""
    with db.transaction() as conn:
        return conn.execute(SQL["run.running"], {"owner": db.owner_id, "now": now}).fetchall()


def stuck(db: Database, job: Job) -> bool:
    """Whether the last runs of a job over all projects did nothing although something was waiting."""
    with db.transaction() as conn:
        rows = conn.execute(
            SQL["run.idle_streak"], {"owner": db.owner_id, "job": job, "limit": STUCK}
        ).fetchall()
    return len(rows) == STUCK and all(not row["changed"] and row["waiting"] for row in rows)
