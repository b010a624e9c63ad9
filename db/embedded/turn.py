"""Who may do what to a home at one time. One process at a time starts or stops the server; one server at a
time has the data. Both are locks of the kernel, so they end with their holders, however these end."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cems.errors import EmbeddedPostgresError

from .layout import Layout

TURN_SECONDS = 300.0
SERVING_SECONDS = 5.0
POLL_SECONDS = 0.02


@contextmanager
def own_turn(layout: Layout, progress: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """Wait for the turn to start or stop the server, and hold it. Raises EmbeddedPostgresError after
    TURN_SECONDS."""
    path = layout.top / "lock"
    lock = _open(path, layout)
    try:
        if not _take(lock, 0):
            progress("another process is starting or stopping the server: waiting")
            if not _take(lock, TURN_SECONDS):
                raise EmbeddedPostgresError(
                    f"another process has been starting or stopping this server for {TURN_SECONDS:.0f} s",
                    hint=f"see which one it is (lsof {path}), and end it",
                )
        yield
    finally:
        os.close(lock)


@contextmanager
def sole_server(layout: Layout) -> Iterator[int]:
    """A descriptor for the server to inherit: while any of its processes lives, no other server gets one.
    Postgres's own guards know processes and shared memory, so they do not see a server in another container.

    Raises EmbeddedPostgresError when there is such a server."""
    lock = _open(layout.top / "serving", layout)
    try:
        if not _take(lock, SERVING_SECONDS):
            raise EmbeddedPostgresError(
                f"the data of {layout.home} is in use by a server that cannot be seen from here",
                hint="perhaps it runs in another container: stop it there, or use another CEMS_HOME here",
            )
        yield lock
    finally:
        os.close(lock)


def _open(path: Path, layout: Layout) -> int:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    if os.geteuid() == 0:
        os.fchown(lock, layout.admin_uid, layout.admin_gid)
    return lock


def _take(lock: int, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(POLL_SECONDS)
        else:
            return True
