"""Waiting for facts: a test that needs another process to get somewhere asks until it is so, and fails at a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(fact: Callable[[], T], seconds: float = 20.0, what: str = "", *, every: float = 0.02) -> T:
    """What `fact` returns as soon as it is true.

    Raises:
        TimeoutError: it was not within the time; says what was waited for and what was seen last.
    """
    deadline = time.monotonic() + seconds
    while not (seen := fact()):
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"not within {seconds:g} s: {what or getattr(fact, '__name__', fact)} (last: {seen!r})"
            )
        time.sleep(every)
    return seen
