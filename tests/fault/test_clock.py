"""Wall clocks jump; order comes from files, and what waits for a time does not wait a day longer or lose its place."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from cems.errors import AlreadyRunning, ProviderUnavailable
from cems.providers.fake import ScriptedGenerator
from cems.settings import Settings
from db import ingest, lease, ledger
from db.connect import Connection, Database
from observer.batch import close_due
from observer.llm import LlmExtractor
from observer.rules import RuleExtractor
from observer.start import capture
from tests.conftest import FakeClock
from tests.fault.here import CAPS, observing, process, running
from tests.fault.sessions import answer, append, count, landed, prompt, session_file, write
from tests.fault.test_cases_S import LEASE, every_note
from tests.waiting import wait_until

DAY = dt.timedelta(days=1)
IDLE = dt.timedelta(seconds=60)


@pytest.mark.parametrize("jump", [DAY, -DAY, 400 * DAY, -400 * DAY])
def test_C1_a_clock_that_jumps_between_any_two_steps(
    jump: dt.timedelta, db: Database, settings: Settings, clock: FakeClock, projects: Path, sql: Connection
) -> None:
    """Batches waiting or claimed before the jump, and lines that came before and after it, are all observed within the
    minutes it would have taken without."""
    path = write(session_file(projects), *(r for n in range(3) for r in (prompt(n), answer(n))))
    seen = capture(db, settings, clock)
    seen.run_pass()
    close_due(db, clock.now(), batch_size=400, idle=IDLE, once=True)
    assert ingest.claim(db, clock.now(), LEASE)
    append(path, prompt(3), answer(3))
    seen.run_pass()
    clock.time += jump
    append(path, prompt(4), answer(4))
    seen.run_pass()
    clock.advance(LEASE.total_seconds() + 1)
    close_due(db, clock.now(), batch_size=10**6, idle=IDLE)
    model = ScriptedGenerator(default=every_note)
    observe = observing(db, LlmExtractor(model), clock)
    while observe.run_one():
        pass
    assert count(sql, "select count(*) as n from line where batch_id is null") == 0
    assert count(sql, "select count(*) as n from batch where status <> 'observed'") == 0
    assert count(sql, "select count(*) as n from memory where seen_count = 1") == 5
    assert [row["text"].split()[-1] == "is." or row["kind"] for row in landed(sql)][1::2] == ["answer"] * 5


@pytest.mark.parametrize("jump", [DAY, -DAY])
def test_C1_lines_that_wait_are_closed_after_a_jump(
    jump: dt.timedelta, db: Database, settings: Settings, clock: FakeClock, projects: Path, sql: Connection
) -> None:
    write(session_file(projects), prompt(1, at=clock.now()), answer(1, at=clock.now()))
    capture(db, settings, clock).run_pass()
    assert close_due(db, clock.now(), batch_size=10**6, idle=IDLE) == 0
    clock.time += jump
    clock.advance(61)
    assert close_due(db, clock.now(), batch_size=10**6, idle=IDLE) == 1


def test_C1_a_pause_from_a_day_that_is_not_yet_holds_nobody_up(db: Database, clock: FakeClock) -> None:
    def fail() -> None:
        error = ProviderUnavailable("away")
        ledger.record(
            db,
            purpose="extraction",
            model="m",
            started_at=clock.now(),
            seconds=1,
            usage=None,
            cost_usd=None,
            error=error,
        )

    clock.time += DAY
    fail()
    with pytest.raises(Exception, match="away"):
        ledger.check(db, "extraction", CAPS, clock.now())
    clock.time -= DAY
    ledger.check(db, "extraction", CAPS, clock.now())
    fail()
    with pytest.raises(Exception, match="away"):
        ledger.check(db, "extraction", CAPS, clock.now())


def test_C1_a_lease_from_a_day_that_is_not_yet(db: Database, clock: FakeClock) -> None:
    one, two = uuid.uuid4(), uuid.uuid4()
    lease.acquire(db, "observer:x", one, "host-a process 1", clock.now())
    with pytest.raises(AlreadyRunning):
        lease.acquire(db, "observer:x", two, "host-b process 1", clock.now())
    clock.time -= DAY
    lease.acquire(db, "observer:x", two, "host-b process 1", clock.now())


def test_case_C12_a_machine_that_slept_says_so_and_looks_at_once(
    db: Database, settings: Settings, clock: FakeClock, projects: Path, sql: Connection
) -> None:
    quick = dataclasses.replace(settings, observer_poll_interval=0.2)
    with capture_logs() as logs, running(process(db, quick, RuleExtractor(clock), None, clock)) as ready:
        assert ready.wait(10)
        write(session_file(projects), prompt(1))

        def sleeps() -> bool:
            clock.time += dt.timedelta(hours=5)
            return any("slept" in line["event"] for line in logs)

        wait_until(sleeps, 10, "a word on the sleep", every=0.15)
        wait_until(lambda: count(sql, "select count(*) as n from line") == 1, 10)
