"""A backup comes back while everything goes on, what was there is kept, and a file that is none changes nothing."""

from __future__ import annotations

import datetime as dt
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cems.cli.restore import _swap
from cems.errors import CemsError
from cems.settings import load
from db import access, embedded, runs
from db.connect import CHECK_AFTER, OUTAGES
from maintenance import schedule
from maintenance.due import Due
from tests.program import Program
from tests.sample_sessions import copy_samples
from tests.waiting import wait_until


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    home = tmp_path / "home"
    keep = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG")}
    yield Program(
        keep | {"CEMS_HOME": str(home), "CEMS_EMBEDDER": "none", "CLAUDE_CONFIG_DIR": str(tmp_path)}, tmp_path
    )
    outside = embedded.outside(home)
    embedded.stop(home, mode="immediate")
    if outside:
        import shutil

        shutil.rmtree(outside)


def test_a_backup_comes_back_under_a_reader_that_goes_on(program: Program, tmp_path: Path) -> None:
    program("memory", "add", "Always use uv.")
    file = program.json("db", "backup")["file"]
    program("memory", "add", "Never use tabs.")
    settings = load(program.environment)
    answers: list[int] = []
    ended = threading.Event()

    def read() -> None:
        with access.database(settings, "cems_reader") as db:
            while not ended.is_set():
                try:
                    with db.transaction() as conn:
                        row = conn.execute("select count(*) as n from memory").fetchone()
                        answers.append(row["n"] if row else -1)
                except OUTAGES:
                    continue

    reader = threading.Thread(target=read)
    reader.start()
    wait_until(lambda: 2 in answers)
    looked = program.json("db", "restore", file, "--dry-run")
    assert (looked["memories"], looked["restored"]) == (1, False)
    done = program.json("db", "restore", file, "--yes")
    assert done["memories"] == 1 and done["former"].startswith("cems_before_")
    wait_until(lambda: answers[-1] == 1)
    ended.set()
    reader.join()
    assert program.json("memory", "list")["count"] == 1
    program("memory", "add", "Work goes on.")
    names = program("db", "psql", "-Atc", "select datname from pg_database order by 1").out.split()
    assert names == ["cems", done["former"], "postgres", "template0", "template1"]


def test_what_was_learnt_since_the_backup_is_learnt_again_by_those_who_go_on(
    program: Program, tmp_path: Path
) -> None:
    # So rarely that the pool replaces connections silently: there is no outage to learn it from.
    program = program.having(
        {
            "CLAUDE_CONFIG_DIR": str(tmp_path / "claude"),
            "CEMS_OBSERVER_POLL_INTERVAL": str(CHECK_AFTER + 1),
        }
    )
    program("memory", "add", "Always use uv.")
    file = program.json("db", "backup")["file"]
    copy_samples(tmp_path, {})
    settings, now = load(program.environment), dt.datetime.now(dt.UTC)
    plan = schedule.of(settings)["consolidation"]
    with program.running("observe") as observer, access.database(settings, "cems_writer") as db:

        def lines() -> int:
            try:
                with db.transaction() as conn:
                    row = conn.execute("select count(*) as n from line").fetchone()
            except OUTAGES:
                return 0
            return row["n"] if row else 0

        wait_until(lambda: "looked at once" in observer.err)
        before, asked = lines(), Due(db)
        assert before
        asked.notice()
        assert asked.moment("consolidation", plan, now) is None, "nothing is due in a new database"
        former = program.json("db", "restore", file, "--yes")["former"]
        wait_until(lambda: lines() == before)
        assert observer.process.poll() is None
        made = plan.latest(now) - dt.timedelta(days=1)  # type: ignore[operator]
        with access.database(settings, "cems_owner") as owner, owner.transaction() as conn:
            conn.execute("update schema_migration set applied_at = %s", (made,))
        assert asked.moment("consolidation", plan, now) is None, "it remembers"
        asked.notice()
        assert asked.moment("consolidation", plan, now) == plan.latest(now)
        assert not runs.history(db) and former


def test_where_the_names_cannot_change_everything_stays(program: Program) -> None:
    program("memory", "add", "Always use uv.")
    with pytest.raises(CemsError, match="could not change names") as raised:
        _swap(load(program.environment), "cems_missing", "cems_before_1")
    assert "cems_before_1" in raised.value.hint
    assert program.json("memory", "list")["count"] == 1
    names = program("db", "psql", "-Atc", "select datname from pg_database where datallowconn").out.split()
    assert sorted(names) == ["cems", "postgres", "template1"]


@pytest.mark.parametrize("content", [b"", b"this is no backup", b"PGDMP\x01\x0f"])
def test_a_file_that_is_no_backup_changes_nothing(program: Program, tmp_path: Path, content: bytes) -> None:
    program("memory", "add", "Always use uv.")
    (tmp_path / "file").write_bytes(content)
    done = program("db", "restore", str(tmp_path / "file"), "--yes", code=1)
    assert "cannot be restored" in done.err and "Traceback" not in done.err
    assert program.json("memory", "list")["count"] == 1
    assert "restored" not in program("db", "psql", "-Atc", "select datname from pg_database").out


def test_another_server_is_not_ours_to_restore(
    program: Program, environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"x")
    done = Program(environment, tmp_path)("db", "restore", str(tmp_path / "file"), "--yes", code=2)
    assert "pg_restore" in done.err
