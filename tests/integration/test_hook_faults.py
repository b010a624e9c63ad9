"""The hook when something is wrong: always exit code 0, one valid document, within a second (case I75, row H1)."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cems import settings as configuration
from cems.ids import short
from cems.project import resolve
from db import access, embedded
from db.connect import Database
from recall.answer import Answerer
from recall.block import shown_ids
from recall.diagnostics import Trace
from recall.reach import Reach
from recall.request import Request
from recall.warm import WarmEmbedder
from tests.hooking import EVENTS, HOOK, Outcome, payload, remember, run_hook, serving
from tests.waiting import wait_until

PROMPT = "why do uploads retry with backoff?"


@pytest.fixture(scope="module")
def own() -> Iterator[dict[str, str]]:
    """A home with a server of its own, which a test may stop, and one memory; the environment for it."""
    home = Path(tempfile.mkdtemp(prefix="cems-hook-", dir="/tmp"))
    keep = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG")}
    environment = keep | {"CEMS_HOME": str(home), "CEMS_EMBEDDER": "none", "CEMS_LOG_LEVEL": "info"}
    settings = configuration.load(environment)
    start(home)
    access.bring_up(settings)
    (home / "machine-id").write_text(str(uuid.UUID(int=7)) + "\n")
    with access.database(settings, "cems_writer") as db:
        environment["WANTED"] = short(
            remember(
                db,
                None,
                "Uploads retry three times with backoff",
                project=resolve("/orchard", str(uuid.UUID(int=7))),
            )
        )
    try:
        yield environment
    finally:
        embedded.stop(home, mode="immediate")
        shutil.rmtree(home, ignore_errors=True)


def start(home: Path) -> None:
    """The server of this home, quick and without durability."""
    embedded.start(home, settings={"fsync": "off", "synchronous_commit": "off"})


@pytest.fixture
def running(own: dict[str, str]) -> Iterator[dict[str, str]]:
    """The same, with the server running at the beginning and at the end, and no service about to start."""
    home = Path(own["CEMS_HOME"])
    start(home)
    prevent_start(home)
    yield own
    start(home)


def prevent_start(home: Path) -> None:
    """Let hooks believe that a service was started just now."""
    (home / "recall").mkdir(exist_ok=True, mode=0o700)
    (home / "recall" / "started").touch()


@contextlib.contextmanager
def stopped(pids: list[int]) -> Iterator[None]:
    """Processes that live and say nothing."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in reversed(pids):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def server_processes(home: Path) -> list[int]:
    """The postmaster, then its children."""
    postmaster = embedded.status(home).pid
    assert postmaster is not None
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    return [postmaster, *map(int, children)]


def prompt(environment: dict[str, str]) -> Outcome:
    """One prompt that has an answer."""
    return run_hook(environment, "UserPromptSubmit", payload("UserPromptSubmit", "/orchard", prompt=PROMPT))


def quick(environment: dict[str, str], runs: int = 3) -> list[str]:
    """What some runs gave; each is valid, and the median of them within a second."""
    done = [prompt(environment) for _ in range(runs)]
    contexts = [one.context for one in done]
    assert sorted(one.seconds for one in done)[runs // 2] < 1.0, [one.seconds for one in done]
    return contexts


def test_case_I75_postgres_stops_and_comes_back_under_the_service(running: dict[str, str]) -> None:
    home = Path(running["CEMS_HOME"])
    with serving(running) as service:
        wait_until(lambda: shown_ids(prompt(running).context) == [running["WANTED"]], 10, "the memory")
        embedded.stop(home, mode="immediate")
        assert quick(running) == ["", "", ""]
        start(home)
        began = time.monotonic()
        wait_until(lambda: shown_ids(prompt(running).context) == [running["WANTED"]], 10, "the memory again")
        assert time.monotonic() - began < 8
        assert service.poll() is None


def test_case_I75_postgres_is_mute_under_the_service(running: dict[str, str]) -> None:
    home = Path(running["CEMS_HOME"])
    with serving(running):
        wait_until(lambda: shown_ids(prompt(running).context) == [running["WANTED"]], 10, "the memory")
        with stopped(server_processes(home)):
            assert set(quick(running, 7)) == {""}
        wait_until(lambda: shown_ids(prompt(running).context) == [running["WANTED"]], 15, "the memory again")


def test_case_I75_a_lock_is_held(running: dict[str, str]) -> None:
    dsn = embedded.status(Path(running["CEMS_HOME"])).dsn(embedded.SUPERUSER, access.DATABASE)
    with serving(running):
        with psycopg.connect(dsn) as conn:
            conn.execute("lock table cems.memory in access exclusive mode")
            assert quick(running) == ["", "", ""]
        wait_until(lambda: shown_ids(prompt(running).context) == [running["WANTED"]], 10, "the memory")


def test_case_I75_the_service_is_mute(running: dict[str, str]) -> None:
    with serving(running) as service, stopped([service.pid]):
        assert all(shown_ids(c) in ([], [running["WANTED"]]) for c in quick(running))


@pytest.mark.parametrize("fault", ["stopped", "mute"])
def test_case_I75_no_service_and_no_postgres(running: dict[str, str], fault: str) -> None:
    home = Path(running["CEMS_HOME"])
    with contextlib.ExitStack() as stack:
        if fault == "mute":
            stack.enter_context(stopped(server_processes(home)))
        else:
            embedded.stop(home, mode="immediate")
        assert quick(running) == ["", "", ""]


def test_without_a_service_a_process_of_its_own_answers_by_keywords(
    running: dict[str, str], tmp_path: Path
) -> None:
    # On a busy machine the deadline may come first; what is tested here is the way.
    patient = tmp_path / "hook.py"
    patient.write_text(HOOK.read_text().replace("\nDEADLINE = 0.72\n", "\nDEADLINE = 15.0\n"))
    program = (sys.executable, "-I", "-S", str(patient))
    given = payload("UserPromptSubmit", "/orchard", prompt=PROMPT)
    done = [run_hook(running, "UserPromptSubmit", given, program=program) for _ in range(3)]
    assert [running["WANTED"]] in [shown_ids(one.context) for one in done]
    quick(running)


def test_row_H1_another_schema(running: dict[str, str], db_url: str, sql: Any, tmp_path: Path) -> None:
    sql.execute("alter table cems.memory rename column title to headline")
    environment = running | {"CEMS_DATABASE_URL": db_url, "CEMS_HOME": str(tmp_path)}
    with serving(environment, ready=False):
        wait_until(lambda: (tmp_path / "recall" / "recall.sock").exists(), 20, "the socket")
        assert quick(environment) == ["", "", ""]


def test_case_I75_an_embedder_that_hangs_leaves_the_keywords(
    running: dict[str, str], db: Database, reader: Database, home: Path
) -> None:
    class Hanging:
        model_id = "hanging"

        def embed_query(self, _text: str) -> list[float]:
            time.sleep(5)
            return []

    wanted = remember(
        db, None, "Uploads retry three times with backoff", project=resolve("/orchard", str(uuid.UUID(int=7)))
    )
    environment = {"CEMS_HOME": str(home), "CEMS_EMBEDDER": "none"}
    embedder = WarmEmbedder(configuration.load(environment))
    embedder._model = Hanging()  # type: ignore[assignment]
    answerer = Answerer(
        Reach(lambda: reader),
        uuid.UUID(int=7),
        lambda: dt.datetime.now(dt.UTC),
        embedder=embedder,
        environment=environment,
    )
    body = json.dumps(payload("UserPromptSubmit", "/orchard", prompt=PROMPT)).encode()
    trace = Trace("UserPromptSubmit")
    began = time.monotonic()
    document = json.loads(answerer.answer(Request("UserPromptSubmit", {}, body), trace))
    assert time.monotonic() - began < 2
    assert shown_ids(document["hookSpecificOutput"]["additionalContext"]) == [short(wanted)]
    assert trace.degraded == ["embedder late"]


INPUTS = {
    "empty": b"",
    "not JSON": b"{'prompt': ",
    "another shape": b"[1, 2]",
    "wrong types": b'{"hook_event_name":"UserPromptSubmit","prompt":{"a":1},"cwd":7}',
    "invalid UTF-8": b'{"hook_event_name":"UserPromptSubmit","prompt":"\xff\xfe uploads"}',
    "a lone surrogate": b'{"hook_event_name":"UserPromptSubmit","cwd":"/orchard","prompt":"\\ud800 uploads \\u0000"}',
    "a NUL in the folder": b'{"hook_event_name":"UserPromptSubmit","cwd":"/or\\u0000chard","prompt":"uploads retry"}',
    "deep": b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "a huge prompt": json.dumps(
        payload("UserPromptSubmit", "/orchard", prompt="uploads " * 400_000)
    ).encode(),
    "too much": b'{"prompt":"' + b"x" * 6_000_000 + b'"}',
}


@pytest.mark.parametrize("given", INPUTS.values(), ids=INPUTS.keys())
def test_row_H1_odd_input_gets_an_empty_document(serving_own: dict[str, str], given: bytes) -> None:
    done = [run_hook(serving_own, "UserPromptSubmit", given) for _ in range(3)]
    assert all(one.event == "UserPromptSubmit" and one.code == 0 for one in done)
    assert min(one.seconds for one in done) < 1.0
    assert shown_ids(prompt(serving_own).context) == [serving_own["WANTED"]]


@pytest.fixture(scope="module")
def serving_own(own: dict[str, str]) -> Iterator[dict[str, str]]:
    """One service for the tests that cannot harm it."""
    start(Path(own["CEMS_HOME"]))
    with serving(own):
        yield own


@pytest.mark.parametrize("endless", ["silent", "flood"])
def test_row_H1_input_that_never_ends(serving_own: dict[str, str], endless: str) -> None:
    source = subprocess.Popen(
        ["sleep", "30"] if endless == "silent" else ["yes"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(HOOK), "SessionStart"],
            stdin=source.stdout,
            capture_output=True,
            env=serving_own,
            timeout=10,
        )
        assert time.monotonic() - began < 1.5
    finally:
        source.kill()
        source.wait()
    assert Outcome(done.returncode, done.stdout, done.stderr, 0).event == "SessionStart"


@pytest.mark.parametrize(
    "shell", ["{} >&-", "{} >/dev/full", "{} <&- >&- 2>&-", "({}; echo $? >&2) | true", "{} 2>&-"]
)
def test_row_H1_an_output_that_takes_nothing_is_no_failure(
    serving_own: dict[str, str], shell: str, tmp_path: Path
) -> None:
    given = tmp_path / "input.json"
    given.write_text(json.dumps(payload("UserPromptSubmit", "/orchard", prompt=PROMPT)))
    command = shell.format(f'"{sys.executable}" -I -S "{HOOK}" UserPromptSubmit')
    with given.open("rb") as stdin:
        done = subprocess.run(
            ["sh", "-c", command], stdin=stdin, capture_output=True, env=serving_own, timeout=10
        )
    assert done.returncode == 0
    assert done.stderr in (b"", b"0\n")


def test_row_H1_an_output_that_nobody_reads_does_not_hold_the_hook(serving_own: dict[str, str]) -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write, b"x" * 65536)
    os.set_blocking(write, True)
    given = json.dumps(payload("UserPromptSubmit", "/orchard", prompt=PROMPT)).encode()
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(HOOK), "UserPromptSubmit"],
        input=given,
        stdout=write,
        env=serving_own,
        timeout=10,
    )
    assert done.returncode == 0
    assert time.monotonic() - began < 1.5
    os.close(read)
    os.close(write)


@pytest.mark.parametrize("event", EVENTS)
def test_without_a_home_nothing_is_made_and_nothing_said(tmp_path: Path, event: str) -> None:
    environment = {"PATH": os.environ["PATH"], "CEMS_HOME": str(tmp_path / "none"), "HOME": str(tmp_path)}
    assert run_hook(environment, event, payload(event, tmp_path, prompt=PROMPT)).context == ""
    assert list(tmp_path.iterdir()) == []
