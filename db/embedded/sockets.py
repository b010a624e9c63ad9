"""Where the server's Unix socket lies. Promises a private folder (0700) of the server's user whose path fits
into a socket address, wherever the home is; a folder in /tmp is used only if we made it or own it."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from cems.errors import EmbeddedPostgresError

from .layout import Layout, can_pass, make_folder

PORT = 5432
"""Part of the socket's name; nothing listens on a port."""
SOCKET = f".s.PGSQL.{PORT}"
LONGEST = 107 if sys.platform == "linux" else 103
"""Bytes of `sun_path` that a socket's path may take."""


def choose(layout: Layout) -> Path:
    """The folder for the socket, made: beside the data when the path is short enough, else in the user's
    runtime folder, else in /tmp."""
    folder = beside_data(layout)
    if fits(folder):
        make_folder(folder, layout.server_uid, layout.server_gid)
        return folder
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR") or "/tmp")
    for base in (runtime, Path("/tmp")):
        folder = base / f"cems-{layout.id}"
        if fits(folder) and base.is_dir() and _private_enough(base) and can_pass(base, layout):
            return _make_or_dodge(folder, layout)
    raise EmbeddedPostgresError(
        f"there is no folder for the server's socket: {beside_data(layout)} is too long (or has a comma), "
        "and /tmp cannot be used",
        hint="set CEMS_HOME to a folder with a shorter path",
    )


def beside_data(layout: Layout) -> Path:
    """The usual folder."""
    return layout.place / "run"


def fits(folder: Path) -> bool:
    """Whether a socket in this folder has an address that clients can be told: a comma divides hosts."""
    return len(os.fsencode(folder / SOCKET)) <= LONGEST and "," not in str(folder)


def clear(folder: Path, layout: Layout) -> None:
    """Remove what a dead server left in its socket folder, and the folder too if it lies elsewhere than the
    data."""
    if not _is_ours(folder, layout):
        return
    for name in (SOCKET, f"{SOCKET}.lock"):
        (folder / name).unlink(missing_ok=True)
    if folder != beside_data(layout):
        with suppress(OSError):  # somebody of ours keeps something in there
            folder.rmdir()


def _private_enough(base: Path) -> bool:
    """Others must not be able to rename what we make in there: ours alone, or sticky."""
    found = base.stat()
    if found.st_mode & stat.S_ISVTX:
        return True
    return found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _make_or_dodge(folder: Path, layout: Layout) -> Path:
    """`folder`, unless something that is not ours has the name: then one with a random name (the state file
    tells clients), for a name in /tmp can be taken by anybody."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if not _is_ours(folder, layout):
            folder = Path(tempfile.mkdtemp(prefix="cems-", dir=folder.parent))
    os.chown(folder, layout.server_uid, layout.server_gid, follow_symlinks=False)
    folder.chmod(0o700)
    return folder


def _is_ours(folder: Path, layout: Layout) -> bool:
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == layout.server_uid
