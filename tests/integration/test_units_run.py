"""Each unit's process, started with exactly the unit's command line, environment and socket, by a stand-in for systemd: ready,
signs of life, started again after a kill, and a socket that is handed over."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cems.cli.installing import hooks
from cems.cli.installing.units import SERVICES, Place, units
from cems.notify import Service
from cems.settings import Settings
from db import embedded, lease
from db.connect import Connection, Database
from observer import process, start
from tests.conftest import FakeClock
from tests.fault.here import running
from tests.sample_sessions import copy_samples
from tests.waiting import wait_until

WATCHDOG_USEC = "8000000"


class Manager:
    """What systemd is to a service: it listens to what it says, and starts it again."""

    def __init__(self, home: Path, environment: dict[str, str], folder: Path) -> None:
        self.home, self.environment, self.folder = home, environment, folder
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(folder / "notify"))
        self.socket.setblocking(False)
        self.heard: list[str] = []

    def listen(self) -> list[str]:
        """All that was said so far."""
        with contextlib.suppress(BlockingIOError):
            while True:
                self.heard.append(self.socket.recv(4096).decode())
        return self.heard

    def said(self, word: str) -> bool:
        """Whether this was said."""
        return any(word in text for text in self.listen())

    def start(self, name: str, listener: socket.socket | None = None) -> subprocess.Popen[bytes]:
        """Start a unit's process."""
        self.heard.clear()
        text = units(Place(sys.executable, self.home, 252))[name]
        (command,) = re.findall(r"^ExecStart=(.*)$", text, re.M)
        given = [shlex.split(found)[0] for found in re.findall(r"^Environment=(.*)$", text, re.M)]
        environment = self.environment | dict(pair.partition("=")[::2] for pair in given)
        environment |= {"NOTIFY_SOCKET": str(self.folder / "notify"), "WATCHDOG_USEC": WATCHDOG_USEC}
        argv = shlex.split(command)
        if listener is None:
            return subprocess.Popen(argv, env=environment, cwd="/", stdin=subprocess.DEVNULL)
        # As systemd does it: the socket is descriptor 3, and the variables name this very process.
        code = (
            "import os, sys; os.dup2(int(sys.argv[1]), 3); os.set_inheritable(3, True);"
            "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1'); os.execv(sys.argv[2], sys.argv[2:])"
        )
        number = listener.fileno()
        return subprocess.Popen(
            [sys.executable, "-c", code, str(number), *argv],
            env=environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            pass_fds=[number],
        )


@pytest.fixture
def manager(home: Path, environment: dict[str, str], tmp_path: Path) -> Iterator[Manager]:
    found = Manager(home, environment, tmp_path)
    yield found
    found.socket.close()


@contextlib.contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is gone at the end, whatever happens."""
    try:
        yield process
    finally:
        process.kill()
        process.wait(20)


@pytest.mark.parametrize("name", [name for name in SERVICES if name != "cems-postgres.service"])
def test_it_is_ready_lives_and_comes_back_after_a_kill(manager: Manager, name: str) -> None:
    for _ in range(2):
        with ended(manager.start(name)) as process:
            wait_until(lambda: manager.said("READY=1"))
            if name != "cems-recall.service":  # which looks at the database every 20 s only
                wait_until(lambda: manager.said("WATCHDOG=1"))
            process.kill()
            process.wait(20)
    with ended(manager.start(name)) as process:
        wait_until(lambda: manager.said("READY=1"))
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert manager.said("STOPPING=1")


def test_an_observer_that_waits_for_another_lives(
    manager: Manager,
    db: Database,
    sql: Connection,
    settings: Settings,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "_RENEW", 0.02)
    service = Service(
        process.LOOPS,
        environment={"NOTIFY_SOCKET": str(manager.folder / "notify"), "WATCHDOG_USEC": WATCHDOG_USEC},
        monotonic=clock.monotonic,
    )
    found = start.process(
        db,
        dataclasses.replace(settings, observer_poll_interval=0.1),
        clock=clock,
        watch=False,
        service=service,
    )[0]
    with running(found) as ready:
        assert ready.wait(20)
        sql.execute(
            "update lease set holder = gen_random_uuid(), described = 'elsewhere process 1', expires_at = %s",
            (clock.now() + lease.HOLD,),
        )
        clock.ticks += 1  # the lease is to be renewed
        wait_until(lambda: manager.said("another observer took over"))
        for _ in range(5):
            manager.listen()
            manager.heard.clear()
            clock.ticks += process.LOOPS["observing"] * 0.9
            wait_until(lambda: manager.said("WATCHDOG=1"))
        sql.execute("delete from lease")
        wait_until(lambda: sql.execute("select 1 from lease").fetchone())


def test_the_first_hook_starts_the_service_through_its_socket(manager: Manager, home: Path) -> None:
    folder = home / "recall"
    folder.mkdir(mode=0o700)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(folder / "recall.sock"))
    listener.listen(16)
    for path, content in hooks.copies(home).items():
        hooks.write(path, content)
    handler = hooks.handler(sys.executable, home, "SessionStart")
    given = json.dumps({"hook_event_name": "SessionStart", "source": "startup", "cwd": str(home)}).encode()
    argv = [handler["command"], *handler["args"]]
    with ended(manager.start("cems-recall.service", listener)):
        wait_until(lambda: manager.said("READY=1"))
        done = subprocess.run(
            argv, input=given, capture_output=True, env={"PATH": os.environ["PATH"]}, check=True
        )
        assert "cems-memory" in json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]
    listener.close()
    assert (folder / "recall.sock").exists(), "it is systemd's, and stays"


def test_the_embedded_database_is_started_watched_and_stopped(manager: Manager) -> None:
    manager.environment = {
        k: v for k, v in manager.environment.items() if k not in ("CEMS_DATABASE_URL", "CEMS_OWNER")
    }
    try:
        with ended(manager.start("cems-postgres.service")) as process:
            wait_until(lambda: manager.said("READY=1"), seconds=60)
            pid = embedded.status(manager.home).pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: embedded.status(manager.home).pid not in (None, pid), seconds=60)
            manager.heard.clear()
            wait_until(lambda: manager.said("WATCHDOG=1"), seconds=60)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
            assert embedded.status(manager.home).pid is None
    finally:
        outside = embedded.outside(manager.home)
        embedded.stop(manager.home, mode="immediate")
        if outside:
            shutil.rmtree(outside)


def test_case_N89_a_service_that_knows_nothing_of_the_shell_goes_on_by_rules(
    manager: Manager, config_dir: Path, home: Path
) -> None:
    assert copy_samples(config_dir.parent, {}) == config_dir
    bare = {k: v for k, v in manager.environment.items() if k.startswith("CEMS_") or k == "CLAUDE_CONFIG_DIR"}
    manager.environment = bare | {"CEMS_OBSERVER_IDLE_TIME": "0.1", "CEMS_OBSERVER_POLL_INTERVAL": "0.5"}
    with ended(manager.start("cems-observer.service")) as process:
        wait_until(lambda: manager.said("READY=1"))

        def told() -> dict[str, Any]:
            done = subprocess.run(
                [sys.executable, "-I", "-m", "cems", "status", "--json"],
                env=manager.environment | {"CEMS_HOME": str(home)},
                capture_output=True,
                check=False,
            )
            found: dict[str, Any] = json.loads(done.stdout)
            return found

        wait_until(lambda: told()["memories"]["total"] > 0, seconds=60)
        assert told()["llm"]["written_by"] == "rules"
        assert process.poll() is None, "it is no crash loop"
