"""Work with a deadline. What may hang (a database that is stopped, a model, a file on a network that is gone) runs in one of
a few threads; who asked for it is told when it is late and goes on. The thread is left to end by itself, and until then its
place is taken: when all are, nothing more is begun. So a stuck neighbour costs a bounded number of threads and no time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Late(Exception):
    """The work was not done in time, or could not be begun because earlier work is stuck."""


class Bounded:
    """A few places for work."""

    def __init__(self, name: str, places: int) -> None:
        self._name = name
        self._places = threading.BoundedSemaphore(places)

    def run(self, work: Callable[[], T], seconds: float) -> T:
        """What `work` returns or raises, when it does so in time.

        Raises:
            Late: it did not, or every place is taken.
        """
        if not self._places.acquire(blocking=False):
            raise Late(self._name)
        done = threading.Event()
        results: list[T] = []
        errors: list[BaseException] = []

        def body() -> None:
            try:
                results.append(work())
            except BaseException as error:  # noqa: BLE001 - it is raised again below, in the thread that asked
                errors.append(error)
            finally:
                self._places.release()
                done.set()

        threading.Thread(target=body, name=f"cems-{self._name}", daemon=True).start()
        if not done.wait(seconds):
            raise Late(self._name)
        if errors:
            raise errors[0]
        return results[0]
