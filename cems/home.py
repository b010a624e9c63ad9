"""The folder everything lives in: made private, and the few small files in it that are made once and kept: the machine's
id and the key that makes equal secrets recognisable without storing them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from cems.errors import AlreadyRunning, SettingsError

_KEY_BYTES = 32


def ensure(home: Path) -> Path:
    """Make the folder, for its user only. Its parents are made as the system makes them.

    Raises:
        SettingsError: it cannot be made or is not ours to write.
    """
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not os.access(home, os.W_OK | os.X_OK):
            raise PermissionError(13, "not writable")
    except OSError as error:
        raise SettingsError(
            f"CEMS_HOME {home} cannot be used: {error.strerror}", hint="set CEMS_HOME to a folder of yours"
        ) from error
    return home


def machine_id(home: Path) -> uuid.UUID:
    """This machine's id; a home that is moved to another machine keeps it.

    Raises:
        SettingsError: the file holds something else.
    """
    path = home / "machine-id"
    try:
        return uuid.UUID(_once(path, lambda: str(uuid.uuid4())))
    except ValueError:
        raise SettingsError(
            f"{path} holds no id",
            hint="restore it from a backup; without it, projects that have no remote are taken for new ones",
        ) from None


def redaction_key(home: Path) -> bytes:
    """32 random bytes, made once.

    Raises:
        SettingsError: the file holds something else.
    """
    path = home / "redaction-key"
    with contextlib.suppress(ValueError):
        if len(key := bytes.fromhex(_once(path, lambda: secrets.token_hex(32)))) == _KEY_BYTES:
            return key
    raise SettingsError(
        f"{path} holds no key of {_KEY_BYTES} bytes",
        hint="restore it from a backup, or remove it: a new one is made, and equal secrets get new marks",
    )


def _once(path: Path, make: Callable[[], str]) -> str:
    """A file's content; made, whole or not at all, when it is not there."""
    try:
        return path.read_text(errors="replace").strip()
    except FileNotFoundError:
        pass
    ensure(path.parent)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "w") as f:
        f.write(make() + "\n")
        f.flush()
        os.fsync(f.fileno())
    with contextlib.suppress(FileExistsError):
        os.link(temporary, path)  # fails where another process was first: then its value counts
    temporary.unlink()
    return path.read_text(errors="replace").strip()


@contextlib.contextmanager
def exclusive(home: Path, name: str) -> Iterator[None]:
    """Hold `NAME.lock` in the home for the time of the block; the system lets go of it when the process dies.

    Raises:
        AlreadyRunning: another process holds it; says which.
    """
    path = ensure(home) / f"{name}.lock"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise AlreadyRunning(
                f"another {name} is running for this home (process {holder})",
                hint="`cems status` shows what runs",
            ) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(fd)


@contextlib.contextmanager
def waiting(home: Path, name: str) -> Iterator[None]:
    """As `exclusive`, but wait until the other process is done."""
    fd = os.open(ensure(home) / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(fd)
