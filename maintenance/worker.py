"""The worker: once a minute it asks the rows what is due and runs that, one job at a time, in order. The ticks come from
APScheduler and mean only "look"; whatever they miss, the next look finds. While the database is away it waits; what it does
not expect ends the process, and whoever runs it starts it again."""

from __future__ import annotations

import ctypes
import datetime as dt
import gc
import logging
import sys
import threading
from collections.abc import Callable

import structlog
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger

from cems.clock import Clock
from cems.errors import AlreadyRunning
from cems.settings import Settings
from db.connect import OUTAGES, Database
from db.runs import JOBS, Job
from maintenance import schedule
from maintenance.due import Due
from maintenance.start import Ended, Order, run_job

log = structlog.get_logger()
TICK = 60.0
"""Seconds between two looks."""
AWAY = "the database does not answer; waiting"
WAITING = "waiting for the next schedule"


class Worker:
    """One worker for a home; the caller holds the home's lock file."""

    def __init__(
        self,
        db: Database,
        settings: Settings,
        clock: Clock,
        stop: threading.Event,
        *,
        alive: Callable[[str], None] = lambda status: None,
    ) -> None:
        """Args:
        stop: ends it, and the job that runs, within seconds.
        alive: told what it does, after each answer of the database and while a job gives signs of life.
        """
        self._db, self._settings, self._clock, self._stop, self._alive = db, settings, clock, stop, alive
        self._due = Due(db)
        self._zone = schedule.zone(settings)
        self._plans = schedule.of(settings, self._zone)
        self._away = False
        self._elsewhere: set[Job] = set()
        """Jobs that were due and ran elsewhere at the last look."""
        self._failure: BaseException | None = None

    def run(self) -> None:
        """Look at once, then at every tick, until stopped. Raises what a look did not expect."""
        # A look that takes longer than a tick is a job at work; that the scheduler then leaves ticks out needs no warning.
        logging.getLogger("apscheduler").setLevel(logging.ERROR)
        ticker = BackgroundScheduler(timezone=dt.UTC, executors={"default": ThreadPoolExecutor(1)})
        ticking = ticker.add_job(
            self._guarded,
            IntervalTrigger(seconds=int(TICK), timezone=dt.UTC),
            next_run_time=dt.datetime.now(dt.UTC),
            misfire_grace_time=None,
            coalesce=True,
            max_instances=1,
        )
        ticker.start()
        try:
            while not self._stop.wait(TICK):
                # The ticker waits for a time of day: after the clock was set back, that may be long.
                now = dt.datetime.now(dt.UTC)
                if ticking.next_run_time - now > dt.timedelta(seconds=2 * TICK):
                    ticking.modify(next_run_time=now)
        finally:
            ticker.shutdown(wait=True)
        if self._failure is not None:
            raise self._failure

    def tick(self) -> None:
        """One look, or one word that the database is away."""
        try:
            if not self._db.reachable():
                self._lost("it does not answer")
                return
            if self._away:
                self._away = False
                self._due.forget()  # it may be another one
                log.info("the database answers again")
            self._due.notice()
            self._alive(WAITING)
            if self.look():
                _give_memory_back()
            self._alive(WAITING)
        except OUTAGES as error:
            self._lost(type(error).__name__)

    def look(self) -> list[Ended]:
        """Run what is due now, in order; returns how the runs ended.

        Raises:
            the errors of OUTAGES: the database went away.
        """
        if (zone := schedule.zone(self._settings)) is not self._zone:
            self._zone, self._plans = zone, schedule.of(self._settings, zone)
        found = []
        for job in JOBS:
            if self._stop.is_set():
                break
            moment = self._due.moment(job, self._plans[job], self._clock.now())
            if moment is None:
                self._elsewhere.discard(job)
            elif (ended := self._run(job, moment)) is not None:
                found.append(ended)
        return found

    def _run(self, job: Job, moment: dt.datetime) -> Ended | None:
        if job not in self._elsewhere:
            log.info("a job begins", job=job, due_at=moment.isoformat())
        order = Order(job, asked_by="schedule", due_at=moment)
        running = f"{job} is running"
        try:
            ended = run_job(
                self._db, self._settings, order, self._clock, self._stop, alive=lambda: self._alive(running)
            )
        except AlreadyRunning as error:
            if job not in self._elsewhere:
                log.info("a job that is due runs elsewhere", job=job, reason=str(error))
            self._elsewhere.add(job)
            return None
        self._elsewhere.discard(job)
        counts = ended.report
        log.info(
            "a job ended",
            job=job,
            run=str(ended.run),
            outcome=ended.outcome,
            seconds=round(ended.seconds, 1),
            seen=counts.seen,
            changed=counts.changed,
            failed=counts.failed,
            waiting=counts.waiting,
            llm_calls=counts.llm_calls,
        )
        return ended

    def _lost(self, why: str) -> None:
        self._alive(AWAY)  # waiting is what it should do now; a restart would mend nothing
        if not self._away:
            log.warning("degraded: the database does not answer; waiting", reason=why)
        self._away = True

    def _guarded(self) -> None:
        """A tick in the ticker's thread, which would only log what is raised: it is kept for the main thread to raise."""
        try:
            self.tick()
        except BaseException as error:  # noqa: BLE001 - handed to the main thread, which raises it
            self._failure = error
            self._stop.set()


def _give_memory_back() -> None:
    """What a job's models held goes back to the system: a worker is idle for all but minutes of a day."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's; others give back by themselves
        if trim is not None:
            trim(0)
