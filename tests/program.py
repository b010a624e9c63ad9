"""The real program as a process of a test: run to its end, or started and always ended with the test."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

CEMS = (sys.executable, "-I", "-m", "cems")


class Done(NamedTuple):
    """What a run of the program left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on standard output."""
        return json.loads(self.out)


class Program:
    """The program with one environment."""

    def __init__(
        self, environment: Mapping[str, str], folder: Path, *, command: tuple[str, ...] = CEMS
    ) -> None:
        self.environment = dict(environment)
        self.folder = folder
        self.command = command

    def having(self, environment: Mapping[str, str]) -> Program:
        """The same with more in its environment."""
        return Program({**self.environment, **environment}, self.folder, command=self.command)

    def __call__(self, *arguments: str, given: bytes = b"", code: int | None = 0, **environment: str) -> Done:
        """Run it to its end; with `code` also check how it ended."""
        done = subprocess.run(
            [*self.command, *arguments],
            env=self.environment | environment,
            cwd=self.folder,
            input=given,
            capture_output=True,
            timeout=90,
            check=False,
        )
        found = Done(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert code is None or found.code == code, found
        return found

    def json(self, *arguments: str, given: bytes = b"", code: int | None = 0, **environment: str) -> Any:
        """Run it with --json; the document."""
        return self(*arguments, "--json", given=given, code=code, **environment).json

    @contextlib.contextmanager
    def running(self, *arguments: str, **environment: str) -> Iterator[Started]:
        """Start it, and end it with the block."""
        started = Started(self, arguments, environment)
        try:
            yield started
        finally:
            started.kill()


class Started:
    """A process of the program."""

    def __init__(self, program: Program, arguments: tuple[str, ...], environment: Mapping[str, str]) -> None:
        number = len(list(program.folder.glob("program-*.err")))
        self._out, self._err = (program.folder / f"program-{number}.{end}" for end in ("out", "err"))
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [*program.command, *arguments],
                env={**program.environment, **environment},
                cwd=program.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    @property
    def out(self) -> str:
        """Standard output so far."""
        return self._out.read_text()

    @property
    def err(self) -> str:
        """Standard error so far."""
        return self._err.read_text()

    def end(self, number: int = signal.SIGTERM, seconds: float = 10) -> int:
        """Ask it to end; returns its exit code, and fails when that takes longer."""
        self.process.send_signal(number)
        return self.process.wait(seconds)

    def kill(self) -> None:
        """End it, whatever it does."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)
