"""Asks the recall service from inside this program: `cems recall --health`, and whoever wants to know how it does."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import msgspec

from recall.hook import FOLDER, SOCKET
from recall.request import HEALTH, PROTOCOL


def health(home: Path, seconds: float = 3.0) -> dict[str, Any] | None:
    """What the service says of itself; None where none answers."""
    head = b"%s %s 0 0\n" % (PROTOCOL, HEALTH.encode())
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(seconds)
        try:
            _connect(connection, home / FOLDER)
            connection.sendall(head)
            reply = b"".join(iter(lambda: connection.recv(65536), b""))
            return msgspec.json.decode(reply.partition(b"\n")[2], type=dict[str, Any])
        except (OSError, msgspec.DecodeError):
            return None


def _connect(connection: socket.socket, folder: Path) -> None:
    """Connect by the socket's short name, from its folder: its whole path may be too long for an address."""
    before = os.open(".", os.O_RDONLY)
    try:
        os.chdir(folder)
        connection.connect(SOCKET)
    finally:
        os.fchdir(before)
        os.close(before)
