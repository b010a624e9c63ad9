"""Ending on SIGINT, SIGTERM and SIGHUP, in time. A signal handler may run between any two instructions, where taking a lock can
block for ever; so the handler does nothing, Python writes the signal's number into a pipe, and a thread that reads the pipe
asks the work to end. Work that does not end is left: everything this program does survives being killed."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType

PATIENCE = 9.0
"""Seconds the work may take to end."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""A closed terminal sends the last one; where it is ignored, as under nohup, it stays so."""


class Stopping:
    """Whether this process was asked to end, and by what. Use as a context manager, in the main thread."""

    def __init__(
        self, *, exit_code: Callable[[int], int], parent: int | None = None, patience: float = PATIENCE
    ) -> None:
        """Args:
        exit_code: of the process when it must be left, given the signal's number.
        parent: a file descriptor whose end means that whoever started this process is gone.
        """
        self.event = threading.Event()
        self.signal = 0
        self._exit_code = exit_code
        self._parent = parent
        self._patience = patience
        self._actions: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Stopping:
        for number in _SIGNALS:
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue
            self._before[number] = signal.signal(number, _note)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        threading.Thread(target=self._listen, name="stopping", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        os.close(self._write)  # ends the thread

    def then(self, action: Callable[[], None]) -> None:
        """Call this when the process is asked to end; at once where it was already."""
        with self._lock:
            self._actions.append(action)
            asked = self.event.is_set()
        if asked:
            action()

    def wait(self, seconds: float) -> bool:
        """Sleep, at most until the process is asked to end; returns whether it is."""
        return self.event.wait(seconds)

    def _listen(self) -> None:
        watched = [self._read] + ([self._parent] if self._parent is not None else [])
        while True:
            timeout = self._patience if self.event.is_set() else None
            ready, _, _ = select.select(watched, [], [], timeout)
            if not ready:
                self._leave()
            if self._parent is not None and self._parent in ready:
                if not os.read(self._parent, 4096):
                    watched.remove(self._parent)
                    self._ask(signal.SIGTERM)
                continue
            numbers = os.read(self._read, 64)
            if not numbers:  # the block was left
                os.close(self._read)
                return
            for number in numbers:
                if number in _SIGNALS and self.event.is_set():
                    self._leave()  # asked twice: now
                elif number in _SIGNALS:
                    self._ask(number)

    def _ask(self, number: int) -> None:
        with self._lock:
            if self.event.is_set():
                return
            self.signal = number
            self.event.set()
            actions = list(self._actions)
        for action in actions:
            action()

    def _leave(self) -> None:
        if sys.stderr.isatty():
            sys.stderr.write("\x1b[?25h")  # a progress bar hides the cursor
            sys.stderr.flush()
        os._exit(self._exit_code(self.signal))


def _note(_number: int, _frame: FrameType | None) -> None:
    """Nothing: the wake-up pipe tells the thread."""
