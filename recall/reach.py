"""The read side's way to the database, in a hurry: short limits on every statement, a few connections that stay open, and a
database that is away is looked for anew at the next question instead of being waited for."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping

import psycopg

from db.connect import Access, Connection, Database

STATEMENT_MS = 300
LOCK_MS = 100
_LIMITS = {
    "statement_timeout": str(STATEMENT_MS),
    "lock_timeout": str(LOCK_MS),
    "transaction_read_only": "on",
}
_SLOW = (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable)
"""Of OUTAGES, these say that the server is there and busy."""


class HurriedDatabase(Database):
    """A reader's pool whose transactions may take no longer than a prompt waits."""

    def __init__(self, access: Access, *, size: int = 3, timeout: float = 0.3) -> None:
        super().__init__(access, size=size, timeout=timeout)

    @contextlib.contextmanager
    def transaction(self, settings: Mapping[str, str] | None = None) -> Iterator[Connection]:
        """As the base class, within the limits; read-only, beside the role that cannot write anyway."""
        with super().transaction({**(settings or {}), **_LIMITS}) as conn:
            yield conn


class Reach:
    """Keeps one database open, and lets go of it when it fails, so that the next question finds where it is now."""

    def __init__(self, opener: Callable[[], Database]) -> None:
        self._opener = opener
        self._lock = threading.Lock()
        self._db: Database | None = None

    def database(self) -> Database:
        """The database, opened when it is not.

        Raises:
            CemsError, OUTAGES: it is away.
        """
        with self._lock:
            found = self._db
        if found is None:
            found = self._opener()  # outside the lock: it may hang, and then only who asked for it
            with self._lock:
                if self._db is None:
                    self._db = found
                elif self._db is not found:
                    extra, found = found, self._db
                    extra.close()
        return found

    def failed(self, error: Exception) -> None:
        """Let go of the database after an error that says that it is away."""
        if isinstance(error, _SLOW):
            return
        with self._lock:
            lost, self._db = self._db, None
        if lost is not None:
            # Closing waits for the pool's threads; nobody waits for that.
            threading.Thread(target=lost.close, name="cems-close", daemon=True).start()

    def close(self) -> None:
        """Close what is open."""
        with self._lock:
            found, self._db = self._db, None
        if found is not None:
            found.close()
