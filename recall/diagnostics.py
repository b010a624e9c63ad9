"""What the read path did, in numbers: durations by stage, sizes, counts, flags. Never a text, a path, a prompt or the name of a
project, so that it may be logged and shown to anybody."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import statistics
import threading
import time
from collections.abc import Iterator
from typing import Any

_KEPT = 500


@dataclasses.dataclass
class Trace:
    """One request."""

    event: str
    stages: dict[str, float] = dataclasses.field(default_factory=dict)
    """Milliseconds."""
    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    degraded: list[str] = dataclasses.field(default_factory=list)
    """What was missing: `database`, `embedder`, `late`, `busy`, `error`."""
    skipped: str = ""
    """Why nothing was searched for."""

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure a stage."""
        began = time.perf_counter()
        try:
            yield
        finally:
            spent = (time.perf_counter() - began) * 1000
            self.stages[name] = round(self.stages.get(name, 0.0) + spent, 2)

    def count(self, **numbers: int) -> None:
        """Note sizes and counts; nought is left out."""
        self.counts.update({name: number for name, number in numbers.items() if number})

    def flat(self) -> dict[str, Any]:
        """For the log."""
        out: dict[str, Any] = {"of": self.event, "ms": dict(self.stages)} | self.counts
        if self.skipped:
            out["skipped"] = self.skipped
        if self.degraded:
            out["degraded"] = list(self.degraded)
        return out


class Counters:
    """Over all requests since the start; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._requests: collections.Counter[str] = collections.Counter()
        self._answers: collections.Counter[str] = collections.Counter()
        self._degraded: collections.Counter[str] = collections.Counter()
        self._skipped: collections.Counter[str] = collections.Counter()
        self._stages: dict[str, collections.deque[float]] = {}

    def note(self, trace: Trace) -> None:
        """One more request."""
        with self._lock:
            self._requests[trace.event] += 1
            self._answers[trace.event] += bool(trace.counts.get("shown"))
            self._degraded.update(trace.degraded)
            self._skipped.update([trace.skipped] if trace.skipped else [])
            for name, spent in trace.stages.items():
                self._stages.setdefault(name, collections.deque(maxlen=_KEPT)).append(spent)

    def report(self) -> dict[str, Any]:
        """All of it."""
        with self._lock:
            stages = {name: _spread(list(spent)) for name, spent in sorted(self._stages.items())}
            return {
                "up_seconds": round(time.monotonic() - self._began, 1),
                "requests": dict(self._requests),
                "answered": {name: number for name, number in self._answers.items() if number},
                "skipped": dict(self._skipped),
                "degraded": dict(self._degraded),
                "milliseconds": stages,
            }


def _spread(spent: list[float]) -> dict[str, float]:
    ordered = sorted(spent)
    p95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    return {
        "median": round(statistics.median(ordered), 2),
        "p95": p95,
        "most": ordered[-1],
        "of": len(ordered),
    }
