"""Observers and writers as processes of a test, started with one environment and always ended with it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]


class Observer:
    """One launcher, and what it says."""

    def __init__(self, environment: Mapping[str, str], folder: Path, *options: str) -> None:
        number = len(list(folder.glob("observer-*.out")))
        self.out = folder / f"observer-{number}.out"
        self.log = folder / f"observer-{number}.log"
        with self.out.open("wb") as out, self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.fault.launcher", *options],
                cwd=ROOT,
                env=dict(environment),
                stdout=out,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def events(self, name: str) -> list[dict[str, Any]]:
        """All it said so far of this kind."""
        lines = self.out.read_bytes().splitlines(keepends=True)
        said = [json.loads(line) for line in lines if line.endswith(b"\n")]
        return [event for event in said if name in event]

    def logged(self, words: str) -> list[dict[str, Any]]:
        """The log's lines with these words."""
        found = [line for line in self.log.read_text("utf-8", "replace").splitlines() if words in line]
        return [json.loads(line) if line.startswith("{") else {"event": line} for line in found]

    def wait_ready(self, seconds: float = 20) -> Observer:
        """Until it has made its first pass."""
        wait_until(
            lambda: self.events("ready") or self.process.poll() is not None,
            seconds,
            "an observer that is ready",
        )
        assert self.events("ready"), self.tail()
        return self

    @property
    def deaths(self) -> int:
        """How often an observer was killed."""
        return sum(1 for event in self.events("ended") if event["code"] == -signal.SIGKILL)

    def harmless(self) -> None:
        """No more kills and no more points of failure: one last kill, and from then on a sound observer."""
        started = len(self.events("started"))
        self.process.send_signal(signal.SIGUSR1)
        wait_until(
            lambda: len(self.events("started")) > started or self.process.poll() is not None,
            20,
            "a sound observer",
        )

    def terminate(self, seconds: float = 15) -> int:
        """Ask it to end; returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def kill(self) -> None:
        """End it, and the observer it supervises, without asking."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(10)

    def tail(self) -> str:
        """The end of what it wrote, for a failed assertion."""
        return f"exit {self.process.poll()}\n{self.out.read_text()[-2000:]}\n{self.log.read_text('utf-8', 'replace')[-4000:]}"


@contextlib.contextmanager
def observing(environment: Mapping[str, str], folder: Path, *options: str) -> Iterator[Observer]:
    """An observer for the time of the block."""
    observer = Observer(environment, folder, *options)
    try:
        yield observer
    finally:
        observer.kill()


@contextlib.contextmanager
def writing(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A writer for the time of the block."""
    writer = subprocess.Popen(
        [sys.executable, "-m", "tests.fault.writer", str(folder), *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield writer
    finally:
        writer.kill()
        writer.wait()


def written(folder: Path, *options: str) -> dict[str, Any]:
    """Let a writer write to its end; returns the truth."""
    with writing(folder, *options) as writer:
        return truth_of(writer)


def truth_of(writer: subprocess.Popen[str], seconds: float = 60) -> dict[str, Any]:
    """What a writer says at its end."""
    out, _ = writer.communicate(timeout=seconds)
    assert writer.returncode == 0
    truth: dict[str, Any] = json.loads(out)
    return truth


def arguments(points: Sequence[str], probability: float) -> list[str]:
    """Launcher options that arm these points."""
    return [part for point in points for part in ("--failpoint", f"{point}:{probability:g}")]
