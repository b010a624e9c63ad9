"""What systemd is told, over a real socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from cems.notify import Service
from tests.conftest import FakeClock


class Manager:
    """Receives what a service says."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.setblocking(False)

    def heard(self) -> list[str]:
        """Every message so far."""
        found = []
        while True:
            try:
                found.append(self.socket.recv(4096).decode())
            except BlockingIOError:
                return found


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    found = Manager(str(tmp_path / "notify"))
    yield found
    found.socket.close()


def service(tmp_path: Path, clock: FakeClock, **environment: str) -> Service:
    given = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "90000000", **environment}
    return Service({"reading": 80.0, "writing": 900.0}, environment=given, monotonic=clock.monotonic)


def test_it_says_ready_alive_and_ending(tmp_path: Path, manager: Manager, clock: FakeClock) -> None:
    one = service(tmp_path, clock)
    one.ready("all is\nwell")
    one.beat("reading")
    one.beat("reading", "all is\nwell")
    one.beat("reading", "waiting")
    one.stopping()
    assert manager.heard() == [
        "READY=1\nSTATUS=all is well",
        "WATCHDOG=1",
        "STATUS=waiting",
        "STOPPING=1\nSTATUS=ending",
    ]


def test_signs_of_life_are_few_and_end_when_one_loop_is_stuck(
    tmp_path: Path, manager: Manager, clock: FakeClock
) -> None:
    one = service(tmp_path, clock)
    for _ in range(30):
        one.beat("reading")
        one.beat("reading")
        assert manager.heard() == ["WATCHDOG=1"]
        clock.advance(30)
    for _ in range(5):  # the other loop was not heard for 900 s
        clock.advance(30)
        one.beat("reading")
    assert manager.heard() == []
    one.beat("writing")
    assert manager.heard() == ["WATCHDOG=1"]


def test_while_all_of_it_waits_no_loop_counts_as_stuck(
    tmp_path: Path, manager: Manager, clock: FakeClock
) -> None:
    one = service(tmp_path, clock)
    for _ in range(60):
        clock.advance(30)
        one.beat_all("waiting")
        assert "WATCHDOG=1" in manager.heard()


@pytest.mark.parametrize(
    "environment",
    [
        {"NOTIFY_SOCKET": ""},
        {"NOTIFY_SOCKET": "/nowhere/at/all"},
        {"WATCHDOG_USEC": "rubbish"},
        {"WATCHDOG_PID": "1"},
    ],
)
def test_outside_systemd_nothing_is_said_and_nothing_fails(
    tmp_path: Path, manager: Manager, clock: FakeClock, environment: dict[str, str]
) -> None:
    one = service(tmp_path, clock, **environment)
    one.beat("reading")
    one.stopping()
    assert "WATCHDOG=1" not in manager.heard()


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="sockets without a file are Linux's")
def test_a_socket_that_is_no_file_is_reached(clock: FakeClock) -> None:
    manager = Manager(f"\0cems-test-{os.getpid()}")
    one = Service({"a": 1.0}, environment={"NOTIFY_SOCKET": f"@cems-test-{os.getpid()}"})
    one.ready("here")
    assert manager.heard() == ["READY=1\nSTATUS=here"]
    manager.socket.close()
