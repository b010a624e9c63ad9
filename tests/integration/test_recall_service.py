"""The recall service as a process: its socket, its limits, its beginnings and ends, and what it tells about itself."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from cems.ids import short
from cems.project import Project, resolve
from cems.settings import Settings
from db.access import owner_id
from db.connect import Access, Connection, Database
from db.embedded import ServerInfo
from recall.block import shown_ids
from recall.client import health
from recall.reach import HurriedDatabase
from tests.hooking import ask, bind_in, is_well, payload, remember, run_hook, serving
from tests.local_model import model_folder
from tests.waiting import wait_until

PROMPT = "why do uploads retry with backoff?"


@pytest.fixture
def folder(tmp_path: Path, home: Path) -> Path:
    made = tmp_path / "orchard"
    made.mkdir()
    (home / "machine-id").write_text(str(uuid.UUID(int=7)) + "\n")
    return made


@pytest.fixture
def wanted(db: Database, folder: Path) -> str:
    """The short id of the one memory."""
    return short(remember(db, None, "Uploads retry three times with backoff", project=project_of(folder)))


def project_of(folder: Path) -> Project:
    return resolve(str(folder), str(uuid.UUID(int=7)))


@contextlib.contextmanager
def connected(home: Path) -> Iterator[socket.socket]:
    """A connection that is no hook's."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5)
        before = Path.cwd()
        os.chdir(home / "recall")
        try:
            connection.connect("recall.sock")
        finally:
            os.chdir(before)
        yield connection


def test_case_X95_the_socket_is_private_and_nothing_listens_on_the_network(
    environment: dict[str, str], home: Path, folder: Path
) -> None:
    with serving(environment) as service:
        ask(environment, folder, PROMPT)
        assert stat.S_IMODE((home / "recall").stat().st_mode) == 0o700
        assert stat.S_IMODE((home / "recall" / "recall.sock").stat().st_mode) == 0o600
        for table in ("tcp", "tcp6", "udp", "udp6"):
            inodes = {
                line.split()[9]
                for line in Path(f"/proc/{service.pid}/net/{table}").read_text().splitlines()[1:]
            }
            own = [str(fd.readlink()) for fd in Path(f"/proc/{service.pid}/fd").iterdir() if fd.is_symlink()]
            assert not {f"socket:[{inode}]" for inode in inodes} & set(own), table


@pytest.mark.parametrize(
    "statement",
    [
        "update memory set title = 'x'",
        "delete from memory",
        "insert into tombstone (owner_id, content_hash, memory_id, created_at) select owner_id, 'x', id, now() from memory",
        "create table t (a int)",
        "create temporary table t (a int)",
        "drop table memory",
        "select lo_create(0)",
        "select * from line",
        "select pg_read_file('/etc/passwd')",
        "copy memory to program 'cat'",
    ],
)
def test_case_X95_row_S4_the_hooks_role_cannot_write(
    server: ServerInfo, dbname: str, settings: Settings, wanted: str, statement: str
) -> None:
    assert wanted
    found = Access(server.dsn("cems_reader", dbname), "cems_reader", owner_id(settings))
    with HurriedDatabase(found) as db:
        with (
            pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction)),
            db.transaction() as conn,
        ):
            conn.execute(statement.encode())
        # The switch alone would be no boundary: without it the grants refuse as well.
        with pytest.raises(psycopg.errors.InsufficientPrivilege), psycopg.connect(found.conninfo) as plain:
            plain.execute("set default_transaction_read_only = off; set search_path = cems, public")
            plain.commit()
            plain.execute(statement.encode())


def test_a_hooks_statement_ends_after_a_moment(server: ServerInfo, dbname: str, settings: Settings) -> None:
    found = Access(server.dsn("cems_reader", dbname), "cems_reader", owner_id(settings))
    with HurriedDatabase(found) as db, pytest.raises(psycopg.errors.QueryCanceled), db.transaction() as conn:
        conn.execute("select pg_sleep(5)")


def test_a_second_service_says_so_and_ends(environment: dict[str, str]) -> None:
    with serving(environment):
        second = subprocess.run(
            [sys.executable, "-I", "-m", "cems", "recall"], env=environment, capture_output=True, timeout=30
        )
        assert second.returncode == 75
        assert b"another recall is running" in second.stderr


def test_a_service_that_is_asked_to_end_does_so_and_removes_its_socket(
    environment: dict[str, str], home: Path
) -> None:
    with serving(environment) as service:
        service.send_signal(signal.SIGTERM)
        assert service.wait(5) == 0
        assert not (home / "recall" / "recall.sock").exists()


def test_a_service_that_was_killed_is_followed_by_one_in_the_same_state(
    environment: dict[str, str], home: Path, folder: Path, wanted: str
) -> None:
    with serving(environment) as service:
        before = ask(environment, folder, PROMPT)
        service.kill()
        service.wait()
    with serving(environment):
        assert ask(environment, folder, PROMPT) == before
        assert shown_ids(before) == [wanted]


def test_a_service_ends_when_its_socket_is_replaced(environment: dict[str, str], home: Path) -> None:
    with serving(environment) as service:
        (home / "recall" / "recall.sock").unlink()
        assert service.wait(15) == 0


def test_a_home_with_a_long_path_works(environment: dict[str, str], db: Database, tmp_path: Path) -> None:
    home = tmp_path / ("long" * 30) / "home"
    home.mkdir(parents=True)
    (home / "machine-id").write_text(str(uuid.UUID(int=7)) + "\n")
    rule = short(remember(db, None, "Uploads always retry with backoff", kind="preference"))
    long = environment | {"CEMS_HOME": str(home)}
    with serving(long):
        assert shown_ids(ask(long, tmp_path, PROMPT)) == [rule]


def test_the_first_hook_has_the_service_started_once(
    environment: dict[str, str], home: Path, folder: Path, wanted: str
) -> None:
    threads = [
        threading.Thread(target=run_hook, args=(environment, "SessionStart", payload("SessionStart", folder)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = wait_until(lambda: health(home, 1.0), 30, "the service") or {}
    try:
        wait_until(lambda: is_well(home, found["pid"]), 10, "the service to be well")
        assert shown_ids(ask(environment, folder, PROMPT)) == [wanted]
        assert stat.S_IMODE((home / "recall" / "service.log").stat().st_mode) == 0o600
    finally:
        os.kill(found["pid"], signal.SIGTERM)
    wait_until(lambda: health(home, 1.0) is None, 10, "its end")
    begun = (home / "recall" / "service.log").read_text().count("recall is listening")
    assert begun <= 1


def test_systemd_may_hand_over_the_socket(
    environment: dict[str, str], home: Path, folder: Path, wanted: str
) -> None:
    (home / "recall").mkdir(mode=0o700)
    listener = socket.socket(socket.AF_UNIX)
    bind_in(listener, home / "recall")
    listener.listen(8)
    fd = listener.fileno()
    systemd = (
        f"import os, sys; os.dup2({fd}, 3); os.environ |= {{'LISTEN_PID': str(os.getpid()), 'LISTEN_FDS': '1'}}; "
        "os.execv(sys.executable, [sys.executable, '-I', '-m', 'cems', 'recall'])"
    )
    service = subprocess.Popen(
        [sys.executable, "-c", systemd], env=environment, pass_fds=[fd], stderr=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: health(home, 2.0), 30, "the service behind the socket")
        assert shown_ids(ask(environment, folder, PROMPT)) == [wanted]
    finally:
        service.terminate()
        assert service.wait(10) == 0
        listener.close()
    assert (home / "recall" / "recall.sock").exists()  # it is systemd's


def test_requests_are_bounded_and_bad_ones_harm_nobody(
    environment: dict[str, str], home: Path, folder: Path, wanted: str
) -> None:
    bad = [b"", b"x", b"GET / HTTP/1.1\r\n\r\n", b"cems1 UserPromptSubmit 0 999999999999\n", b"a" * 100_000, b"cems1 a b c\n",
           b"cems1 UserPromptSubmit 5 10\nabc", b"cems1 Stop 0 2\n{}", b"\xff" * 200 + b"\n"]  # fmt: skip
    with serving(environment) as service:
        for data in bad:
            with connected(home) as connection, contextlib.suppress(OSError):
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                reply = connection.recv(65536)
                assert reply in (b"", b"ok 2\n{}"), data
        with contextlib.ExitStack() as stack:  # mute clients, more of them than there are places
            for _ in range(20):
                stack.enter_context(connected(home))
            done = run_hook(
                environment, "UserPromptSubmit", payload("UserPromptSubmit", folder, prompt=PROMPT)
            )
            assert done.context is not None
        wait_until(
            lambda: shown_ids(ask(environment, folder, PROMPT)) == [wanted], 10, "an answer after the flood"
        )
        assert service.poll() is None
        assert len(list(Path(f"/proc/{service.pid}/task").iterdir())) < 40


def test_many_hooks_at_once_are_all_answered(environment: dict[str, str], folder: Path, wanted: str) -> None:
    with serving(environment):
        contexts: list[str] = []
        threads = [
            threading.Thread(target=lambda: contexts.append(ask(environment, folder, PROMPT)))
            for _ in range(12)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(contexts) == 12 and all(shown_ids(c) in ([], [wanted]) for c in contexts)


def test_case_N91_health_is_a_real_read_and_tells_how_old_the_newest_memory_is(
    environment: dict[str, str], home: Path, wanted: str, sql: Connection
) -> None:
    sql.execute("update memory set recorded_at = now() - interval '31 days'")
    with serving(environment):
        found = health(home)
        assert found is not None and found["ok"] is True
        assert 30 * 86400 < found["newest_memory_seconds"] < 32 * 86400
        sql.execute("alter table memory rename to away")
        broken = health(home)
        assert broken is None or broken["ok"] is False


def test_case_N91_health_is_not_ok_without_a_database(environment: dict[str, str], home: Path) -> None:
    away = environment | {"CEMS_DATABASE_URL": "postgresql:///none?host=/nowhere"}
    with serving(away, ready=False):
        found = wait_until(lambda: health(home), 20, "an answer") or {}
        assert found["ok"] is False and found["database"] != "answers"
        told = subprocess.run(
            [sys.executable, "-I", "-m", "cems", "recall", "--health", "--json"],
            env=away,
            capture_output=True,
            timeout=30,
        )
        assert told.returncode == 1 and json.loads(told.stdout)["ok"] is False


def test_diagnostics_hold_no_content(
    environment: dict[str, str], home: Path, folder: Path, wanted: str
) -> None:
    with serving(environment):
        assert shown_ids(ask(environment, folder, PROMPT)) == [wanted]
        ask(environment, folder, "/compact")
        told = subprocess.run(
            [sys.executable, "-I", "-m", "cems", "recall", "--health", "--json"],
            env=environment,
            capture_output=True,
            timeout=30,
        )
    found = json.loads(told.stdout)
    assert found["requests"] == {"UserPromptSubmit": 2} and found["answered"] == {"UserPromptSubmit": 1}
    assert found["skipped"] == {"command": 1}
    assert {"all", "search", "transcript"} <= set(found["milliseconds"])
    log = next(home.glob("recall-*.log")).read_text()
    assert '"found": 1' in log and '"shown": 1' in log
    for text in (log, told.stdout.decode()):
        for word in ("uploads", "backoff", "orchard", str(folder), "compact", wanted, "8a7f2f5e"):
            assert word not in text.lower(), word


def test_the_model_is_used_as_soon_as_its_file_appears(
    environment: dict[str, str], home: Path, folder: Path, wanted: str, tmp_path: Path
) -> None:
    model = model_folder()
    models = tmp_path / "models"
    with_model = environment | {"CEMS_EMBEDDER": "local", "CEMS_EMBEDDING_MODEL_DIR": str(models)}
    with serving(with_model, ready=False):
        found = wait_until(lambda: health(home), 20, "an answer") or {}
        assert (found["embedder"], found["ok"]) == ("absent", False)
        assert shown_ids(ask(with_model, folder, PROMPT)) == [wanted]  # by keywords
        shutil.copytree(model, models / model.name)
        wait_until(lambda: (health(home) or {}).get("embedder") == "ready", 30, "the model")
        assert shown_ids(ask(with_model, folder, PROMPT)) == [wanted]
