"""One run of one job, put together from the settings: what `cems maintain` and `cems maintenance` run. The job's file lock and
its lease keep every other run of it out; however it ends, that is written down with what it counted. What a run needs of
models is made for it and dropped with it."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import importlib
import os
import socket
import threading
import traceback
import uuid
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Literal

import psycopg
import structlog

from cems import home
from cems.clock import Clock
from cems.errors import AlreadyRunning, CemsError, EmbedderUnavailable, LostRace, ProviderError
from cems.providers import Embedder, TextGenerator, choose
from cems.settings import Settings
from db import lease, runs
from db.connect import OUTAGES, Database
from db.runs import AskedBy, Outcome, Run
from maintenance.due import ASKED
from maintenance.embedder import late_embedder
from maintenance.job import Job, Planned, Report

log = structlog.get_logger()
DEADLINE: Literal["deadline"] = "deadline"
"""Under `ended_by` in a stopped run's report: it was out of time."""
GIVE_UP = 5.0
"""Seconds a job that is asked to end may take; a request to a model that hangs is left then."""
_OURS = ("maintenance/", "db/", "cems/", "providers/", "gemini/")
"""Folders whose lines say where a job failed."""
_RENEW = lease.HOLD.total_seconds() / 4
Progress = Callable[[str, int, int | None], None]


@dataclasses.dataclass(frozen=True)
class Order:
    """Which run is wanted, and by whom."""

    job: runs.Job
    asked_by: AskedBy = "hand"
    due_at: dt.datetime | None = None
    project: uuid.UUID | None = None
    dry_run: bool = False


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a run ended."""

    order: Order
    run: uuid.UUID | None
    outcome: Outcome
    report: Report
    planned: list[Planned]
    seconds: float
    ended_by: Literal["asked", "deadline"] | None = None
    error: str | None = None


class Limits:
    """When a job is to end, as its `stopping` says. Asking is also its sign of life: it keeps the lease."""

    def __init__(
        self, clock: Clock, stop: threading.Event, seconds: float, alive: Callable[[], None]
    ) -> None:
        self._clock, self._stop, self._alive = clock, stop, alive
        self._end = clock.monotonic() + seconds
        self._renewed = clock.monotonic()
        self.job: Job | None = None
        self.told: Literal["asked", "deadline"] | None = None
        """Why the job was told to end."""

    def stopping(self) -> bool:
        """Whether to end soon.

        Raises:
            LostRace: the run was taken for dead, and another one began.
        """
        self._alive()
        if self.job is not None and self._clock.monotonic() - self._renewed > _RENEW:
            self.job.renew()
            self._renewed = self._clock.monotonic()
        if self._stop.is_set():
            self.told = ASKED
        elif self._clock.monotonic() >= self._end and self.told is None:
            self.told = DEADLINE
        return self.told is not None


def run_job(
    db: Database,
    settings: Settings,
    order: Order,
    clock: Clock,
    stop: threading.Event,
    *,
    progress: Progress = lambda what, done, total: None,
    alive: Callable[[], None] = lambda: None,
) -> Ended:
    """Run a job now, to its end, its deadline or until `stop` is set. An error of the job is in the answer; it was logged.

    Args:
        alive: called as long as the job gives signs of life.

    Raises:
        AlreadyRunning: the job runs elsewhere; the errors of OUTAGES: the database went away. The run counts as killed then.
    """
    began, report = clock.monotonic(), Report()
    limits = Limits(clock, stop, settings.maintenance_deadline, alive)

    def told(what: str, done: int, total: int | None) -> None:
        alive()
        progress(what, done, total)

    def ended(outcome: Outcome, error: str | None = None) -> Ended:
        by = limits.told if outcome == "stopped" else None
        run, seconds = job.run.id if job.run else None, clock.monotonic() - began
        return Ended(order, run, outcome, report, job.planned, seconds, by, error)

    with contextlib.nullcontext() if order.dry_run else alone(settings, order.job):
        generator, embedder = models(settings, order, report, alive)
        job = Job(
            db, settings, clock, None, generator, embedder, order.project, limits.stopping, told, report
        )
        if order.dry_run:
            _module(order.job).run_once(job)
            return ended("stopped" if limits.told else "done")
        job.run = run = _begin(db, order, clock)
        limits.job = job
        with _given_up(db, run, report, clock, stop):
            error = _guarded(job, settings)
            found = ended("failed" if error else "stopped" if limits.told else "done", error)
            runs.finish(db, run, found.outcome, _written(report, found.ended_by), clock.now(), error=error)
    return found


@contextlib.contextmanager
def alone(settings: Settings, job: runs.Job) -> Iterator[None]:
    """Hold the job's lock file, so that no other process of this home runs it.

    Raises:
        AlreadyRunning: one does.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(home.exclusive(settings.home, f"job-{job}"))
        except AlreadyRunning as error:
            who = str(error).rpartition("(")[2].rstrip(")")
            raise AlreadyRunning(f"{job} is running already ({who})", hint=error.hint) from None
        yield


def models(
    settings: Settings, order: Order, report: Report, alive: Callable[[], None] = lambda: None
) -> tuple[TextGenerator | None, Embedder | None]:
    """What writes and what embeds for one run; None where there is none, which the report says if it should be there.
    Nothing is loaded before it is used, and a dry run neither asks nor fetches.

    Args:
        alive: called while something is fetched.
    """
    generator: TextGenerator | None = None
    embedder: Embedder | None = None
    try:
        generator = choose.generator(settings)
    except ProviderError as error:
        report.note(f"no model: {error}")
    try:
        embedder = late_embedder(settings, fetch=not order.dry_run, alive=alive)
    except (ProviderError, EmbedderUnavailable) as error:
        report.note(f"no embedder: {error}")
    return generator, embedder


def _module(job: runs.Job) -> ModuleType:
    """The job's module, which has its `run_once`."""
    return importlib.import_module(f"maintenance.{job}")


def _begin(db: Database, order: Order, clock: Clock) -> Run:
    host = socket.gethostname()
    return runs.begin(
        db,
        order.job,
        asked_by=order.asked_by,
        described=f"{host} process {os.getpid()}",
        now=clock.now(),
        due_at=order.due_at,
        project=order.project,
        host=host,  # whoever held the lease here is dead: the job's lock file is ours
    )


def _guarded(job: Job, settings: Settings) -> str | None:
    """Run a job; returns what it failed with."""
    assert job.run is not None
    try:
        _module(job.run.job).run_once(job)
    except LostRace as lost:
        log.error("a run was taken over", job=job.run.job, run=str(job.run.id), reason=str(lost))
        return str(lost)
    except Exception as error:  # a job that fails is written down, and the others go on
        if isinstance(error, OUTAGES) and not job.db.reachable():
            raise
        said = told_of(error, settings)
        log.error("a job failed", job=job.run.job, run=str(job.run.id), error=said, at=_frames(error))
        return said
    return None


@contextlib.contextmanager
def _given_up(db: Database, run: Run, report: Report, clock: Clock, stop: threading.Event) -> Iterator[None]:
    """Write the run down as stopped when it was asked to end and does not: the process is about to be left."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(0.25):
            if stop.is_set() and not ended.wait(GIVE_UP):
                with contextlib.suppress(*OUTAGES):
                    runs.finish(db, run, "stopped", _written(report, ASKED), clock.now())
                return

    threading.Thread(target=watch, name="giving up", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def _written(report: Report, ended_by: str | None) -> dict[str, object]:
    return report.to_json() | ({"ended_by": ended_by} if ended_by else {})


def told_of(error: Exception, settings: Settings) -> str:
    """An error in words that hold no text of a memory: ours are made for people, and redacted; a server that is away quotes
    nothing; of all others only what and where."""
    kind = type(error).__name__
    if isinstance(error, CemsError):
        from cems.redact import Redactor  # its patterns take a tenth of a second

        return Redactor(home.redaction_key(settings.home)).redact(str(error))
    if isinstance(error, psycopg.OperationalError):
        return f"{kind}: {error.diag.message_primary or 'the database did not answer'}"
    ours = [frame for frame in _frames(error) if frame.startswith(_OURS)]
    return f"{kind} in {ours[-1] if ours else 'unknown'}"


def _frames(error: Exception) -> list[str]:
    """Where it was raised, outermost first; never what lines held."""
    stack = traceback.extract_tb(error.__traceback__)
    return [f"{'/'.join(frame.filename.split('/')[-2:])}:{frame.lineno} {frame.name}" for frame in stack]
