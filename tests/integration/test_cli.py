"""The command line as its users meet it: help, errors, searching, settings; the real program, a real Postgres."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import cems.cli
from tests.program import CEMS, Program
from tests.sample_sessions import copy_samples

HELP_SECONDS = 0.15
"""On a quiet machine. Under load it is the ratio to a bare interpreter that counts."""


@pytest.fixture
def program(environment: dict[str, str], tmp_path: Path) -> Program:
    return Program(environment, tmp_path)


@pytest.fixture
def observed(program: Program, tmp_path: Path) -> Program:
    """With the memories of the sample sessions."""
    copy_samples(tmp_path, {})
    program("observe", "--once")
    return program


# ---- help


def _fastest(*command: str) -> float:
    times = []
    for _ in range(7):
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - began)
    return min(times)


def test_help_is_quick() -> None:
    bare = _fastest(sys.executable, "-I", "-c", "import typing, inspect, datetime, dataclasses")
    quick = _fastest(*CEMS, "--help")
    assert quick < HELP_SECONDS or quick < 4 * bare


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from cems.cli import main; main(['--help']); print(sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    heavy = {
        "psycopg",
        "rich",
        "structlog",
        "msgspec",
        "numpy",
        "onnxruntime",
        "watchdog",
        "cems.settings",
        "asyncio",
    }
    assert not heavy & set(done.stderr.replace("'", "").strip("[]\n").split(", "))


def test_every_command_is_in_the_help_with_its_own_words(program: Program) -> None:
    out = program("--help").out
    for section, commands in cems.cli.COMMANDS.items():
        assert f"{section}:" in out
        for name in commands:
            assert f"  {name} " in out
            text = program(name, "--help").out
            assert "Usage: cems" in text and len(text.splitlines()) > 4


def test_no_arguments_show_the_help_and_the_version_is_told(program: Program) -> None:
    assert program().out == program("--help").out
    assert program("--version").out.startswith("cems 0.")


# ---- errors


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("serch",), 2, "serch"),
        (("search",), 2, "QUERY"),
        (("search", "x", "--kind", "nope"), 2, "nope"),
        (("search", "x", "--since", "soon"), 2, "soon"),
        (("search", "x", "--project", "nowhere"), 1, "nowhere"),
        (("search", "x", "--project", ".", "--everywhere-only"), 2, "exclude"),
        (("memory", "show", "0192"), 1, "0192"),
        (("memory", "show", "x%"), 1, "x%"),
        (("set-aside", "retry"), 2, "named"),
        (("db", "start"), 2, "CEMS_DATABASE_URL"),
    ],
)
def test_an_error_is_one_line_a_hint_and_a_code(
    program: Program, arguments: tuple[str, ...], code: int, says: str
) -> None:
    plain = program(*arguments, code=code)
    assert plain.out == "" and "Traceback" not in plain.err
    first, *rest = plain.err.splitlines()
    assert first.startswith("error: ") and says in first
    assert len(rest) == 1 and rest[0].startswith("hint: ")
    document = program.json(*arguments, code=code)
    assert says in document["error"] and document["hint"]


def test_a_database_that_is_away_is_said_and_no_password_with_it(program: Program) -> None:
    url = "postgresql://someone:hunter2hunter2@127.0.0.1:1/x"
    for arguments in (
        ("search", "x"),
        ("memory", "list"),
        ("observe", "--once"),
        ("db", "status"),
        ("db", "backup", "f"),
    ):
        done = program(*arguments, code=None, CEMS_DATABASE_URL=url)
        assert done.code in (1, 69), done
        assert "hunter2" not in done.out + done.err and "does not answer" in done.out + done.err


def test_wrong_settings_are_exit_code_78(program: Program, home: Path) -> None:
    assert "CEMS_EMBEDDER" in program("status", code=78, CEMS_EMBEDDER="magic").err
    (home / "config.toml").write_text("[observer]\nbatchsize = 3\n")
    assert "batch_size" in program("search", "x", code=78).err


def test_another_versions_schema_is_refused_at_once(program: Program, sql: object) -> None:
    sql.execute("insert into cems.schema_migration (version, name) values (9999, 'later')")  # type: ignore[attr-defined]
    for arguments in (("observe",), ("observe", "--once"), ("search", "x"), ("up",)):
        assert "9999" in program(*arguments, code=78).err
    sql.execute("delete from cems.schema_migration")  # type: ignore[attr-defined]
    assert "cems db migrate" in program("observe", code=78).err


def test_a_reader_that_goes_away_ends_it_silently(observed: Program) -> None:
    with subprocess.Popen(
        [*CEMS, "memory", "list", "--json"],
        env=observed.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(20) in (0, 1)


# ---- observing and searching


def test_once_reports_and_the_second_time_there_is_nothing_to_do(
    program: Program, tmp_path: Path, sql: object
) -> None:
    copy_samples(tmp_path, {})
    report = program.json("observe", "--once")
    assert report["transcripts"] == 19 and report["lines_landed"] > 400 and report["batches"] > 10
    assert sum(report["observations"].values()) > 20 and report["bytes"] > 500_000 and report["seconds"] > 0
    assert report["lines_skipped"]["foreign_session"] >= 1
    assert report["set_aside"] == report["set_aside_lines"] + report["set_aside_batches"] == 1
    assert report["waiting"] == {"batches": 0, "why": None, "until": None}
    stored = sql.execute("select count(*) as n from cems.line").fetchone()  # type: ignore[attr-defined]
    assert stored["n"] == report["lines_landed"]
    again = program.json("observe", "--once")
    assert again["lines_landed"] == again["batches"] == again["bytes"] == 0 and again["observations"] == {}
    text = program("observe", "--once").out
    assert "19 transcripts, 0 bytes new" in text and "0 landed" in text


def test_search_finds_filters_and_says_when_there_is_nothing(observed: Program) -> None:
    found = observed.json("search", "which hash function and why")
    assert found["count"] == len(found["results"]) > 0 and found["by"] == ["words"]
    best = found["results"][0]
    assert "BLAKE3" in best["title"] + best["body"]
    assert {
        "id",
        "short_id",
        "kind",
        "title",
        "body",
        "project",
        "occurred_at",
        "score",
        "confidence",
    } <= best.keys()
    assert best["id"].endswith(best["short_id"]) and len(best["short_id"]) == 10
    assert observed.json("memory", "show", best["short_id"])["id"] == best["id"]
    only = observed.json(
        "search", "hash", "--project", best["project"], "--kind", best["kind"], "--limit", "1"
    )
    assert only["count"] == 1
    assert observed.json("search", "hash", "--since", "2026-12-01")["count"] == 0
    assert observed.json("search", "hash", "--everywhere-only")["count"] == 0
    nothing = observed("search", "zzyzx")
    assert nothing.out == "Nothing found.\n" and nothing.err == ""
    assert observed("search", "").out == "Nothing found.\n"


def test_a_project_is_named_by_name_identity_id_root_or_folder(observed: Program, sql: object) -> None:
    row = sql.execute("select * from cems.project where name = 'gannet'").fetchone()  # type: ignore[attr-defined]
    for name in (row["name"], row["identity"], str(row["id"]), row["root"], row["root"] + "/"):
        memories = observed.json("memory", "list", "--project", name)["memories"]
        assert memories and {m["project"] for m in memories} == {"gannet"}
    assert observed.json("search", "x", "--project", ".")["count"] == 0, "a folder that is there may be new"
    assert "nothing is known" in observed("search", "x", "--project", "./nowhere", code=1).err


def test_search_never_downloads_and_says_that_it_used_words_only(observed: Program, home: Path) -> None:
    done = observed("search", "hash", CEMS_EMBEDDER="local")
    assert done.err.count("\n") == 1 and "words only" in done.err and "BLAKE3" in done.out
    assert not (home / "models").exists()
    assert observed("search", "hash", "--keywords", CEMS_EMBEDDER="local").err == ""


@pytest.mark.parametrize("columns", ["80", "100"])
def test_text_fits_the_terminal_and_ends_in_no_spaces(observed: Program, columns: str) -> None:
    for arguments in (("search", "hash"), ("memory", "list"), ("status",), ("config",)):
        out = observed(*arguments, code=None, COLUMNS=columns).out
        lines = out.splitlines()
        assert lines and all(line == line.rstrip() for line in lines)
        # An address or a path stays in one piece, to be copied.
        assert all(len(line) <= int(columns) or " " not in line.strip() or " = " in line for line in lines)
        assert "\x1b" not in out


def test_control_characters_of_a_memory_never_reach_the_terminal(program: Program) -> None:
    program("memory", "add", "Clear \x1b[2J\x1b]0;owned\x07 the \u202escreen", "--everywhere")
    for arguments in (("memory", "list"), ("search", "screen")):
        out = program(*arguments).out
        assert "screen" in out and not set("\x1b\x07\u202e") & set(out)


# ---- backfill


def test_backfill_estimates_asks_and_resumes(program: Program, tmp_path: Path) -> None:
    config = copy_samples(tmp_path, {})
    found = program.json("backfill", "--dry-run")
    assert found["transcripts"] == 19 and found["sessions"] > 10 and found["bytes"] > 500_000
    assert found["batches"] > 10 and found["by"] == "rules" and found["cost_usd"] == 0
    priced = program.json("backfill", "--dry-run", CEMS_GEMINI_API_KEY="some-key-of-mine")
    assert priced["by"] == "gemini-3.5-flash-lite" and priced["cost_usd"] > 0 and priced["tokens_in"] > 0
    assert "rules: free" in program("backfill", "--dry-run").out
    assert "--yes" in program("backfill", code=2).err
    old = sorted(config.rglob("*.jsonl"))
    for path in old[1:]:
        os.utime(path, (1_700_000_000, 1_700_000_000))
    assert program.json("backfill", "--dry-run", "--since", "30d")["transcripts"] == 1
    assert program.json("backfill", "--yes", "--since", "30d")["transcripts"] == 1
    rest = program.json("backfill", "--yes")
    assert rest["transcripts"] == 19 and rest["lines_landed"] > 0
    assert "is read" in program("backfill").out


# ---- settings


def test_config_names_sources_and_masks_secrets(program: Program, home: Path) -> None:
    file = home / "config.toml"
    file.write_text('[observer]\nbatch_size = 1234\n[llm]\ngemini_api_key = "shortkey"\n')
    file.chmod(0o600)
    url = "postgresql://user:s3cr3tpassword@db.example/x?sslpassword=alsosecret"
    key = "AIzaSyA-very-long-key-9876"
    done = program("config", "--json", CEMS_DATABASE_URL=url, CEMS_GEMINI_API_KEY=key)
    rows = {row["name"]: row for row in done.json["settings"]}
    assert rows["observer_batch_size"]["value"] == 1234
    assert rows["observer_batch_size"]["source"] == "config.toml: observer.batch_size"
    assert rows["observer_batch_size"]["environment"] == "CEMS_OBSERVER_BATCH_SIZE"
    assert (
        rows["gemini_api_key"]["value"] == "****9876"
        and rows["gemini_api_key"]["source"] == "CEMS_GEMINI_API_KEY"
    )
    assert rows["database_url"]["value"] == "postgresql://user:****@db.example/x?sslpassword=****"
    text = program("config", CEMS_DATABASE_URL=url, CEMS_GEMINI_API_KEY=key)
    for secret in ("s3cr3t", "alsosecret", key, "shortkey"):
        assert secret not in done.out + text.out + text.err
    short = program.json("config")["settings"]
    assert next(row for row in short if row["name"] == "gemini_api_key")["value"] == "****"
    words = program("config", CEMS_DATABASE_URL="host=x user=y password='my own' dbname=z").out
    assert "my own" not in words and "host=x" in words
    assert program("config", "--path").out.strip() == str(file)


def test_the_reference_names_every_setting_and_no_value(program: Program) -> None:
    from cems import settings

    out = program("config", "--reference", CEMS_GEMINI_API_KEY="AIzaSyA-very-long-key-9876").out
    assert "9876" not in out
    for field in settings.fields():
        assert f"`{settings.environment_name(field)}`" in out and field.metadata["toml"] in out
    assert len(json.loads(program("config", "--reference", "--json").out)) == len(settings.fields())
