"""The observer inside the test's own process, for what a test must reach into: its clock, its watcher, its threads."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from cems import home
from cems.clock import Clock
from cems.settings import Settings
from db.connect import Database
from db.ledger import Caps
from observer.extract import Extractor
from observer.observe import Observing
from observer.process import Process
from observer.start import capture
from observer.watch import Watcher

CAPS = Caps(10**6, 10**9)


def observing(db: Database, extractor: Extractor, clock: Clock, *, attempts: int = 5) -> Observing:
    """The observing side alone, which waits for nothing between two tries."""
    return Observing(db, extractor, (), clock, attempts=attempts, caps=CAPS, retry_delays=(0.0,))


def process(
    db: Database, settings: Settings, extractor: Extractor, watcher: Watcher | None, clock: Clock
) -> Process:
    observe = Observing(db, extractor, (), clock, caps=CAPS, machine=home.machine_id(settings.home))
    return Process(db, settings, capture(db, settings, clock), observe, None, watcher, clock)


@contextlib.contextmanager
def running(found: Process) -> Iterator[threading.Event]:
    """Run it in a thread for the time of the block, which gets an event for its first pass; what ended it early is raised
    at the end."""
    failure: list[BaseException] = []
    ready = threading.Event()

    def run() -> None:
        try:
            found.run(ready.set)
        except BaseException as error:  # noqa: BLE001 - raised in the test's thread
            failure.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield ready
    finally:
        found.shutdown()
        thread.join(20)
        if failure:
            raise failure[0]
    assert not thread.is_alive()
