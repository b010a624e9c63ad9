"""`cems maintain` and `cems maintenance` as processes, with stand-ins for the jobs: runs that are asked to end, killed, out of
time or refused; dry runs; the history, and taking a run back."""

from __future__ import annotations

import datetime as dt
import json
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from cems.home import exclusive
from db import lifecycle, memories, runs
from db.connect import Connection, Database, Row
from db.memories import HandWritten
from tests.program import Program
from tests.stand_in_jobs import COMMAND
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
NOW = dt.datetime.now(dt.UTC)
OFF = {f"CEMS_{job.upper()}_SCHEDULE": "off" for job in runs.JOBS}
TABLES = (
    "memory",
    "memory_source",
    "embedding",
    "job_run",
    "job_change",
    "job_mark",
    "lease",
    "llm_call",
    "project",
)


@pytest.fixture
def program(environment: dict[str, str], tmp_path: Path, sql: Connection) -> Program:
    """The program with jobs of the tests' own, on a database that is two days old; one job has a schedule."""
    sql.execute("update schema_migration set applied_at = %s", (NOW - dt.timedelta(days=2),))
    more = {
        **OFF, "CEMS_CONSOLIDATION_SCHEDULE": "@daily", "CEMS_TIMEZONE": "Europe/Berlin",
        "JOBS_LOG": str(tmp_path / "jobs.log"), "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    return Program(environment | more, tmp_path, command=COMMAND)


@pytest.fixture
def begun(tmp_path: Path) -> Any:
    """How many jobs that take their time have begun."""
    log = tmp_path / "jobs.log"
    return lambda: log.read_text().count("begun") if log.exists() else 0


def doing(**jobs: str) -> dict[str, Any]:
    return {"JOBS": json.dumps(jobs)}


def everything(sql: Connection) -> dict[str, list[Row]]:
    """Every row of what maintenance might touch."""
    return {
        t: sql.execute(f"select to_jsonb(t) as row from {t} t order by to_jsonb(t)::text".encode()).fetchall()
        for t in TABLES
    }


def ended(db: Database, count: int) -> list[Row]:
    """The runs, oldest first, when there are so many and none is running."""

    def fact() -> list[Row] | None:
        rows = runs.history(db)[::-1]
        return rows if len(rows) >= count and all(r["outcome"] != "running" for r in rows) else None

    return wait_until(fact, 30, f"{count} ended runs") or []


def add(db: Database, *titles: str) -> None:
    memories.add_by_hand(db, [HandWritten("decision", t, f"Body of {t}.") for t in titles], NOW)


# ---- the worker


def test_it_runs_what_is_due_says_so_and_ends_when_asked(program: Program, db: Database) -> None:
    with program.running("maintain") as worker:
        (run,) = ended(db, 1)
        assert run["outcome"] == "done" and run["asked_by"] == "schedule" and run["report"]["seen"] == 1
        wait_until(lambda: "a job ended" in worker.err)
        found = program.json("status", code=None)
        assert found["processes"]["maintenance"] == {"running": True, "pid": worker.process.pid}
        assert worker.end() == 0
    lines = [json.loads(line) for line in worker.err.splitlines()]
    assert [line["event"] for line in lines] == ["maintaining", "a job begins", "a job ended", "ended"]
    assert lines[0]["zone"] == "Europe/Berlin"
    with program.running("maintain") as again:
        wait_until(lambda: "maintaining" in again.err)
        assert again.end() == 0
    assert len(runs.history(db)) == 1, "nothing was due"


def test_sigterm_ends_a_job_within_seconds_and_the_next_start_goes_on(
    program: Program, db: Database, begun: Any
) -> None:
    with program.having(doing(consolidation="slow")).running("maintain") as worker:
        wait_until(begun)
        assert worker.end(signal.SIGTERM, 5) == 0
    (run,) = runs.history(db)
    assert run["outcome"] == "stopped" and run["report"]["ended_by"] == "asked" and run["report"]["waiting"]
    with program.running("maintain") as worker:
        assert [row["outcome"] for row in ended(db, 2)] == ["stopped", "done"]
        assert worker.end() == 0


def test_sigterm_ends_even_a_job_that_does_not_listen(program: Program, db: Database, begun: Any) -> None:
    with program.having(doing(consolidation="hang")).running("maintain") as worker:
        wait_until(begun)
        assert worker.end(signal.SIGTERM, 12) == 0
    (run,) = runs.history(db)
    assert run["outcome"] == "stopped" and run["report"]["seen"] == 7 and run["finished_at"]


def test_a_killed_worker_s_job_is_run_again_at_once(program: Program, db: Database, begun: Any) -> None:
    with program.having(doing(consolidation="slow")).running("maintain") as worker:
        wait_until(begun)
        worker.kill()
    assert [row["outcome"] for row in runs.history(db)] == ["running"]
    with program.running("maintain") as worker:
        first, second = ended(db, 2)
        assert (first["outcome"], second["outcome"]) == ("killed", "done")
        assert first["due_at"] == second["due_at"]
        assert worker.end() == 0


def test_case_J86_a_second_worker_says_so_and_ends_or_waits_and_takes_over(
    program: Program, db: Database
) -> None:
    with program.running("maintain") as first:
        wait_until(lambda: "a job ended" in first.err)
        refused = program("maintain", code=75)
        assert str(first.process.pid) in refused.err and "running" in refused.err
        with program.running("maintain", "--wait") as second:
            wait_until(lambda: "waiting to take over" in second.err)
            assert first.end() == 0
            wait_until(lambda: '"maintaining"' in second.err)
            assert second.end() == 0
    assert len(runs.history(db)) == 1


def test_a_run_by_hand_and_the_worker_keep_out_of_each_other_s_way(
    program: Program, db: Database, begun: Any
) -> None:
    with program.having(doing(consolidation="slow")).running("maintain") as worker:
        wait_until(begun)
        refused = program("maintenance", "--job", "consolidation", code=75)
        assert "consolidation is running already" in refused.err and str(worker.process.pid) in refused.err
        assert program.json("maintenance", "--job", "reflection")["outcome"] == "done"
        found = program.json("status", code=None)["maintenance"]["jobs"][0]
        assert str(worker.process.pid) in found["running"]["described"]
        assert worker.end() == 0


def test_a_worker_ends_with_who_started_it(program: Program, db: Database, begun: Any) -> None:
    import subprocess

    environment = program.environment | doing(consolidation="slow")
    arguments = [*COMMAND, "maintain", "--while-parent-lives"]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, env=environment, cwd=program.folder) as process:
        try:
            wait_until(begun)
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(10) == 0
        finally:
            process.kill()
    assert [row["outcome"] for row in runs.history(db)] == ["stopped"]


def test_a_worker_waits_for_a_database_that_is_away(
    program: Program, db: Database, sql: Connection, dbname: str
) -> None:
    away = program.environment["CEMS_DATABASE_URL"].replace(f"/{dbname}?", f"/{dbname}_later?")
    assert dbname in away
    with program.running("maintain", CEMS_DATABASE_URL=away) as worker:
        wait_until(lambda: "waiting" in worker.err)
        assert worker.process.poll() is None and worker.end() == 0
    assert runs.history(db) == []


def test_it_tells_systemd_that_it_is_ready_and_that_it_lives(
    program: Program, db: Database, tmp_path: Path, begun: Any
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(20)
        told = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "300000000"}
        with program.having(told | doing(consolidation="slow")).running("maintain") as worker:
            heard = ""
            while "consolidation is running" not in heard or "WATCHDOG=1" not in heard:
                heard += manager.recv(4096).decode() + "\n"
            assert heard.startswith("READY=1\n") and "STATUS=waiting for the next schedule" in heard
            assert worker.end() == 0
            assert "STOPPING=1" in manager.recv(4096).decode()


def test_a_schedule_that_is_none_is_refused_before_anything_starts(program: Program) -> None:
    wrong: dict[str, Any] = {"CEMS_REFLECTION_SCHEDULE": "0 25 * * *"}
    for arguments in (("maintain",), ("up",)):
        refused = program(*arguments, code=78, **wrong)
        assert "CEMS_REFLECTION_SCHEDULE" in refused.err and "hour" in refused.err
    shown = program("config", code=78, **wrong)
    assert "CEMS_REFLECTION_SCHEDULE" in shown.err and "CEMS_REFLECTION_SCHEDULE" in shown.out
    (problem,) = program.json("config", code=78, **wrong)["problems"]
    assert "hour" in problem["problem"]
    found = program.json("status", code=1, **wrong)
    assert any("CEMS_REFLECTION_SCHEDULE" in one["problem"] for one in found["problems"])
    assert found["memories"]["total"] == 0, "everything else is told"


# ---- by hand


def test_a_run_by_hand_counts_and_all_runs_the_four_in_order(program: Program, db: Database) -> None:
    found = program.json("maintenance", "--job", "consolidation")
    assert {"seen", "changed", "kept_apart", "failed", "llm_calls", "cost"} <= found.keys()
    assert found["outcome"] == "done" and found["seen"] == 1 and "planned" not in found
    assert found["run"] == str(runs.history(db)[0]["id"])
    found = program.json("maintenance", "--job", "all", **doing(reflection="fail"), code=1)
    assert [one["job"] for one in found["runs"]] == list(runs.JOBS) and found["seen"] == 3
    assert found["outcome"] == "failed" and found["runs"][1]["error"].startswith("ValueError in ")
    assert {"seen", "changed", "kept_apart", "failed", "llm_calls", "cost"} <= found.keys()
    out = program("maintenance", "--job", "all", **doing(reflection="fail"), code=1)
    assert out.out.count("done") == 3 and "ValueError" in out.out and "tabs" not in out.out + out.err


def test_a_job_of_all_that_runs_elsewhere_is_told_beside_those_that_ran(program: Program, home: Path) -> None:
    with exclusive(home, "job-reflection"):
        found = program.json("maintenance", "--job", "all", code=75)
        outcomes = {one["job"]: one["outcome"] for one in found["runs"]}
        assert list(outcomes) == list(runs.JOBS) and found["outcome"] == "refused" and found["seen"] == 3
        assert outcomes.pop("reflection") == "refused" and set(outcomes.values()) == {"done"}
        assert "is running already" in found["runs"][1]["error"] and found["runs"][1]["run"] is None
        out = program("maintenance", "--job", "all", code=75).out
        assert out.count("done") == 3 and "reflection: refused; reflection is running already" in out
        assert program("maintenance", "--job", "reflection", code=75).out == ""
        assert (
            program("maintenance", "--job", "all", **doing(reindexing="fail"), code=1).out.count("done") == 2
        )


def test_a_dry_run_changes_no_byte(program: Program, db: Database, sql: Connection, home: Path) -> None:
    add(db, "one", "two")
    before = everything(sql)
    jobs = doing(consolidation="archive", reflection="archive")
    found = program.json("maintenance", "--job", "consolidation", "--dry-run", **jobs)
    assert found["dry_run"] and found["run"] is None and found["changed"] == 2
    assert {one["title"] for one in found["planned"]} == {"one", "two"}
    said = program("maintenance", "--job", "all", "--dry-run", **jobs).out
    assert "nothing was written" in said and "would change" in said and "nobody used it" in said
    assert everything(sql) == before
    assert not list(home.glob("job-*"))
    assert program("maintenance", "--history").out == "No runs.\n"


def test_what_a_run_changed_is_shown_and_taken_back(program: Program, db: Database, sql: Connection) -> None:
    add(db, "one", "two")
    before = sql.execute("select * from memory order by id").fetchall()
    jobs = doing(consolidation="archive")
    said = program("maintenance", "--job", "consolidation", **jobs).out
    (run,) = program.json("maintenance", "--history")["runs"]
    assert run["short_id"] in said and run["changes"] == 2 and run["report"]["seen"] == 2
    line = program("maintenance", "--history", "--job", "consolidation").out
    assert "by hand, 2 changes of 2 seen" in line and run["short_id"] in line
    assert program.json("maintenance", "--history", "--job", "reflection") == {"runs": []}
    shown = program.json("maintenance", "--show", run["short_id"])
    assert [(s["number"], s["what"], s["why"]) for s in shown["steps"]] == [
        (1, "archived", "nobody used it"),
        (2, "archived", "nobody used it"),
    ]
    assert {m["title"] for s in shown["steps"] for m in s["memories"]} == {"one", "two"}
    text = program("maintenance", "--show", run["run"]).out
    assert "archived nobody used it" in text and shown["steps"][0]["memories"][0]["short_id"] in text
    after = everything(sql)
    assert program.json("maintenance", "--undo", run["short_id"], "--dry-run")["memories"] == 2
    assert everything(sql) == after
    assert program("maintenance", "--undo", run["short_id"]).out.startswith("2 memories are as before")
    assert sql.execute("select * from memory order by id").fetchall() == before
    refused = program("maintenance", "--undo", run["short_id"], code=1)
    assert "undone before" in refused.err
    assert "undone" in program("maintenance", "--history").out


def test_an_undo_that_would_lose_what_came_later_is_refused_with_the_reason(
    program: Program, db: Database, sql: Connection
) -> None:
    add(db, "one")
    run = program.json("maintenance", "--job", "consolidation", **doing(consolidation="archive"))["run"]
    memory = memories.list_memories(db, memories.Filter(state="all"))[0].id
    lifecycle.forget(db, memory, dt.datetime.now(dt.UTC))
    refused = program.json("maintenance", "--undo", run, code=1)
    assert "forgotten" in refused["error"] and refused["hint"]
    sql.execute("update job_change set before = null, after = null, why = ''")  # as erasing leaves it
    sql.execute("delete from memory")
    shown = program.json("maintenance", "--show", run)
    assert shown["steps"][0]["memories"][0]["title"] is None
    assert "erased since" in program("maintenance", "--show", run).out


def test_a_run_of_one_project_leaves_the_others_alone(program: Program, db: Database, tmp_path: Path) -> None:
    for name in ("gannet", "heron"):
        (tmp_path / name / ".git").mkdir(parents=True)
        program("memory", "add", f"about {name}", "--project", str(tmp_path / name))
    jobs = doing(consolidation="archive")
    found = program.json("maintenance", "--job", "consolidation", "--project", "gannet", "--dry-run", **jobs)
    assert [one["title"] for one in found["planned"]] == ["about gannet"]
    program("maintenance", "--job", "consolidation", "-p", str(tmp_path / "heron"), **jobs)
    assert runs.history(db)[0]["project"] == "heron"
    assert "in heron" in program("maintenance", "--history").out
    (tmp_path / "ibis").mkdir()
    for unknown in ("ibis", str(tmp_path / "ibis")):
        program("maintenance", "--job", "consolidation", "--project", unknown, code=1)
    assert len(runs.history(db)) == 1


def test_a_run_by_hand_that_is_interrupted_or_out_of_time_says_what_is_left(
    program: Program, db: Database, begun: Any
) -> None:
    slow = doing(consolidation="slow")
    found = program.json("maintenance", "--job", "consolidation", **slow, CEMS_MAINTENANCE_DEADLINE="0.3")
    assert (found["outcome"], found["ended_by"]) == ("stopped", "deadline") and found["waiting"] > 500
    said = program("maintenance", "--job", "consolidation", **slow, CEMS_MAINTENANCE_DEADLINE="0.3").out
    assert "out of time" in said and "the next run goes on" in said
    with program.having(slow).running("maintenance", "--job", "all", "--json") as process:
        wait_until(lambda: begun() == 3)
        assert process.end(signal.SIGINT) == 130
        found = json.loads(process.out)
    assert [one["outcome"] for one in found["runs"]] == ["stopped"] and found["outcome"] == "stopped"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "--job"), (("--show", "abcd", "--undo", "abcd"), "exclude"), (("--history", "--dry-run"), "--dry-run"),
        (("--job", "all", "--undo", "abcd"), "--job"), (("--history", "-p", "x"), "--project"),
        (("--job", "nothing"), "nothing"), (("--history", "--limit", "0"), "--limit"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(program: Program, arguments: tuple[str, ...], words: str) -> None:
    assert words in program("maintenance", *arguments, code=2).err


@pytest.mark.parametrize("wanted", ["abcd", "x", "", "%", "00000000-0000-0000-0000-000000000000"])
def test_a_run_that_is_not_there_is_not_found(program: Program, wanted: str) -> None:
    for option in ("--show", "--undo"):
        program("maintenance", f"{option}={wanted}", code=2 if not wanted else 1)


# ---- status


def test_the_status_tells_the_last_and_the_next_run_and_what_is_wrong(
    program: Program, db: Database, sql: Connection
) -> None:
    found = program.json("status", code=1)["maintenance"]
    job = found["jobs"][0]
    assert found["zone"] == "Europe/Berlin" and job["due_since"] and job["last"] is None
    assert "never ran; due now (Europe/Berlin)" in program("status", code=1).out
    assert "no worker" not in str(program.json("status", code=1)["problems"])
    sql.execute("update schema_migration set applied_at = %s", (NOW - dt.timedelta(days=90),))
    monthly: dict[str, Any] = {"CEMS_CONSOLIDATION_SCHEDULE": f"0 0 {(NOW - dt.timedelta(days=10)).day} * *"}
    overdue = program.json("status", code=1, **monthly)["problems"]
    assert any("due for more than a day, and no worker runs" in one["problem"] for one in overdue)

    for count in range(1, 4):
        program("maintenance", "--job", "consolidation", **doing(consolidation="idle"))
        problems = [one["problem"] for one in program.json("status", code=1)["problems"]]
        assert any("did nothing in its last 3 runs although work was waiting" in p for p in problems) is (
            count == 3
        )
    assert "did nothing in its last 3 runs" in program("status", code=1).out
    program("maintenance", "--job", "consolidation", code=1, **doing(consolidation="fail"))
    problems = [one["problem"] for one in program.json("status", code=1)["problems"]]
    assert any(p.startswith("consolidation failed: ValueError in") for p in problems)
    program("maintenance", "--job", "consolidation")
    found = program.json("status", code=1)
    assert [one["problem"] for one in found["problems"]] == ["the observer is not running"]
    assert found["maintenance"]["jobs"][0]["last"]["outcome"] == "done"
    assert "done" in program("status", code=1).out
