"""Time as an argument. Code that needs the time takes a Clock, so that a test can move it; waiting uses the monotonic
clock, so that a wall clock that jumps delays nothing."""

from __future__ import annotations

import datetime as dt
import time
from typing import Protocol


class Clock(Protocol):
    """Where time comes from."""

    def now(self) -> dt.datetime:
        """The wall clock's time, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; only differences mean something."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> dt.datetime:
        """The wall clock's time, aware, in UTC."""
        return dt.datetime.now(dt.UTC)

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()
