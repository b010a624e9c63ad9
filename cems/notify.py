"""Telling systemd how a service is: ready, what it does, alive, ending. A datagram to `$NOTIFY_SOCKET`, as sd_notify(3) has
it; outside systemd nothing happens. Life is told by the work itself, never by a timer: each loop says that it came round,
and while one of them is silent for too long nothing is sent, so that systemd starts the service again."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping

STATUS_LIMIT = 200
"""Characters of a status."""


class Service:
    """One service's word to systemd. Thread-safe; no call raises."""

    def __init__(
        self,
        loops: Mapping[str, float],
        *,
        environment: Mapping[str, str] = os.environ,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Args:
        loops: the names of the work loops, and after how many seconds of silence each counts as stuck.
        """
        self._address = environment.get("NOTIFY_SOCKET", "")
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._patience = dict(loops)
        self._heard = dict.fromkeys(loops, monotonic())
        self._every = _watchdog_seconds(environment)
        self._sent = float("-inf")
        self._status = ""

    def ready(self, status: str) -> None:
        """The service does its work from now on."""
        self._status = status
        self._send(f"READY=1\nSTATUS={_line(status)}")

    def stopping(self) -> None:
        """The service ends because it was asked to."""
        self._send("STOPPING=1\nSTATUS=ending")

    def beat(self, loop: str, status: str | None = None) -> None:
        """A loop came round: it did its work, or waits in the way it should. With a status that is new, it is shown."""
        with self._lock:
            now = self._monotonic()
            self._heard[loop] = now
            if status is not None and status != self._status:
                self._status = status
                self._send(f"STATUS={_line(status)}")
            alive = all(now - at <= self._patience[name] for name, at in self._heard.items())
            if self._every is not None and alive and now - self._sent >= self._every / 4:
                self._sent = now
                self._send("WATCHDOG=1")

    def beat_all(self, status: str | None = None) -> None:
        """Every loop waits in the way it should."""
        for loop in self._patience:
            self.beat(loop, status)

    def _send(self, text: str) -> None:
        if not self._address:
            return
        # "@" stands for the zero byte of a socket that is no file.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as connection:
                connection.settimeout(1)
                connection.sendto(text.encode("utf-8", "replace"), address)
        except (
            OSError,
            AttributeError,
        ):  # nobody listens, or a system without SOCK_CLOEXEC, which has no systemd
            return


def _watchdog_seconds(environment: Mapping[str, str]) -> float | None:
    """Seconds within which systemd wants a sign of life of this process; None: it does not."""
    usec, pid = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if not usec.isdigit() or (pid and pid != str(os.getpid())):
        return None
    return int(usec) / 1e6 or None


def _line(text: str) -> str:
    return " ".join(text.split())[:STATUS_LIMIT]
