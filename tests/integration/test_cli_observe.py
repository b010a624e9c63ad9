"""The observer as a process: one at a time, taken over in time, ended in time, patient with a database that is away."""

from __future__ import annotations

import shutil
import signal
import time
from pathlib import Path

import pytest

from db.connect import Connection
from tests.fake_gemini import FakeGemini, hang, quota_of_day
from tests.program import Program, Started
from tests.sample_sessions import SAMPLES, copy_samples
from tests.waiting import wait_until

LOOKED = "every transcript was looked at once"


@pytest.fixture
def program(environment: dict[str, str], tmp_path: Path) -> Program:
    return Program(environment | {"CEMS_OBSERVER_POLL_INTERVAL": "0.2"}, tmp_path)


def ready(observer: Started, words: str = LOOKED) -> None:
    wait_until(lambda: words in observer.err or observer.process.poll() is not None, 30, words)
    assert observer.process.poll() is None, observer.err


def test_case_S55_a_second_observer_says_so_and_ends(program: Program) -> None:
    with program.running("observe") as first:
        ready(first)
        # Written where the first one does not look, so that a backfill has something to do.
        elsewhere = {"CEMS_CLAUDE_CONFIG_DIR": str(SAMPLES / "claude")}
        for arguments in (("observe",), ("observe", "--once"), ("backfill", "--yes")):
            second = program.having(elsewhere)(*arguments, code=75)
            assert f"process {first.process.pid}" in second.err and "hint: `cems status`" in second.err
        assert first.end() == 0


def test_case_J86_the_loser_of_two_observers_leaves_the_winners_work_alone(
    program: Program, config_dir: Path, sql: Connection
) -> None:
    with program.running("observe", CEMS_OBSERVER_IDLE_TIME="0.2") as first:
        ready(first)
        assert program("observe", "--json", code=75).json["error"]
        shutil.copytree(SAMPLES / "claude", config_dir, dirs_exist_ok=True)
        wait_until(
            lambda: sql.execute("select 1 from memory").fetchone(), 30, "the first observer's memories"
        )
        row = sql.execute("select count(*) as n from lease where name like 'observer:%%'").fetchone()
        assert row and row["n"] == 1
        assert first.end() == 0
    assert sql.execute("select 1 from lease").fetchone() is None


def test_one_that_waits_takes_over_within_five_seconds(program: Program) -> None:
    with program.running("observe") as first:
        ready(first)
        with program.running("observe", "--wait") as second:
            time.sleep(1)
            assert second.process.poll() is None
            first.kill()
            began = time.monotonic()
            ready(second)
            assert time.monotonic() - began < 5
            with program.running("observe", "--wait") as third:
                time.sleep(1)
                assert third.end() == 0 and second.process.poll() is None
            assert second.end() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_it_ends_in_time_while_a_call_hangs(
    program: Program, tmp_path: Path, sql: Connection, number: int
) -> None:
    copy_samples(tmp_path, {})
    with FakeGemini() as gemini:
        gemini.defaults["generate"] = hang()
        keys = {
            "CEMS_GEMINI_API_KEY": "test-key",
            "CEMS_GEMINI_BASE_URL": gemini.base_url,
            "CEMS_OBSERVER_IDLE_TIME": "0.1",
        }
        with program.having(keys).running("observe") as observer:
            gemini.wait_for(1, 30)
            assert observer.end(number, 10) == 0
        row = sql.execute("select count(*) as n from batch where status = 'pending'").fetchone()
        assert row and row["n"] > 0
        with program.having(keys).running("observe", "--once") as once:
            gemini.wait_for(2, 30)
            assert once.end(number, 12) == 128 + number
    assert program.json("observe", "--once")["batches"] > 10


def test_as_a_daemon_with_json_it_ends_with_one_document(program: Program, tmp_path: Path) -> None:
    import json

    copy_samples(tmp_path, {})
    with program.running("observe", "--json") as observer:
        ready(observer)
        assert observer.out == "" and observer.end() == 0
        assert json.loads(observer.out)["lines_landed"] > 400
        assert all(json.loads(line) for line in observer.err.splitlines())


def test_it_waits_for_an_external_database_that_is_away_at_start(program: Program) -> None:
    with program.running("observe", CEMS_DATABASE_URL="postgresql://nobody@127.0.0.1:1/x") as observer:
        ready(observer, "degraded")
        assert observer.process.poll() is None
        assert observer.end(seconds=10) == 0


def test_batches_that_wait_for_the_model_are_reported_and_are_no_failure(
    program: Program, tmp_path: Path
) -> None:
    copy_samples(tmp_path, {})
    with FakeGemini() as gemini:
        gemini.defaults["generate"] = quota_of_day()
        keys = {"CEMS_GEMINI_API_KEY": "test-key", "CEMS_GEMINI_BASE_URL": gemini.base_url}
        report = program.having(keys).json("observe", "--once")
        assert report["waiting"]["batches"] > 10 and report["waiting"]["why"] and report["waiting"]["until"]
        assert report["failed_calls"] == 1 and report["observations"] == {}
        assert "waiting" in program.having(keys)("observe", "--once").out
        status = program.having(keys).json("status", code=1)
        (today,) = status["llm"]["today"]
        assert (
            today["purpose"] == "extraction"
            and today["waits_until"]
            and today["why"]
            and today["failed"] == 1
        )
        assert status["queue"]["pending"] == report["waiting"]["batches"] and status["queue"]["last_error"]
        assert "waits until" in program.having(keys)("status", code=1).out
