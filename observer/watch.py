"""Watching: file events as hints that there is something to look at. An event says "look", never "what"; events may be
missed, and the regular scan finds what they missed. A watcher that cannot start, or that died, costs latency only."""

from __future__ import annotations

import threading
from pathlib import Path

import structlog
from watchdog.events import (
    DirCreatedEvent,
    FileCreatedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

log = structlog.get_logger()
# Only what a writer causes: our own reading opens and closes files too, and must not wake us.
_EVENTS: list[type[FileSystemEvent]] = [FileCreatedEvent, FileModifiedEvent, FileMovedEvent, DirCreatedEvent]


class _Wake(FileSystemEventHandler):
    """Sets the event and can do nothing else, because an exception here would silently end watchdog's thread."""

    def __init__(self, wake: threading.Event) -> None:
        self._wake = wake

    def dispatch(self, event: FileSystemEvent) -> None:
        self._wake.set()


class Watcher:
    """Watches some roots, each by its real path, and sets `wake` when something changes below one."""

    def __init__(self, roots: list[Path]) -> None:
        self.wake = threading.Event()
        self._roots = roots
        self._observer: BaseObserver | None = None
        self._watched: dict[Path, int] = {}
        self._complained = False

    def ensure(self) -> bool:
        """Start watching, or start anew what died or whose folder came back; True where every root that exists is
        watched. Called before each scan, which covers the gap."""
        present = {root: root.stat().st_ino for root in self._roots if root.is_dir()}
        if self._observer is not None and self.alive() and present == self._watched:
            return True
        self.stop()
        observer = Observer()
        try:
            for root in present:
                observer.schedule(_Wake(self.wake), str(root), recursive=True, event_filter=_EVENTS)
            observer.start()
        except OSError as error:
            observer.unschedule_all()  # those that did start would stay for ever
            if not self._complained:
                self._complained = True
                log.warning(
                    "files cannot be watched; looking at them at each poll instead",
                    reason=error.strerror or str(error),
                )
            return False
        self._observer, self._watched = observer, present
        self._complained = False
        return True

    def alive(self) -> bool:
        """Whether all of watchdog's threads run; they die of their own errors without a word."""
        observer = self._observer
        return observer is not None and observer.is_alive() and all(e.is_alive() for e in observer.emitters)

    def stop(self) -> None:
        """Stop watching."""
        observer, self._observer = self._observer, None
        self._watched = {}
        if observer is not None and observer.is_alive():
            observer.stop()
            observer.join(timeout=5)
