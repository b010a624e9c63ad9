"""Work with a deadline. What may hang (a database that is stopped, a model, a file on a network that is gone) runs in one of
a few threads; who asked for it is told when it is late and goes on. The thread is left to end by itself, and until then its
place is taken: when all are, nothing more is begun. So a stuck neighbour costs a bounded number of threads and no time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Late(Exception):
    """The work was not done in time, or could not be begun because earlier work is stuck."""


class Pending(Generic[T]):
    """Work that was begun."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._done = threading.Event()
        self._result: list[T] = []
        self._error: BaseException | None = None

    def result(self, seconds: float) -> T:
        """What the work returns or raises, when it does so within this time from now.

        Raises:
            Late: it did not.
        """
        if not self._done.wait(seconds):
            raise Late(self._name)
        if self._error is not None:
            raise self._error
        return self._result[0]

    def do(self, work: Callable[[], T]) -> None:
        """Run it; for the thread whose work it is."""
        try:
            self._result.append(work())
        except BaseException as error:  # noqa: BLE001 - it is raised again in the thread that asked
            self._error = error
        finally:
            self._done.set()


class Bounded:
    """A few places for work."""

    def __init__(self, name: str, places: int) -> None:
        self._name = name
        self._places = threading.BoundedSemaphore(places)

    def begin(self, work: Callable[[], T]) -> Pending[T]:
        """Begin work in a thread of its own.

        Raises:
            Late: every place is taken.
        """
        if not self._places.acquire(blocking=False):
            raise Late(self._name)
        pending: Pending[T] = Pending(self._name)

        def body() -> None:
            try:
                pending.do(work)
            finally:
                self._places.release()

        threading.Thread(target=body, name=f"cems-{self._name}", daemon=True).start()
        return pending

    def run(self, work: Callable[[], T], seconds: float) -> T:
        """What `work` returns or raises, when it does so in time.

        Raises:
            Late: it did not, or every place is taken.
        """
        return self.begin(work).result(seconds)
