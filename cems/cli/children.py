"""Child processes of `cems up`: started, watched, started again with growing delays, and ended in order. Their output is
passed on line by line with their name before it; when this process dies without a word, they notice and end."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import IO

import click

from cems.settings import Settings

LONGEST_DELAY = 60.0
LIVED_WELL = 60.0
"""Seconds after which a child that dies is started again without a delay."""
END_SECONDS = 10.0
_CANNOT_RUN = 78  # EX_CONFIG: the settings or the schema are wrong, and stay so
_COLOURS = ("cyan", "magenta", "yellow", "green")


@dataclasses.dataclass(frozen=True)
class Child:
    """One part that `cems up` runs: its name and the arguments of `cems`."""

    name: str
    arguments: tuple[str, ...]


@dataclasses.dataclass
class _Running:
    child: Child
    colour: str
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    failures: int = 0
    again_at: float = 0.0
    reader: threading.Thread | None = None


@dataclasses.dataclass(frozen=True)
class Failed:
    """A child that cannot run."""

    child: Child
    code: int


class Family:
    """The children of this process."""

    POLL = 0.25
    """Seconds between two looks."""

    def __init__(self, children: Sequence[Child], settings: Settings) -> None:
        self._members = [_Running(child, _COLOURS[i % len(_COLOURS)]) for i, child in enumerate(children)]
        self._width = max(len(child.name) for child in children)
        self._environment = dict(os.environ)
        if settings.log_format == "auto" and sys.stderr.isatty():
            self._environment["CEMS_LOG_FORMAT"] = (
                "console"  # their standard error is a pipe, and ours is read by a person
            )

    def start(self) -> None:
        """Start every child."""
        for member in self._members:
            self._start(member)

    def look(self) -> Failed | None:
        """Start again what died; gives the child that cannot run."""
        now = time.monotonic()
        for member in self._members:
            if member.process is None:
                if now >= member.again_at:
                    self._start(member)
                continue
            code = member.process.poll()
            if code is None:
                continue
            self._finish(member)
            if code == _CANNOT_RUN:
                return Failed(member.child, code)
            member.failures = 0 if now - member.started > LIVED_WELL else member.failures + 1
            delay = min(LONGEST_DELAY, 2.0 ** (member.failures - 1)) if member.failures else 0.0
            member.again_at = now + delay
            how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
            self._say(member, f"ended {how}; started again {f'in {delay:.0f} s' if delay else 'now'}")
        return None

    def stop(self) -> None:
        """End every child, the last one first: SIGTERM, 10 s, SIGKILL."""
        for member in reversed(self._members):
            process = member.process
            if process is None:
                continue
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self._say(member, f"did not end within {END_SECONDS:.0f} s and is killed")
                process.kill()
                process.wait()
            self._finish(member)

    def _start(self, member: _Running) -> None:
        # -I: a hostile or merely unlucky current folder must not be imported from. An own session: Ctrl-C reaches this
        # process alone, which ends the children in order.
        member.process = subprocess.Popen(
            [sys.executable, "-I", "-m", "cems", *member.child.arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._environment,
            start_new_session=True,
        )
        member.started = time.monotonic()
        assert member.process.stdout is not None
        member.reader = threading.Thread(
            target=self._pass_on, args=(member, member.process.stdout), daemon=True
        )
        member.reader.start()

    def _finish(self, member: _Running) -> None:
        process, member.process = member.process, None
        if member.reader is not None:
            member.reader.join(timeout=2)
        if process is not None and process.stdin is not None:
            process.stdin.close()

    def _pass_on(self, member: _Running, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                self._say(member, line.decode("utf-8", "replace").rstrip("\n"))

    def _say(self, member: _Running, line: str) -> None:
        with contextlib.suppress(OSError):
            click.echo(
                click.style(f"{member.child.name:<{self._width}} │ ", fg=member.colour) + line, err=True
            )
