"""The processes of a home, seen from outside: who holds which lock file, and waiting for one to become free."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from cems import home
from cems.cli import output
from cems.cli.stopping import Stopping
from cems.errors import AlreadyRunning, CemsError
from cems.settings import Settings

POLL = 0.5
"""Seconds between two tries to take over from a process that is about to end."""


REVIVE = 5.0
"""Seconds between two looks at whether the embedded server was killed."""


class Asked(CemsError):
    """The process was asked to end before it began."""


def holder(folder: Path, name: str) -> int | None:
    """The process that holds `NAME.lock`, 0 where it cannot be told which, None where nobody does."""
    path = folder / f"{name}.lock"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not _locked(fd):
            return None
        text = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
        return int(text) if text.isdigit() else 0
    finally:
        os.close(fd)


def _locked(fd: int) -> bool:
    """Looking must not take the lock, or a process that starts at this instant would find it taken. Linux tells who holds
    it; elsewhere a shared lock is held for an instant, which `held` allows for."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            seen = os.fstat(fd)
            name = f"{os.major(seen.st_dev):02x}:{os.minor(seen.st_dev):02x}:{seen.st_ino}"
            locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
            if any("FLOCK" in parts and name in parts and "->" not in parts for parts in locks):
                return True
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@contextlib.contextmanager
def held(folder: Path, name: str, stopping: Stopping, *, wait: bool = False) -> Iterator[None]:
    """Hold `NAME.lock` for the time of the block.

    Args:
        wait: wait for the other process to end, and take over.

    Raises:
        AlreadyRunning: another process holds it; Asked: this process was asked to end while it waited.
    """
    with contextlib.ExitStack() as stack:
        tries = 0
        while True:
            try:
                stack.enter_context(home.exclusive(folder, name))
                break
            except AlreadyRunning:
                tries += 1
                if not wait and tries > 1:
                    raise
                if wait and tries == 1:
                    other = holder(folder, name)
                    output.note(
                        f"another {name} is running (process {other or 'unknown'}); waiting to take over"
                    )
            if stopping.wait(POLL if wait else 0.1):
                raise Asked
        yield


def was_killed(folder: Path) -> bool:
    """Whether the embedded server of a home ended without being stopped: it leaves its process file then."""
    from db import embedded

    info = embedded.status(folder)
    return info.pid is None and (info.data / "postmaster.pid").exists()


@contextlib.contextmanager
def reviving(settings: Settings, stopping: Stopping) -> Iterator[None]:
    """Start the embedded server again when it was killed; one that was stopped on purpose stays stopped."""
    if settings.database_url:
        yield
        return
    from cems.errors import EmbeddedPostgresError
    from db import embedded

    ended = threading.Event()

    def look() -> None:
        import structlog

        log = structlog.get_logger()
        while not ended.wait(REVIVE) and not stopping.event.is_set():
            try:
                if was_killed(settings.home):
                    log.warning("the embedded Postgres was killed; starting it again")
                    embedded.start(settings.home)
            except EmbeddedPostgresError as error:
                log.error("the embedded Postgres does not start", reason=str(error))

    threading.Thread(target=look, name="reviving", daemon=True).start()
    try:
        yield
    finally:
        ended.set()
