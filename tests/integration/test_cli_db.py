"""`cems db` and `cems up` with an embedded Postgres of their own, from nothing to nothing left running."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from db import embedded
from db.connect import Connection
from tests.program import Program
from tests.sample_sessions import copy_samples
from tests.waiting import wait_until


@pytest.fixture
def private(tmp_path: Path) -> Iterator[Program]:
    """The program with a home and an embedded server of its own."""
    home = Path(tempfile.mkdtemp(prefix="cems-cli-", dir="/tmp"))
    config = copy_samples(tmp_path, {})
    keep = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "TMPDIR")}
    environment = keep | {"CEMS_HOME": str(home), "CLAUDE_CONFIG_DIR": str(config), "CEMS_EMBEDDER": "none"}
    try:
        yield Program(
            environment | {"CEMS_OBSERVER_POLL_INTERVAL": "0.3", "CEMS_OBSERVER_IDLE_TIME": "0.3"}, tmp_path
        )
    finally:
        data = embedded.status(home).data
        with contextlib.suppress(Exception):
            embedded.stop(home, mode="immediate")
        if not data.is_relative_to(home):
            shutil.rmtree(data.parent, ignore_errors=True)
        shutil.rmtree(home, ignore_errors=True)


def home_of(program: Program) -> Path:
    return Path(program.environment["CEMS_HOME"])


def test_from_the_first_start_to_a_backup_that_restores(private: Program, tmp_path: Path) -> None:
    assert private.json("db", "status", code=1)["running"] is False
    started = private.json("db", "start")
    assert started["started"] and started["running"] and started["version"].startswith("18")
    assert not private.json("db", "start")["started"]
    private("memory", "add", "Keep this one.", "--everywhere")
    status = private.json("db", "status")
    assert (
        status["running"] and status["schema"] == status["schema_wanted"] and status["pid"] == started["pid"]
    )
    assert private.json("db", "migrate") == {"applied": [], "schema": status["schema"]}
    assert private("db", "psql", "-A", "-t", "-c", "select title from memory").out.strip() == "Keep this one."
    reader = private("db", "psql", "--role", "cems_reader", "-c", "delete from memory", code=1)
    assert "read-only" in reader.err or "permission denied" in reader.err

    file = tmp_path / "my.dump"
    made = private.json("db", "backup", str(file))
    assert made["bytes"] == file.stat().st_size > 1000 and stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "exists" in private("db", "backup", str(file), code=2).err
    private("db", "backup", str(file), "--force")
    assert [p.name for p in tmp_path.glob("*my.dump*")] == ["my.dump"]
    default = Path(private.json("db", "backup")["file"])
    assert default.parent == home_of(private) / "backups"

    private("memory", "erase", private.json("memory", "list")["memories"][0]["id"], "--yes")
    dsn = embedded.status(home_of(private)).dsn(embedded.SUPERUSER, "cems")
    restore = embedded.tool("pg_restore", home_of(private))
    subprocess.run([restore, "--clean", "--if-exists", "--exit-on-error", "-d", dsn, file], check=True)
    assert private.json("memory", "list")["memories"][0]["title"] == "Keep this one."

    assert private.json("db", "stop") == {"stopped": True}
    assert private.json("db", "stop") == {"stopped": False}
    status = private.json("status", code=1)
    assert "not running" in status["problems"][0]["problem"] and status["database"]["running"] is False
    assert private.json("memory", "list")["count"] == 1, "a command that needs it starts it"


def test_the_roles_can_be_made_by_an_administrator(private: Program) -> None:
    assert {r["name"] for r in private.json("db", "roles")["roles"]} == {
        "cems_owner",
        "cems_writer",
        "cems_reader",
    }
    out = private("db", "roles", "--sql").out
    assert "create role cems_reader" in out and "grant cems_owner" in out


def test_a_backup_of_another_server_holds_this_owners_memories(
    environment: dict[str, str], tmp_path: Path, sql: Connection
) -> None:
    program = Program(environment, tmp_path)
    program("memory", "add", "Mine alone.", "--everywhere")
    program("memory", "add", "Somebody's secret plan.", "--everywhere", CEMS_OWNER="other")
    file = tmp_path / "mine.dump"
    program("db", "backup", str(file))
    pg_restore = embedded.tool("pg_restore", Path(environment["CEMS_HOME"]))
    out = subprocess.run(
        [pg_restore, "--data-only", "--file=-", file], check=True, capture_output=True, text=True
    ).stdout
    assert "Mine alone." in out and "secret plan" not in out
    assert program("db", "psql", "-A", "-t", "-c", "select count(*) from memory").out.strip() == "2"


def test_up_runs_everything_and_ctrl_c_leaves_nothing(private: Program) -> None:
    home = home_of(private)
    with private.running("up", "--json") as up:
        wait_until(lambda: up.out.endswith("\n") or up.process.poll() is not None, 60)
        said = json.loads(up.out)
        assert (
            said["processes"] == ["observer", "recall", "maintenance"]
            and said["database_started"]
            and said["folders"]
        )
        wait_until(lambda: re.search("^observer +│ ", up.err, re.M) and "looked at once" in up.err, 30)
        assert f"process {up.process.pid}" in private("up", code=75).err
        first = private.json("status", code=None)["processes"]["observer"]["pid"]
        os.kill(first, signal.SIGKILL)

        def next_one() -> int | None:
            pid: int | None = private.json("status", code=None)["processes"]["observer"]["pid"]
            return pid if pid != first else None

        second = wait_until(next_one, 20)
        assert "ended by signal 9" in up.err
        wait_until(lambda: private.json("status", code=None)["memories"]["total"], 30)
        assert up.end(signal.SIGINT, 30) == 0
    info = embedded.status(home)
    assert info.pid is None and not info.running
    assert not Path(f"/proc/{second}").exists()
    assert up.out.count("\n") == 1


def test_up_starts_a_killed_database_again_and_leaves_one_it_did_not_start(private: Program) -> None:
    home = home_of(private)
    private("db", "start")
    with private.running("up") as up:
        wait_until(lambda: "looked at once" in up.err, 60)
        assert "running before" in up.out and "Ctrl-C" in up.out
        pid = embedded.status(home).pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: embedded.status(home).running and embedded.status(home).pid != pid, 40)
        assert up.end(signal.SIGINT, 30) == 0
    assert embedded.status(home).running


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_children_of_an_up_that_is_killed_end_too(private: Program) -> None:
    with private.running("up") as up:
        wait_until(lambda: "looked at once" in up.err, 60)
        observer = private.json("status", code=None)["processes"]["observer"]["pid"]
        os.kill(up.process.pid, signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{observer}").exists(), 15)


def test_up_ends_when_a_child_cannot_run_at_all(private: Program) -> None:
    private("db", "start")
    with private.running("up", CEMS_CLAUDE_CONFIG_DIR="/nowhere") as up:
        wait_until(lambda: "looked at once" in up.err, 60)
        assert "not there yet" in up.out
        (home_of(private) / "config.toml").write_text("[nonsense]\nx = 1\n")
        os.kill(private.json("status", code=78) and _observer(home_of(private)), signal.SIGKILL)
        assert up.process.wait(30) == 78
    assert "cannot run with these settings" in up.err and "nonsense" in up.err


def _observer(home: Path) -> int:
    return int((home / "observer.lock").read_text())
