"""The observer as a process: two threads over one queue in the database. The capture thread lands what the transcripts
bring and closes batches; the observing thread drains batches and embeds. A slow model never delays a landing, and either
thread waits out a database that is away. What neither expects ends the process, and whoever runs it starts it again."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import random
import socket
import threading
import uuid
from collections.abc import Callable

import structlog

from cems import home
from cems.clock import Clock
from cems.errors import AlreadyRunning, LlmPaused
from cems.notify import Service
from cems.settings import Settings
from db import health, ingest, lease
from db.connect import OUTAGES, Database
from observer.batch import close_due
from observer.capture import Capture
from observer.embed import Embedding
from observer.observe import Observing
from observer.watch import Watcher

log = structlog.get_logger()
LONGEST_WAIT = 60.0
"""Seconds between two tries to reach a database that is away, at most."""
DEBOUNCE = 0.5
"""Seconds after an event before looking, so that a burst is one look."""
RETRY_WAIT = 60.0
"""Seconds that a single run waits for a batch whose answer was unusable to be due again."""
_RENEW = lease.HOLD.total_seconds() / 4
LOOPS = {"capture": 80.0, "observing": 900.0}
"""The two threads, and the seconds after which a silent one is stuck: a look over everything renews its lease, and so is heard,
all the time; a request to a model may take minutes."""


class Process:
    """One observer for a machine and home. The caller holds the home's file lock; the lease row keeps a second observer
    out where a file lock does not reach."""

    def __init__(
        self,
        db: Database,
        settings: Settings,
        capture: Capture,
        observing: Observing,
        embedding: Embedding | None,
        watcher: Watcher | None,
        clock: Clock,
        service: Service | None = None,
    ) -> None:
        self._service = service or Service(LOOPS, environment={})
        self._db = db
        self._settings = settings
        self._capture = capture
        self._observing = observing
        self._embedding = embedding
        self._watcher = watcher
        self._clock = clock
        self._stop = threading.Event()
        self.wake = watcher.wake if watcher else threading.Event()
        self._to_observe = threading.Event()
        self._failure: BaseException | None = None
        self._holder = uuid.uuid4()
        self._machine = home.machine_id(settings.home)
        self._lease = f"observer:{self._machine}"
        self._ours = threading.Event()
        """Set while the lease is held; what an observer before this one had claimed is free again then."""
        self._renewed = float("-inf")
        # The lease is renewed at each look, so a longer poll interval does not make the looks rarer than that.
        self._wait_time = min(settings.observer_poll_interval, _RENEW)
        self._paused_until: dt.datetime | None = None
        self._database: int | None = None

    def shutdown(self) -> None:
        """Ask the process to end; safe in a signal handler."""
        self._stop.set()
        self.wake.set()
        self._to_observe.set()
        self._ours.set()

    def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Work until `shutdown`. Raises whatever ended one of the threads.

        Args:
            ready: called once, after the first pass over every transcript.

        Raises:
            AlreadyRunning: another observer holds the lease.
        """
        thread = threading.Thread(target=self._observe_guarded, name="observing", daemon=True)
        self._ready: Callable[[], None] | None = ready
        thread.start()
        try:
            self._waiting_out_outages("capture", self._capture_round)
        finally:
            self.shutdown()
            # A call to a provider may still hang; its batch is under a lease and is taken up again after the restart.
            thread.join(timeout=5)
            if self._watcher:
                self._watcher.stop()
            with contextlib.suppress(*OUTAGES):
                lease.release(self._db, self._lease, self._holder)
        if self._failure is not None:
            raise self._failure

    def run_once(self, progress: Callable[[int], None] = lambda _bytes: None) -> None:
        """Land, observe and embed all there is, then return.

        Raises:
            AlreadyRunning: another observer holds the lease.
            the errors of OUTAGES: the database went away; nothing is lost, run again.
        """

        def landed(count: int) -> None:
            self._hold_lease()
            progress(count)

        self._hold_lease()
        self._ours.set()
        ingest.free_claims(self._db, self._machine)
        try:
            while (
                self._capture.run_pass(once=True, stop=self._stop, progress=landed)
                and not self._stop.is_set()
            ):
                continue
            self._close_due(once=True)
            self._drain()
            while (wait := self._until_due()) <= RETRY_WAIT and not self._stop.wait(wait):
                self._drain()
        finally:
            with contextlib.suppress(*OUTAGES):
                lease.release(self._db, self._lease, self._holder)

    # ---- capture

    def _capture_round(self, after_outage: bool) -> None:
        if self._watcher:
            self._watcher.ensure()
        if after_outage:
            self._capture.forget_cursors()
        self.wake.clear()
        if self._stop.is_set():  # asked to end just before the clear
            return
        self._notice_database()
        try:
            self._hold_lease()
            if not self._ours.is_set():
                ingest.free_claims(self._db, self._machine)
                self._ours.set()
            self._capture.run_pass(stop=self._stop, progress=lambda _bytes: self._hold_lease())
        except AlreadyRunning as error:
            if self._renewed == float("-inf"):
                raise
            # The lease was lost while the database was away: stop working until it is ours again.
            log.error("another observer took over; waiting", reason=str(error))
            self._ours.clear()
            self._service.beat("capture", "another observer took over; waiting")
            self._stop.wait(self._wait_time)
            self._renewed = -_RENEW
            return
        if self._ready:
            ready, self._ready = self._ready, None
            ready()
        if self._close_due():
            self._to_observe.set()
        before = self._clock.now()
        if self.wake.wait(self._wait_time):
            self._stop.wait(DEBOUNCE)
        slept = (self._clock.now() - before).total_seconds() - self._wait_time
        if slept > LONGEST_WAIT:
            log.info("the machine slept; looking at everything", seconds=round(slept))

    def _notice_database(self) -> None:
        """Where a restore put another database under the name, what is remembered of the former one counts no more, neither how
        far transcripts are read nor the lease."""
        found = health.identity(self._db)
        if self._database not in (None, found):
            log.info("the database is another one; looking at everything")
            self._capture.forget_cursors()
            self._ours.clear()
            self._renewed = -_RENEW
        self._database = found

    def _close_due(self, once: bool = False) -> int:
        return close_due(
            self._db,
            self._clock.now(),
            batch_size=self._settings.observer_batch_size,
            idle=dt.timedelta(seconds=self._settings.observer_idle_time),
            once=once,
        )

    def _hold_lease(self) -> None:
        """Take or renew the lease, when it is time."""
        if self._clock.monotonic() - self._renewed < _RENEW:
            return
        host = socket.gethostname()
        described = f"{host} process {os.getpid()}"
        lease.acquire(self._db, self._lease, self._holder, described, self._clock.now(), host=host)
        self._renewed = self._clock.monotonic()
        self._service.beat("capture")

    # ---- observing

    def _observe_guarded(self) -> None:
        """The observing thread. Whatever it does not expect ends the process: kept for the main thread to raise, because
        an exception in a thread would otherwise end the thread alone."""
        try:
            self._waiting_out_outages("observing", self._observe_round)
        except BaseException as error:  # noqa: BLE001 - handed to the main thread, which raises it
            self._failure = error
            self.shutdown()

    def _observe_round(self, after_outage: bool) -> None:
        while not self._ours.wait(_RENEW):  # for as long as another observer holds the lease
            self._service.beat("observing")
        if after_outage:
            ingest.free_claims(self._db, self._machine, outage=True)
        self._to_observe.clear()
        if self._stop.is_set():  # asked to end just before the clear
            return
        self._to_observe.wait(min(self._drain(), LONGEST_WAIT))

    def _drain(self) -> float:
        """Observe what is due and embed what came out; returns seconds until something may be due again."""
        wait = self._settings.observer_poll_interval
        try:
            while self._working() and self._observing.run_one():
                self._service.beat("observing")
            self._paused_until = None
        except LlmPaused as paused:
            if paused.until != self._paused_until:
                self._paused_until = paused.until
                log.warning("observing waits", reason=paused.reason, until=paused.until.isoformat())
            wait = min(wait, max(0.1, (paused.until - self._clock.now()).total_seconds()))
        if self._embedding:
            try:
                while self._working() and self._embedding.run_one():
                    self._service.beat("observing")
            except LlmPaused as paused:
                log.info("embedding waits", reason=paused.reason, until=paused.until.isoformat())
        return min(wait, self._until_due())

    def _until_due(self) -> float:
        """Seconds until the next batch can be observed; endless where none waits, or calls are paused."""
        due = ingest.next_due(self._db) if self._paused_until is None else None
        return float("inf") if due is None else max(0.05, (due - self._clock.now()).total_seconds())

    def _working(self) -> bool:
        """Whether to go on: not asked to end, and the lease not lost."""
        return self._ours.is_set() and not self._stop.is_set()

    # ---- both

    def _waiting_out_outages(self, name: str, work: Callable[[bool], None]) -> None:
        """Call `work` until stopped. While the database is away, wait: 0.5 s, doubling up to a minute, jittered; `work` is
        told when it follows an outage."""
        failures = 0
        while not self._stop.is_set():
            try:
                work(failures > 0)
            except OUTAGES as error:
                failures += 1
                if failures == 1:
                    log.warning(
                        "degraded: the database does not answer, or is locked or full; waiting",
                        thread=name,
                        reason=type(error).__name__,
                    )
                # Waiting is what it should do now; a restart would mend nothing.
                self._service.beat(name, "the database does not answer; waiting")
                longest = min(LONGEST_WAIT, 0.5 * 2 ** min(failures, 10))
                self._stop.wait(longest * random.uniform(0.5, 1.0))
            else:
                if failures:
                    log.info("the database answers again", thread=name, failures=failures)
                failures = 0
                self._service.beat(name, "observing")
