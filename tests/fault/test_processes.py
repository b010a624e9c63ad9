"""Whole processes: asked to end, two at once, taken over from, and a database that comes, goes and refuses."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from cems.settings import load as load_settings
from db import embedded
from db.access import bring_up
from db.connect import Connection
from db.embedded import ServerInfo
from tests.conftest import admin
from tests.fake_gemini import FakeGemini, hang
from tests.fault.answers import observe
from tests.fault.oracle import drained, judge
from tests.fault.running import Observer, observing, truth_of, writing, written
from tests.fault.sessions import count
from tests.waiting import wait_until

pytestmark = pytest.mark.fault
BRIEF = ("--seconds", "0.4", "--pace", "0.002")


def finish(observer: Observer, sql: Connection, truth: dict[str, list[str]], seconds: float = 30) -> None:
    """Wait until all is observed, and hold it against the truth."""
    wait_until(lambda: drained(sql, truth) or observer.process.poll() is not None, seconds, "all observed")
    assert observer.terminate() == 0, observer.tail()
    assert (verdict := judge(sql, truth)), verdict


def test_K4_asked_to_end_while_the_provider_hangs(
    quick: dict[str, str], projects: Path, tmp_path: Path, sql: Connection, gemini: FakeGemini
) -> None:
    gemini.defaults["generate"] = hang()
    truth = written(projects, *BRIEF)["files"]
    with observing(quick, tmp_path) as observer:
        gemini.wait_for(1, 20)
        began = time.monotonic()
        assert observer.terminate() == 0, observer.tail()
        assert time.monotonic() - began < 10
    gemini.defaults["generate"] = observe
    with observing(quick, tmp_path) as observer:
        finish(observer, sql, truth)


def test_P1_another_takes_over_when_the_leader_is_killed(
    quick: dict[str, str], projects: Path, tmp_path: Path, sql: Connection
) -> None:
    with observing(quick, tmp_path) as leader, writing(projects, "--seconds", "4") as writer:
        leader.wait_ready()
        with observing(quick, tmp_path, "--lock", "wait") as follower:
            wait_until(lambda: follower.events("waiting"), 10, "a second observer that waits")
            wait_until(lambda: count(sql, "select count(*) as n from line") > 20, 10, "work in progress")
            leader.kill()
            killed = time.monotonic()
            follower.wait_ready()
            assert time.monotonic() - killed < 5
            finish(follower, sql, truth_of(writer)["files"])


def test_case_S55_a_second_observer_says_who_works_and_ends(
    quick: dict[str, str], tmp_path: Path, projects: Path
) -> None:
    with observing(quick, tmp_path) as first, observing(quick, tmp_path) as second:
        wait_until(lambda: first.process.poll() is not None or second.process.poll() is not None, 15)
        refused, working = (first, second) if first.process.poll() is not None else (second, first)
        assert refused.process.returncode == 75
        assert str(working.process.pid) in refused.events("error")[0]["message"]
        working.wait_ready()


def test_P2_two_at_once_without_a_lock(
    quick: dict[str, str], projects: Path, tmp_path: Path, sql: Connection
) -> None:
    options = ("--lock", "none", "--respawn", "--kill-every", "0.7")
    with (
        observing(quick, tmp_path, *options, "--seed", "1") as one,
        observing(quick, tmp_path, *options, "--seed", "2") as two,
        writing(projects, "--seconds", "5", "--tombstones", "0.02", "--damage", "0.02") as writer,
    ):
        truth = truth_of(writer)["files"]
        one.harmless()
        two.harmless()
        wait_until(lambda: drained(sql, truth), 30, "all observed")
        assert (one.terminate(), two.terminate()) == (0, 0), one.tail() + two.tail()
        assert min(one.deaths, two.deaths) > 0
        assert (verdict := judge(sql, truth)), verdict


def test_P3_connections_that_are_cut_again_and_again(
    quick: dict[str, str], projects: Path, tmp_path: Path, sql: Connection
) -> None:
    cut = (
        b"select count(pg_terminate_backend(pid)) as n from pg_stat_activity"
        b" where datname = current_database() and pid <> pg_backend_pid()"
    )
    with observing(quick, tmp_path) as observer, writing(projects, "--seconds", "3") as writer:
        observer.wait_ready()
        ended = 0
        while writer.poll() is None:
            row = sql.execute(cut).fetchone()
            ended += row["n"] if row else 0
            time.sleep(0.2)
        assert ended > 5
        finish(observer, sql, truth_of(writer)["files"])
        assert observer.logged("degraded")


def test_D2_a_database_that_appears_later(
    quick: dict[str, str], projects: Path, tmp_path: Path, server: ServerInfo, template: str
) -> None:
    name = f"later_{os.getpid()}"
    url = f"postgresql:///{name}?host={server.socket_dir}&port={server.port}&user={embedded.SUPERUSER}"
    truth = written(projects, *BRIEF)["files"]
    with observing(quick | {"CEMS_DATABASE_URL": url}, tmp_path) as observer:
        wait_until(lambda: observer.logged("degraded"), 15, "a word that the database is away")
        assert observer.process.poll() is None
        with admin(server, "postgres") as conn:
            conn.execute(f"create database {name} template {template}".encode())
        try:
            with psycopg.connect(
                server.dsn(embedded.SUPERUSER, name),
                autocommit=True,
                options="-c search_path=cems,public",
                row_factory=psycopg.rows.dict_row,
            ) as sql:
                finish(observer, sql, truth)
        finally:
            with admin(server, "postgres") as conn:
                conn.execute(f"drop database {name} with (force)".encode())


@pytest.mark.parametrize(
    "held", ["lock table line in access exclusive mode", "update transcript set size = size"]
)
def test_D5_a_lock_that_somebody_holds(
    held: str,
    quick: dict[str, str],
    projects: Path,
    tmp_path: Path,
    sql: Connection,
    server: ServerInfo,
    dbname: str,
) -> None:
    with observing(quick, tmp_path) as observer, writing(projects, "--seconds", "4") as writer:
        observer.wait_ready()
        wait_until(lambda: count(sql, "select count(*) as n from transcript") > 0, 10, "something to lock")
        with admin(server, dbname) as other, other.transaction():
            other.execute(b"set search_path to cems, public")
            other.execute(held.encode())
            wait_until(
                lambda: observer.logged("LockNotAvailable"), 15, "a time-out instead of a wait without end"
            )
        finish(observer, sql, truth_of(writer)["files"])


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (b"delete from schema_migration", "SchemaOutdated"),
        (b"insert into schema_migration values (9999, 'from the future')", "SchemaTooNew"),
    ],
)
def test_D6_another_versions_schema_is_refused(
    change: bytes, error: str, quick: dict[str, str], projects: Path, tmp_path: Path, sql: Connection
) -> None:
    written(projects, *BRIEF)
    sql.execute(change)
    with observing(quick, tmp_path) as observer:
        assert observer.process.wait(20) == 78, observer.tail()
        assert observer.events("error")[0]["error"] == error
    assert count(sql, "select count(*) as n from line") == 0


@dataclasses.dataclass
class Own:
    """A server of a test's own, durable as the product's."""

    home: Path
    environment: dict[str, str]

    def connection(self) -> Connection:
        dsn = embedded.status(self.home).dsn(embedded.SUPERUSER, "cems")
        return psycopg.connect(
            dsn, autocommit=True, options="-c search_path=cems,public", row_factory=psycopg.rows.dict_row
        )


@pytest.fixture
def own(quick: dict[str, str]) -> Iterator[Own]:
    home = Path(tempfile.mkdtemp(prefix="cems-own-", dir="/tmp"))
    environment = {k: v for k, v in quick.items() if k != "CEMS_DATABASE_URL"} | {"CEMS_HOME": str(home)}
    try:
        bring_up(load_settings(environment))
        yield Own(home, environment)
    finally:
        embedded.stop(home, mode="immediate")
        shutil.rmtree(home, ignore_errors=True)


def working(sql: Connection, writer: subprocess.Popen[str]) -> None:
    """Until lines land, or the writer has ended."""
    lines = "select count(*) as n from line"
    before = count(sql, lines)
    wait_until(lambda: count(sql, lines) > before or writer.poll() is not None, 20, "work in progress")


def test_D1_a_server_that_stops_at_once_again_and_again(own: Own, projects: Path, tmp_path: Path) -> None:
    with (
        observing(own.environment, tmp_path) as observer,
        writing(projects, "--seconds", "6", "--tombstones", "0.01") as writer,
    ):
        observer.wait_ready()
        for _ in range(3):
            with own.connection() as sql:
                working(sql, writer)
            embedded.stop(own.home, mode="immediate")
            embedded.start(own.home)
        truth = truth_of(writer)["files"]
        with own.connection() as sql:
            finish(observer, sql, truth, 60)


def test_case_C12_what_was_written_while_it_slept_is_found(
    quick: dict[str, str], projects: Path, tmp_path: Path, sql: Connection
) -> None:
    """The whole process stands still, as on a machine that sleeps."""
    with observing(quick, tmp_path) as observer:
        observer.wait_ready()
        observer.process.send_signal(signal.SIGSTOP)
        truth = written(projects, *BRIEF)["files"]
        observer.process.send_signal(signal.SIGCONT)
        finish(observer, sql, truth)
