"""Connections and transactions. A `Database` is one role's way in: a small pool, an owner, and `transaction()`, the only
place where work with the database begins. Each transaction sets its own role, owner and search path with transaction
scope, so nothing depends on session state and a pooler fits in between."""

from __future__ import annotations

import contextlib
import dataclasses
import time
import uuid
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import psycopg
from pgvector.psycopg import register_vector
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool, PoolTimeout

from cems.errors import DatabaseUnavailable

Role = Literal["cems_owner", "cems_writer", "cems_reader"]
Row = dict[str, Any]
Connection = psycopg.Connection[Row]

OUTAGES = (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout, DatabaseUnavailable)
"""What a database that is away, restarting, out of space or locked raises: wait and try again, nothing was written."""

REFUSALS = (psycopg.DataError, psycopg.errors.CheckViolation, psycopg.errors.ProgramLimitExceeded)
"""What Postgres raises for a value it cannot hold: the same write will never succeed. Caught before OUTAGES, of which
some are a kind."""

CHECK_AFTER = 5.0
"""Seconds without use after which a pooled connection is looked at before it is used."""
_used_at: weakref.WeakKeyDictionary[Connection, float] = weakref.WeakKeyDictionary()

# Here as well as in roles.sql: who logs in as somebody else does not get the role's own settings.
_TIMEOUTS: dict[Role, tuple[str, str]] = {
    "cems_owner": ("0", "0"),
    "cems_writer": ("2s", "30s"),
    "cems_reader": ("0", "2s"),
}


@dataclasses.dataclass(frozen=True)
class Access:
    """How to reach the database: a conninfo, the role to act as, and whose memories."""

    conninfo: str
    role: Role
    owner_id: uuid.UUID
    embedded: bool = True
    """On the embedded server sessions log in as the role itself, and prepared statements are safe."""

    @property
    def options(self) -> dict[str, Any]:
        """Keyword arguments of `psycopg.connect`."""
        options: dict[str, Any] = {
            "autocommit": True,
            "row_factory": dict_row,
            "connect_timeout": 5,
            "application_name": f"cems {self.role}",
        }
        if not self.embedded:
            options["prepare_threshold"] = None
            options |= {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
        return options


class Database:
    """One role's pool. Opens lazily; use as a context manager, or call `close`."""

    def __init__(self, access: Access, *, size: int = 3, timeout: float = 5.0) -> None:
        self.access = access
        self.owner_id = access.owner_id
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            access.conninfo,
            min_size=0,
            max_size=size,
            open=False,
            timeout=timeout,
            max_idle=120,
            kwargs=access.options,
            configure=_configure,
            check=_check,
            connection_class=Connection,
            reconnect_timeout=2,
        )
        self._opened = False

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._pool.close(timeout=2)

    @contextlib.contextmanager
    def transaction(self, settings: Mapping[str, str] | None = None) -> Iterator[Connection]:
        """A connection inside a transaction, in the scope of this database's role and owner.

        Args:
            settings: of the server, for this transaction; they cost no round trip of their own.

        Raises:
            psycopg.OperationalError, PoolTimeout: the database is away (see OUTAGES).
        """
        if not self._opened:
            self._pool.open(wait=False)
            self._opened = True
        with self._pool.connection() as conn, conn.transaction():
            enter_scope(conn, self.access.role, self.owner_id, settings)
            yield conn

    def reachable(self) -> bool:
        """Whether the database answers now."""
        try:
            with self.transaction() as conn:
                conn.execute("select 1")
        except OUTAGES:
            return False
        return True


def enter_scope(
    conn: Connection, role: Role, owner_id: uuid.UUID, settings: Mapping[str, str] | None = None
) -> None:
    """Set role, owner and search path for the transaction that is open, and what else is wanted for it."""
    lock, statement = _TIMEOUTS[role]
    scope = {
        "role": role,
        "cems.owner_id": str(owner_id),
        "search_path": "cems, public",
        "lock_timeout": lock,
        "statement_timeout": statement,
    }
    set_for_transaction(conn, {**scope, **(settings or {})})


def set_for_transaction(conn: Connection, settings: Mapping[str, str]) -> None:
    """Set these of the server's settings until the transaction ends, in one statement."""
    each = b", ".join([b"set_config(%s, %s, true)"] * len(settings))
    conn.execute(b"select " + each, [part for pair in settings.items() for part in pair])


def connect(access: Access) -> Connection:
    """One connection outside any pool.

    Raises:
        DatabaseUnavailable: nothing answers there.
    """
    try:
        return Connection.connect(access.conninfo, **access.options)
    except psycopg.OperationalError as error:
        raise DatabaseUnavailable(f"the database does not answer: {_first_line(error)}") from error


def _check(conn: Connection) -> None:
    """Look whether a pooled connection still lives, unless it was used just now: then its next use will tell."""
    now = time.monotonic()
    if now - _used_at.get(conn, float("-inf")) > CHECK_AFTER:
        ConnectionPool.check_connection(conn)
    _used_at[conn] = now


def _configure(conn: Connection) -> None:
    """Teach a pooled connection the vector types; a database without them yet is used without."""
    with contextlib.suppress(psycopg.ProgrammingError):
        register_vector(conn)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
