"""What is due, on the rows of a real database and a clock of the tests: every scheduled moment once, whatever sleeps, dies or
changes the time."""

from __future__ import annotations

import bisect
import dataclasses
import datetime as dt
import random
import sys
import threading
import time
import zoneinfo
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cems.settings import Settings
from db import runs
from db.connect import Connection, Database
from db.embedded import ServerInfo
from db.runs import JOBS
from maintenance import due, schedule
from maintenance.job import Job
from maintenance.worker import AWAY, WAITING, Worker
from tests import stand_in_jobs
from tests.conftest import FakeClock, admin
from tests.waiting import wait_until

UTC = dt.UTC
HOUR, DAY = 3600.0, 86400.0
OFF = {f"{job}_schedule": "off" for job in JOBS}
Body = Callable[[Job], None]


@pytest.fixture
def ran() -> Iterator[list[tuple[str, dt.datetime]]]:
    """The runs of stand-ins for all jobs: name and when."""
    found: list[tuple[str, dt.datetime]] = []
    kept = {name: sys.modules.get(name) for name in (f"maintenance.{job}" for job in JOBS)}
    for job in JOBS:
        stand_in_jobs.put(job, _noting(job, found))
    yield found
    for name, module in kept.items():
        if module is None:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = module


def _noting(name: str, found: list[tuple[str, dt.datetime]]) -> Body:
    def run_once(job: Job) -> None:
        found.append((name, job.clock.now()))

    return run_once


def at(text: str, zone: dt.tzinfo = UTC) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC)


def made(sql: Connection, moment: dt.datetime) -> None:
    """Let the database have been made then."""
    sql.execute("update schema_migration set applied_at = %s", (moment,))


def nightly(settings: Settings, **schedules: str) -> Settings:
    """Only these jobs, in UTC unless a zone is given."""
    return dataclasses.replace(settings, **{"timezone": "UTC"} | OFF | schedules)  # type: ignore[arg-type]


def worker(db: Database, settings: Settings, clock: FakeClock, stop: threading.Event | None = None) -> Worker:
    return Worker(db, settings, clock, stop or threading.Event())


def outcomes(db: Database) -> list[str]:
    return [row["outcome"] for row in reversed(runs.history(db, limit=1000))]


# ---- a year


@pytest.mark.parametrize("name", ["America/New_York", "Europe/Berlin"])
def test_a_year_of_ticks_and_sleeps_runs_every_moment_once_or_catches_it_up_once(
    db: Database, sql: Connection, settings: Settings, ran: list[tuple[str, dt.datetime]], name: str
) -> None:
    zone, chance = zoneinfo.ZoneInfo(name), random.Random(name)
    settings = dataclasses.replace(settings, timezone=name, consolidation_schedule="30 2 * * *")
    clock = FakeClock(at("2026-01-01T12:00", zone))
    end = clock.time + dt.timedelta(days=366)
    made(sql, clock.time)
    expected = {job: [] for job in JOBS}  # type: ignore[var-annotated]
    moments = {job: _by_hand(job, zone) for job in JOBS}
    tested = worker(db, settings, clock)
    before, looks, spent = clock.time, 0, 0.0
    while clock.time < end:
        began = time.perf_counter()
        count = len(tested.look())
        if not count:
            looks, spent = looks + 1, spent + time.perf_counter() - began
        for job in JOBS:
            # However many moments passed since the last look, one run, for the newest of them.
            passed = bisect.bisect_right(moments[job], clock.time)
            if passed > bisect.bisect_right(moments[job], before):
                expected[job].append(moments[job][passed - 1])
        before = clock.time
        clock.advance(chance.choice((300.0, 300.0, 60.0)))
        if chance.random() < 0.004:
            clock.advance(chance.uniform(1, 12) * HOUR)
        if chance.random() < 0.0004:
            clock.advance(chance.uniform(1, 20) * DAY)
    found = {job: [r["due_at"] for r in runs.answered(db, job, at("2026-01-01"))][::-1] for job in JOBS}
    assert found == expected
    assert set(outcomes(db)) == {"done"} and len(ran) == sum(map(len, found.values()))
    assert len(found["consolidation"]) > 150 and len(found["reindexing"]) >= 8
    assert spent / looks < 0.001, "a look at which nothing is due is next to nothing"


def _by_hand(job: str, zone: zoneinfo.ZoneInfo) -> list[dt.datetime]:
    """The moments of a job over the year, by another way than the library's: wall-clock times of each day, where one that the
    clock leaves out is the first minute after the gap, and of one that comes twice the first counts."""
    hour, minute = {"consolidation": (2, 30), "reflection": (3, 30), "summarization": (4, 0)}.get(job, (5, 0))
    found = []
    for number in range(400):
        day = dt.datetime(2026, 1, 1, hour, minute, tzinfo=zone) + dt.timedelta(days=number)
        if (job == "summarization" and f"{day:%a}" != "Sun") or (job == "reindexing" and day.day != 1):
            continue
        while day.astimezone(UTC).astimezone(zone) != day:  # within a zone the wall clock is compared
            day += dt.timedelta(minutes=1)
        found.append(day.astimezone(UTC))
    return found


# ---- sleeps


def test_case_J82_what_the_laptop_slept_through_is_run_once_when_it_wakes(
    db: Database, sql: Connection, settings: Settings, ran: list[tuple[str, dt.datetime]]
) -> None:
    clock = FakeClock(at("2026-11-01T22:00"))
    made(sql, clock.time)
    tested = worker(db, nightly(settings, consolidation_schedule="0 3 * * *"), clock)
    assert tested.look() == []
    clock.advance(3 * DAY + 12 * HOUR)
    (ended,) = tested.look()
    assert ended.order.due_at == at("2026-11-05T03:00") and ended.outcome == "done"
    for _ in range(10):
        clock.advance(60)
        assert tested.look() == []
    assert len(ran) == 1


def test_case_C2_suspended_for_five_hours_every_missed_job_runs_once_and_in_order(
    db: Database, sql: Connection, settings: Settings, ran: list[tuple[str, dt.datetime]]
) -> None:
    clock = FakeClock(at("2026-11-01T01:00"))  # a Sunday, and the first of a month
    made(sql, clock.time - dt.timedelta(days=40))
    settings = dataclasses.replace(settings, timezone="UTC")
    worker(db, settings, clock).look()  # what October left
    assert [name for name, _ in ran] == list(JOBS)
    ran.clear()
    tested = worker(db, settings, clock)  # a restart forgets nothing
    assert tested.look() == []
    clock.advance(5 * HOUR)
    assert [ended.order.job for ended in tested.look()] == list(JOBS) == [name for name, _ in ran]
    assert tested.look() == [] == worker(db, settings, clock).look()


def test_nothing_is_due_from_before_the_database_was_made(
    db: Database, sql: Connection, settings: Settings, ran: list[tuple[str, dt.datetime]]
) -> None:
    clock = FakeClock(at("2026-11-05T12:00"))
    made(sql, at("2026-11-05T11:00"))
    tested = worker(db, nightly(settings, consolidation_schedule="0 3 * * *"), clock)
    assert tested.look() == []
    clock.advance(15 * HOUR)
    assert len(tested.look()) == 1


# ---- the clock is set


def test_a_clock_that_was_set_ahead_and_back_neither_spins_nor_stops(
    db: Database, sql: Connection, settings: Settings, ran: list[tuple[str, dt.datetime]]
) -> None:
    clock = FakeClock(at("2026-11-01T12:00"))
    made(sql, clock.time)
    tested = worker(db, nightly(settings, consolidation_schedule="0 3 * * *"), clock)
    clock.time = at("2027-11-01T12:00")
    assert len(tested.look()) == 1
    clock.time = at("2026-11-01T12:05")
    assert tested.look() == []
    for day in range(2, 12):
        clock.time = at(f"2026-11-{day:02}T03:00")
        assert len(tested.look()) == 1, day
        for _ in range(3):
            clock.advance(-7 * HOUR)
            assert tested.look() == []
            clock.advance(7 * HOUR + 60)
            assert tested.look() == []
    assert len(ran) == 11


def test_a_database_that_was_made_while_the_clock_was_ahead_is_maintained(
    db: Database, sql: Connection, settings: Settings, ran: list[tuple[str, dt.datetime]]
) -> None:
    clock = FakeClock(at("2026-11-01T12:00"))
    made(sql, at("2031-01-01"))
    tested = worker(db, nightly(settings, consolidation_schedule="0 3 * * *"), clock)
    assert len(tested.look()) == 1
    clock.advance(DAY)
    assert len(tested.look()) == 1 and tested.look() == []


def test_a_traveller_s_machine_runs_each_job_once_a_day(
    db: Database,
    sql: Connection,
    settings: Settings,
    ran: list[tuple[str, dt.datetime]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    clock = FakeClock(at("2026-11-01T12:00"))
    made(sql, clock.time)
    tested = worker(db, nightly(settings, timezone="", consolidation_schedule="0 3 * * *"), clock)
    clock.time = at("2026-11-02T02:05")  # 03:05 in Berlin
    assert len(tested.look()) == 1
    monkeypatch.setenv("TZ", "America/New_York")
    assert tested.look() == []
    clock.time = at("2026-11-02T08:05")  # 03:05 in New York
    assert len(tested.look()) == 1 and tested.look() == []


# ---- runs that did not end well


def test_a_failed_run_is_tried_again_after_ten_minutes_and_an_hour_and_then_not_before_the_next_moment(
    db: Database, sql: Connection, settings: Settings, ran: list[tuple[str, dt.datetime]]
) -> None:
    stand_in_jobs.put("consolidation", stand_in_jobs.fail)
    clock = FakeClock(at("2026-11-02T03:00"))
    made(sql, at("2026-11-01"))
    settings = nightly(settings, consolidation_schedule="0 3 * * *", reflection_schedule="0 3 * * *")
    tested, tried = worker(db, settings, clock), []
    for minute in range(23 * 60):
        for ended in tested.look():
            if ended.order.job == "consolidation":
                tried.append(minute)
                assert ended.outcome == "failed" and ended.error and "tabs" not in ended.error
                assert ended.error.startswith("ValueError in maintenance/start.py:")
        clock.advance(60)
        if minute % 100 == 0:
            tested = worker(db, settings, clock)
    assert tried == [0, 10, 70]
    assert len(ran) == 1, "the other job is none the worse"
    clock.time = at("2026-11-03T03:00")
    assert [ended.outcome for ended in tested.look()] == ["failed", "done"]


def test_a_failure_is_written_down_without_any_text_of_a_memory(
    db: Database, sql: Connection, settings: Settings, ran: list[tuple[str, dt.datetime]]
) -> None:
    def casts(job: Job) -> None:
        with job.db.transaction() as conn:
            conn.execute("select %s::integer", ("always use tabs",))

    def waits(job: Job) -> None:
        with job.db.transaction() as conn:
            conn.execute("set local statement_timeout = '10ms'")
            conn.execute("select pg_sleep(1)")

    made(sql, at("2026-11-01"))
    clock = FakeClock(at("2026-11-02T03:00"))
    tested = worker(db, nightly(settings, consolidation_schedule="0 3 * * *"), clock)
    for body, words in (
        (casts, "InvalidTextRepresentation in "),
        (waits, "QueryCanceled: canceling statement"),
    ):
        stand_in_jobs.put("consolidation", body)
        (ended,) = tested.look()
        assert ended.error and ended.error.startswith(words) and "tabs" not in ended.error
        clock.advance(DAY)
    assert runs.history(db)[0]["error"] == ended.error


def test_a_killed_run_does_not_count_and_one_that_is_killed_again_and_again_gets_time_to_breathe(
    db: Database, sql: Connection, settings: Settings, ran: list[tuple[str, dt.datetime]]
) -> None:
    def dies(job: Job) -> None:
        raise KeyboardInterrupt  # as good as a kill: nothing is written down

    stand_in_jobs.put("consolidation", dies)
    clock = FakeClock(at("2026-11-02T03:00"))
    made(sql, at("2026-11-01"))
    settings = nightly(settings, consolidation_schedule="0 3 * * *")
    deaths = []
    for minute in range(240):
        try:
            worker(db, settings, clock).look()
        except KeyboardInterrupt:
            deaths.append(minute)
        clock.advance(60)
    assert deaths == [0, 1, 2, 12, 72, 132, 192]
    stand_in_jobs.put("consolidation", stand_in_jobs.quick)
    clock.time = at("2026-11-02T12:00")
    assert len(worker(db, settings, clock).look()) == 1
    assert outcomes(db) == ["killed"] * 7 + ["done"]


def test_a_database_that_goes_away_under_a_job_is_waited_for_and_the_job_run_again(
    db: Database,
    sql: Connection,
    server: ServerInfo,
    dbname: str,
    settings: Settings,
    ran: list[tuple[str, dt.datetime]],
) -> None:
    def cut(job: Job) -> None:
        other.execute(f"alter database {dbname} allow_connections false".encode())
        other.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (dbname,))
        job.renew()

    said: list[str] = []
    stand_in_jobs.put("consolidation", cut)
    clock = FakeClock(at("2026-11-02T03:00"))
    made(sql, at("2026-11-01"))
    tested = Worker(
        db, nightly(settings, consolidation_schedule="0 3 * * *"), clock, threading.Event(), alive=said.append
    )
    with admin(server, "postgres") as other:
        tested.tick()
        assert said[0] == WAITING and said[-1] == AWAY
        stand_in_jobs.put("consolidation", stand_in_jobs.quick)
        tested.tick()
        assert said[-1] == AWAY
        other.execute(f"alter database {dbname} allow_connections true".encode())
    clock.advance(60)
    wait_until(db.reachable, 20)
    tested.tick()
    assert said[-1] == WAITING and outcomes(db) == ["killed", "done"]


def test_a_run_out_of_time_waits_for_the_next_moment_and_one_asked_to_end_does_not(
    db: Database, sql: Connection, settings: Settings, ran: list[tuple[str, dt.datetime]]
) -> None:
    stop = threading.Event()

    def until_told(job: Job) -> None:
        while not job.stopping():
            assert isinstance(job.clock, FakeClock)
            job.clock.advance(60)
            job.report.waiting = 4
            if job.report.seen:
                stop.set()

    def asked(job: Job) -> None:
        job.report.seen = 1
        until_told(job)

    clock = FakeClock(at("2026-11-02T03:00"))
    made(sql, at("2026-11-01"))
    settings = dataclasses.replace(
        nightly(settings, consolidation_schedule="0 3 * * *"), maintenance_deadline=1800.0
    )
    stand_in_jobs.put("consolidation", until_told)
    (ended,) = worker(db, settings, clock).look()
    assert (ended.outcome, ended.ended_by, ended.report.waiting) == ("stopped", "deadline", 4)
    assert clock.time == at("2026-11-02T03:30")
    assert worker(db, settings, clock).look() == []
    clock.time = at("2026-11-03T03:00")
    stand_in_jobs.put("consolidation", asked)
    (ended,) = worker(db, settings, clock, stop).look()
    assert (ended.outcome, ended.ended_by) == ("stopped", "asked")
    assert worker(db, settings, clock, stop).look() == [], "it was asked to end"
    stand_in_jobs.put("consolidation", stand_in_jobs.quick)
    (ended,) = worker(db, settings, clock).look()
    assert ended.outcome == "done" and ended.order.due_at == at("2026-11-03T03:00")


# ---- more than one


@pytest.mark.parametrize("one_home", [True, False])
def test_case_J86_S55_of_two_workers_one_runs_a_job(
    db: Database,
    sql: Connection,
    settings: Settings,
    ran: list[tuple[str, dt.datetime]],
    tmp_path: Path,
    one_home: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = threading.Event()

    def held(job: Job) -> None:
        assert refused.wait(20), "the other worker has to be refused while this one runs"
        assert not job.stopping()
        ran.append(("consolidation", job.clock.now()))

    def look(one: Worker) -> None:
        if not one.look():
            refused.set()

    stand_in_jobs.put("consolidation", held)
    clock = FakeClock(at("2026-11-01T12:00"))
    made(sql, clock.time)
    settings = nightly(settings, consolidation_schedule="0 3 * * *")
    homes = [settings.home, settings.home if one_home else tmp_path / "other"]
    if not one_home:  # another machine: another host's lease is left alone
        hosts = iter(range(10**6))
        monkeypatch.setattr("maintenance.start.socket.gethostname", lambda: f"host{next(hosts)}")
    workers = [worker(db, dataclasses.replace(settings, home=home), clock) for home in homes]
    for day in range(2, 12):
        clock.time = at(f"2026-11-{day:02}T03:00")
        for _ in range(2):
            refused.clear()
            threads = [threading.Thread(target=look, args=(one,)) for one in workers]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(40)
    assert len(ran) == 10, "one worker a day; a second run would have been let go by nobody"
    assert outcomes(db) == ["done"] * 10


def test_the_outlook_says_what_is_due_what_is_tried_again_and_what_is_stuck(
    db: Database, sql: Connection, settings: Settings, ran: list[tuple[str, dt.datetime]]
) -> None:
    clock = FakeClock(at("2026-11-02T01:00"))
    made(sql, at("2026-11-01T12:00"))
    settings = nightly(settings, timezone="Europe/Berlin", consolidation_schedule="0 3 * * *")
    first = due.outlook(db, settings, clock.now())
    assert first["zone"] == "Europe/Berlin" and [job["job"] for job in first["jobs"]] == list(JOBS)
    job, other = first["jobs"][:2]
    assert job["next_local"] == "2026-11-02T03:00+01:00" and not job["due_since"] and job["last"] is None
    assert other["schedule"] is None and other["next_at"] is None
    stand_in_jobs.put("consolidation", stand_in_jobs.fail)
    clock.advance(HOUR)
    assert due.outlook(db, settings, clock.now())["jobs"][0]["due_since"] == at("2026-11-02T02:00")
    tested = worker(db, settings, clock)
    tested.look()
    clock.advance(60)
    job = due.outlook(db, settings, clock.now())["jobs"][0]
    assert (
        job["next_local"] == "2026-11-02T03:10+01:00"
        and job["last"]["outcome"] == "failed"
        and not job["stuck"]
    )
    for body, stuck in (
        (stand_in_jobs.idle, False),
        (stand_in_jobs.idle, True),
        (stand_in_jobs.quick, False),
    ):
        stand_in_jobs.put("consolidation", body)
        clock.advance(DAY)
        tested.look()
        assert due.outlook(db, settings, clock.now())["jobs"][0]["stuck"] is stuck
    assert schedule.zone_name(schedule.zone(settings)) == "Europe/Berlin"
