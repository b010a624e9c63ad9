"""The server's log: private, appended to, looked at when a start is to begin: beyond 5 MB it becomes
`server.log.1`. It stays small by what Postgres is told to log (see config)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from .layout import Layout

LARGEST = 5_000_000
"""Bytes at which a log is put aside."""
TAIL_LINES = 15


@contextmanager
def open_log(layout: Layout) -> Iterator[int]:
    """A descriptor that appends to the log; the caller's end of it is closed at the end."""
    if layout.log.exists() and layout.log.stat().st_size > LARGEST:
        layout.log.replace(layout.log.with_name("server.log.1"))
    log = os.open(layout.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if os.geteuid() == 0:
            os.fchown(log, layout.admin_uid, layout.admin_gid)
        yield log
    finally:
        os.close(log)


def tail(layout: Layout, begin: int) -> str:
    """The last lines written after byte `begin`, ready to be put behind a message; empty when there are
    none."""
    try:
        with layout.log.open("rb") as file:
            file.seek(begin)
            lines = file.read(LARGEST).decode(errors="replace").strip().splitlines()[-TAIL_LINES:]
    except FileNotFoundError:
        return ""
    return ":\n" + "\n".join(lines) if lines else ""
