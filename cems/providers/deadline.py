"""A total deadline for calls that have none of their own: name resolution, a server that sends a byte a
second. The call runs in a daemon thread, which is left behind when time is up and never holds the process
open."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class DeadlinePassed(Exception):
    """The call did not end in time; its thread ends by itself, and what it returns is dropped."""


def within(seconds: float, call: Callable[[], T]) -> T:
    """What `call` returns or raises, if it ends within `seconds`.

    Raises:
        DeadlinePassed: it did not. `call` must bound itself too (socket timeouts), or its thread stays.
    """
    box: queue.SimpleQueue[tuple[T, None] | tuple[None, BaseException]] = queue.SimpleQueue()

    def run() -> None:
        try:
            box.put((call(), None))
        except BaseException as error:  # noqa: BLE001 - handed to the waiting thread, which raises it
            box.put((None, error))

    threading.Thread(target=run, name="cems-provider-call", daemon=True).start()
    try:
        value, error = box.get(timeout=max(0.0, seconds))
    except queue.Empty:
        raise DeadlinePassed from None
    if error is not None:
        raise error
    return value  # type: ignore[return-value]  # the pair holds a value when it holds no error
