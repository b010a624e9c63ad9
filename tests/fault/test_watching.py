"""File events are hints: with all of them, with hardly any and with none, the same lines land; and nothing an event can do
ends the watching for good."""

from __future__ import annotations

import dataclasses
import errno
import threading
import time
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from watchdog.events import FileSystemEvent
from watchdog.observers.api import EventEmitter

from cems.clock import SystemClock
from cems.settings import Settings
from db.connect import Connection, Database
from observer import watch
from observer.rules import RuleExtractor
from observer.start import capture
from observer.watch import Watcher
from tests.conftest import FakeClock
from tests.fault.here import process, running
from tests.fault.sessions import append, count, prompt, session_file, write
from tests.waiting import wait_until

LINES = "select count(*) as n from line"


class Counting(threading.Event):
    """An event that knows how often it was set."""

    count = 0

    def set(self) -> None:
        self.count += 1
        super().set()


@pytest.fixture
def brisk(settings: Settings) -> Settings:
    return dataclasses.replace(settings, observer_poll_interval=0.3)


@pytest.fixture
def watcher(projects: Path) -> Watcher:
    return Watcher([projects])


def test_W1_without_a_watcher_the_poll_finds_it_all(
    db: Database, brisk: Settings, projects: Path, sql: Connection
) -> None:
    with running(process(db, brisk, RuleExtractor(), None, SystemClock())):
        for number in range(20):
            append(session_file(projects, f"s{number % 5}"), prompt(number))
        began = time.monotonic()
        wait_until(lambda: count(sql, LINES) == 20, 10)
        assert time.monotonic() - began < 5


def test_W2_dropped_events_cost_nothing_but_time(
    db: Database,
    brisk: Settings,
    projects: Path,
    sql: Connection,
    watcher: Watcher,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard = []

    def hardly(self: object, event: FileSystemEvent) -> None:
        heard.append(event)
        if len(heard) % 100 == 0:
            watcher.wake.set()

    monkeypatch.setattr(watch._Wake, "dispatch", hardly)
    with running(process(db, brisk, RuleExtractor(), watcher, SystemClock())):
        for number in range(400):
            append(session_file(projects, f"s{number}", f"-p{number % 20}"), prompt(number))
        wait_until(lambda: count(sql, LINES) == 400, 20)
    assert len(heard) > 100


def test_W3_at_the_watch_limit_it_polls_and_says_so_once(
    db: Database,
    brisk: Settings,
    projects: Path,
    sql: Connection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    began = set(threading.enumerate())
    starts = []
    start = EventEmitter.start

    def limited(self: EventEmitter) -> None:
        starts.append(self)
        if len(starts) % 2 == 0:
            raise OSError(errno.ENOSPC, "inotify watch limit reached")
        start(self)

    monkeypatch.setattr(EventEmitter, "start", limited)
    watcher = Watcher([projects, other])
    with capture_logs() as logs, running(process(db, brisk, RuleExtractor(), watcher, SystemClock())):
        write(session_file(projects), prompt(1))
        wait_until(lambda: count(sql, LINES) == 1, 10)
        wait_until(lambda: len(starts) >= 8, 10, "several tries to watch")
    assert len([line for line in logs if "cannot be watched" in line["event"]]) == 1
    wait_until(
        lambda: not [t for t in set(threading.enumerate()) - began if isinstance(t, EventEmitter)],
        10,
        "emitters to end",
    )


def test_case_C7_a_dead_watcher_is_noticed_and_started_anew(projects: Path, watcher: Watcher) -> None:
    assert watcher.ensure()
    assert watcher._observer is not None
    for emitter in watcher._observer.emitters:
        emitter.stop()
        emitter.join(10)
    assert not watcher.alive()
    assert watcher.ensure()
    assert watcher.alive()
    watcher.wake.clear()
    write(session_file(projects), prompt(1))
    assert watcher.wake.wait(10)
    watcher.stop()


def test_case_C7_a_handler_does_nothing_that_can_raise(watcher: Watcher) -> None:
    watch._Wake(watcher.wake).dispatch(FileSystemEvent(b"\xff\x00"))
    assert watcher.wake.is_set()


def test_case_C8_a_root_that_comes_later_is_watched(tmp_path: Path) -> None:
    root = tmp_path / "later"
    watcher = Watcher([root])
    assert watcher.ensure()
    root.mkdir()
    assert watcher.ensure()
    (root / "-a").mkdir()
    assert watcher.wake.wait(10)
    root.rename(tmp_path / "gone")
    root.mkdir()
    assert watcher.ensure()
    watcher.wake.clear()
    (root / "-b").mkdir()
    assert watcher.wake.wait(10)
    watcher.stop()


@pytest.mark.parametrize("watched", [True, False])
def test_case_C10_folder_session_and_file_in_one_breath(
    watched: bool, db: Database, brisk: Settings, projects: Path, sql: Connection, watcher: Watcher
) -> None:
    with running(process(db, brisk, RuleExtractor(), watcher if watched else None, SystemClock())) as ready:
        assert ready.wait(10)
        session = session_file(projects, folder="-just-now")
        write(session, prompt(1))
        agent = session.with_suffix("") / "subagents" / "agent-a1.jsonl"
        agent.parent.mkdir(parents=True)
        write(agent, prompt(2, agent="a1"))
        wait_until(lambda: count(sql, LINES) == 2, 10)


def test_case_C11_reading_wakes_nobody(
    db: Database, settings: Settings, projects: Path, watcher: Watcher, clock: FakeClock
) -> None:
    write(session_file(projects), *(prompt(n) for n in range(50)))
    watcher.wake = wake = Counting()
    assert watcher.ensure()
    counts = []
    for name in ("one", "two"):
        before = wake.count
        if name == "two":
            capture(db, settings, clock).run_pass()
        # Events come in order: after those of this file, any of the reading's would be there.
        write(session_file(projects, name), prompt(1))
        wait_until(lambda: wake.count > before, 10)  # noqa: B023 - called at once
        wait_until(lambda: _still(wake), 10, "events to end")
        counts.append(wake.count - before)
    watcher.stop()
    assert counts[0] == counts[1]


def _still(wake: Counting) -> bool:
    before = wake.count
    threading.Event().wait(0.3)
    return wake.count == before
