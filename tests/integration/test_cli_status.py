"""What `cems status` says, and when it says that something is wrong; what is set aside, shown and tried again."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from db.connect import Connection
from tests.fake_gemini import FakeGemini, text
from tests.program import Program
from tests.sample_sessions import copy_samples
from tests.waiting import wait_until


@pytest.fixture
def program(environment: dict[str, str], tmp_path: Path) -> Program:
    quick = {"CEMS_OBSERVER_POLL_INTERVAL": "0.2", "CEMS_OBSERVER_IDLE_TIME": "0.2"}
    return Program(environment | quick, tmp_path)


def record(number: int, session: str, words: str) -> str:
    """One prompt of a transcript."""
    return json.dumps(
        {
            "type": "user",
            "uuid": f"00000000-0000-4000-8000-{number:012}",
            "sessionId": session,
            "cwd": "/home/mira/x",
            "timestamp": "2026-11-20T10:00:00Z",
            "message": {"role": "user", "content": words},
        }
    )


# ---- status


def test_it_is_healthy_while_an_observer_keeps_up(program: Program, tmp_path: Path, home: Path) -> None:
    copy_samples(tmp_path, {})

    def settled() -> dict[str, Any] | None:
        found: dict[str, Any] = program.json("status", code=None)
        done = found["memories"]["total"] and not found["queue"]["pending"] and not found["queue"]["lines"]
        return found if done else None

    with program.running("observe") as observer:
        found = wait_until(settled, 40)
        assert found is not None
        assert found["healthy"] and found["problems"] == []
        assert found["processes"]["observer"] == {"running": True, "pid": observer.process.pid}
        (lease,) = found["processes"]["leases"]
        assert str(observer.process.pid) in lease["described"]
        assert program("status").out.startswith("healthy\n")
        assert observer.end() == 0
    found = program.json("status", code=1)
    assert not found["healthy"] and "observer is not running" in found["problems"][0]["problem"]
    assert found["home"] == str(home)


def test_its_numbers_are_those_of_the_database(program: Program, tmp_path: Path, sql: Connection) -> None:
    copy_samples(tmp_path, {})
    report = program.json("observe", "--once")
    found = program.json("status", code=1)
    assert (
        found["transcripts"]["files"] == report["transcripts"] and found["transcripts"]["unread_bytes"] == 0
    )
    assert (
        found["transcripts"]["landed"]["lines"] == report["lines_landed"]
        and found["transcripts"]["behind_seconds"] == 0
    )
    assert found["memories"]["by_kind"] == report["observations"]
    assert found["memories"]["by_layer"] == {"observation": sum(report["observations"].values())}
    assert found["set_aside"] == {"batches": 0, "lines": 1}
    assert found["queue"]["pending"] == 0 and found["llm"] == {"written_by": "rules", "today": []}
    assert {p["name"] for p in found["memories"]["projects"]} >= {"gannet", "larder-api"}
    assert (
        found["database"]["schema"] == found["database"]["schema_wanted"]
        and found["database"]["bytes"] > 1_000_000
    )
    model = program.json("status", code=1, CEMS_EMBEDDER="local")["embeddings"]
    assert model["missing"] == found["memories"]["total"] and model["model"].startswith("bge-small")
    out = program("status", code=1).out
    for part in ("gannet", "preference", "1 line", "Postgres", "pgvector"):
        assert part in out


def test_lines_that_wait_for_more_than_an_hour_are_a_problem(program: Program, config_dir: Path) -> None:
    folder = config_dir / "projects" / "-home-mira-x"
    folder.mkdir()
    session = "11111111-2222-4333-8444-555555555555"
    path = folder / f"{session}.jsonl"
    path.write_text(record(1, session, "hello") + "\n" + '{"unfinished')
    os.utime(path, (time.time() - 7200,) * 2)
    with program.running("observe", CEMS_CLAUDE_CONFIG_DIR=str(config_dir / "elsewhere")) as observer:
        wait_until(lambda: "looked at once" in observer.err, 30)
        found = program.json("status", code=1)
        assert 7000 < found["transcripts"]["behind_seconds"] < 7500
        assert any("more than an hour" in one["problem"] for one in found["problems"])
        assert observer.end() == 0
    program("observe", "--once")
    os.utime(path, (time.time() - 7200,) * 2)
    found = program.json("status", code=1)
    assert found["transcripts"]["behind_seconds"] == 0, "an unfinished line is nobody's fault"


def test_it_never_makes_or_starts_anything(program: Program, tmp_path: Path) -> None:
    fresh = tmp_path / "fresh"
    for code, arguments in ((1, ("status",)), (1, ("db", "status")), (0, ("config",)), (69, ("search", "x"))):
        program(*arguments, code=code, CEMS_HOME=str(fresh), CEMS_DATABASE_URL="")
    assert not fresh.exists()
    assert "exclude" in program("status", "--watch", "--json", code=2).err


# ---- set aside


def test_a_line_is_read_again_from_its_transcript_or_the_reason_is_said(
    program: Program, config_dir: Path, sql: Connection
) -> None:
    folder = config_dir / "projects" / "-home-mira-x"
    folder.mkdir()
    session = "11111111-2222-4333-8444-555555555555"
    path = folder / f"{session}.jsonl"
    good = record(2, session, "always use tabs")
    path.write_text(record(1, session, "hello") + "\n" + "{no json at all\n" + good + "\n")
    program("observe", "--once")
    (line,) = program.json("set-aside", "list")["lines"]
    assert (
        line["reason"] == "not_json"
        and line["excerpt"] == "{no json at all"
        and line["transcript"] == str(path)
    )
    shown = program("set-aside", "show", line["id"]).out
    assert str(path) in shown and "{no json at all" in shown
    assert program.json("set-aside", "show", line["id"][:20])["what"] == "line"
    refused = program.json("set-aside", "retry", line["id"], code=1)
    assert "no whole record" in refused["not_retried"][0]["why"]
    # A program that can read it finds it where it stands; here the kept text is one that can be read.
    other = record(3, session, "and spaces in Python")
    sql.execute("update set_aside set excerpt = %s, bytes = %s", (other, len(other) + 1))
    path.unlink()
    done = program.json("set-aside", "retry", "--all")
    assert done["retried"][0]["lines_landed"] == 1
    assert program.json("set-aside", "list") == {"batches": [], "lines": []}
    row = sql.execute(
        "select text, batch_id from line where uuid = '00000000-0000-4000-8000-000000000003'"
    ).fetchone()
    assert row and row["text"] == "and spaces in Python" and row["batch_id"] is None
    assert "Nothing is set aside" in program("set-aside", "retry", "--all").out


def test_a_line_that_was_cut_cannot_be_read_again(program: Program, config_dir: Path) -> None:
    folder = config_dir / "projects" / "-home-mira-x"
    folder.mkdir()
    path = folder / "11111111-2222-4333-8444-555555555555.jsonl"
    path.write_text("{" + "x" * 5000 + "\n")
    program("observe", "--once")
    (line,) = program.json("set-aside", "list")["lines"]
    path.unlink()
    done = program("set-aside", "retry", line["id"][:13], code=1)
    assert "only the beginning" in done.out


def test_a_batch_goes_back_into_the_queue_with_its_attempts_begun_anew(
    program: Program, config_dir: Path, sql: Connection
) -> None:
    folder = config_dir / "projects" / "-home-mira-x"
    folder.mkdir()
    session = "11111111-2222-4333-8444-555555555555"
    (folder / f"{session}.jsonl").write_text(
        record(1, session, "always use tabs, never spaces, in all files") + "\n"
    )
    with FakeGemini() as gemini:
        gemini.defaults["generate"] = text("no json")
        keys = {
            "CEMS_GEMINI_API_KEY": "test-key",
            "CEMS_GEMINI_BASE_URL": gemini.base_url,
            "CEMS_EXTRACTION_ATTEMPTS": "1",
        }
        report = program.having(keys).json("observe", "--once")
    assert report["set_aside_batches"] == report["set_aside"] == 1
    (batch,) = program.json("set-aside", "list")["batches"]
    assert (
        batch["lines"] == 1 and batch["attempts"] == 1 and batch["last_error"] and batch["session"] == session
    )
    assert batch["last_error"] in program("set-aside", "list", COLUMNS="200").out
    shown = program.json("set-aside", "show", batch["id"])
    assert "tabs" in shown["of"][0]["text"]
    assert "tabs" in program("set-aside", "show", batch["id"]).out
    assert program.json("status", code=1)["set_aside"] == {"batches": 1, "lines": 0}
    assert "back in the queue" in program("set-aside", "retry", batch["id"]).out
    row = sql.execute("select status, attempts from batch").fetchone()
    assert row == {"status": "pending", "attempts": 0}
    assert program.json("observe", "--once")["batches"] == 1
    program("set-aside", "retry", batch["id"], code=1)
