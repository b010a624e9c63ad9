"""From settings to a database that is ready: the embedded server is started and brought up to date on the way, another
server is only checked, because whoever shares it decides when its schema changes."""

from __future__ import annotations

import getpass
import os
import random
import threading
import uuid
from collections.abc import Callable

import psycopg
from psycopg.conninfo import make_conninfo

from cems import home
from cems.errors import CemsError, DatabaseUnavailable, SettingsError
from cems.ids import derived
from cems.settings import Settings
from db import embedded, migrate
from db.connect import Access, Connection, Database, Role, connect

DATABASE = "cems"
LONGEST_WAIT = 60.0
"""Seconds between two tries to reach a database that is away, at most."""
Progress = Callable[[str], None]


def quiet(_message: str) -> None:
    """Say nothing."""


def owner_id(settings: Settings) -> uuid.UUID:
    """Whose memories these are: one owner at home, the system user's name on a shared server unless a name is set."""
    name = settings.owner or (_user() if settings.database_url else "me")
    return derived("owner", name)


def access(settings: Settings, role: Role, *, start: bool = True, progress: Progress = quiet) -> Access:
    """How to reach a database that is ready for this program.

    Args:
        role: what to act as.
        start: start the embedded server where it does not run, and bring its schema up to date.
        progress: told what takes a while.

    Raises:
        DatabaseUnavailable, EmbeddedPostgresError: it cannot be reached or started.
        SchemaOutdated, SchemaTooNew: it is another version's.
    """
    owner = owner_id(settings)
    if settings.database_url:
        url = (
            settings.reader_database_url
            if role == "cems_reader" and settings.reader_database_url
            else settings.database_url
        )
        found = Access(url, role, owner, embedded=False)
        with connect_checked(found) as conn:
            migrate.check(conn)
        return found
    info = embedded.status(settings.home)
    if not info.running:
        if not start:
            raise DatabaseUnavailable(
                "the embedded Postgres is not running", hint="`cems db start`, or `cems up` for everything"
            )
        home.ensure(settings.home)
        info = embedded.start(settings.home, progress=progress)
    found = Access(info.dsn(role, DATABASE), role, owner)
    if not start:
        with connect(found) as conn:
            migrate.check(conn)
    elif not _is_current(found):
        bring_up(settings, progress=progress)
    return found


def database(
    settings: Settings, role: Role, *, start: bool = True, size: int = 3, progress: Progress = quiet
) -> Database:
    """A pool of this role's connections; see `access` for what is raised."""
    return Database(access(settings, role, start=start, progress=progress), size=size)


def reach(
    settings: Settings,
    stop: threading.Event,
    *,
    progress: Progress = quiet,
    waiting: Callable[[], None] = lambda: None,
) -> Database:
    """The writer's way into the database. While it is away, wait for it: 0.5 s, doubling up to a minute, jittered; `waiting`
    is called before each wait.

    Raises:
        DatabaseUnavailable: it was still away when `stop` was set.
        EmbeddedPostgresError, SchemaOutdated, SchemaTooNew: waiting does not help.
    """
    import structlog  # only daemons wait

    wait = 0.5
    while True:
        try:
            return database(settings, "cems_writer", progress=progress)
        except DatabaseUnavailable as error:
            if stop.is_set():
                raise
            if wait == 0.5:
                structlog.get_logger().warning(
                    "degraded: the database does not answer; waiting", reason=str(error)
                )
        waiting()
        stop.wait(wait * random.uniform(0.5, 1.0))
        wait = min(LONGEST_WAIT, wait * 2)


def bring_up(settings: Settings, *, progress: Progress = quiet) -> list[migrate.Migration]:
    """Create or migrate the database: roles, extension, schema. Returns the migrations applied."""
    if settings.database_url:
        with connect_checked(
            Access(settings.database_url, "cems_owner", owner_id(settings), embedded=False)
        ) as conn:
            if migrate.current_version(conn) == 0:
                _wanted_versions(conn)
                migrate.prepare(conn)
            return migrate.migrate(conn)
    with home.waiting(settings.home, "migrate"):
        info = embedded.start(settings.home, progress=progress)
        with connect(
            Access(info.dsn(embedded.SUPERUSER, "postgres"), "cems_owner", owner_id(settings))
        ) as conn:
            if not conn.execute("select 1 from pg_database where datname = %s", (DATABASE,)).fetchone():
                conn.execute(f"create database {DATABASE}".encode())
        with connect(
            Access(info.dsn(embedded.SUPERUSER, DATABASE), "cems_owner", owner_id(settings))
        ) as conn:
            progress("bringing the database's schema up to date")
            migrate.prepare(conn)
            migrate.allow_login(conn)
            return migrate.migrate(conn)


def connect_checked(found: Access) -> Connection:
    """Connect to another server, with an error that says what is wrong with the URL and never shows its password."""
    try:
        make_conninfo(found.conninfo)
    except psycopg.ProgrammingError as error:
        raise SettingsError(
            "CEMS_DATABASE_URL is not a Postgres URL", hint="such as postgresql://user@host/dbname"
        ) from error
    return connect(found)


def _is_current(found: Access) -> bool:
    """Whether the database exists with exactly this program's schema; raises when it is newer."""
    try:
        conn = connect(found)
    except DatabaseUnavailable:
        return False
    with conn:
        version, wanted = migrate.current_version(conn), migrate.migrations()[-1].version
        if version > wanted:
            migrate.check(conn)
        return version == wanted


def _wanted_versions(conn: Connection) -> None:
    """Refuse a server that is too old, before anything is made on it."""
    if conn.info.server_version < 150000:
        raise DatabaseUnavailable(
            f"this is Postgres {conn.info.server_version // 10000}; 15 or newer is needed"
        )
    row = conn.execute("select default_version from pg_available_extensions where name = 'vector'").fetchone()
    version = tuple(int(p) for p in str(row["default_version"]).split(".")[:2]) if row else (0, 0)
    if version < (0, 8):
        have = "no pgvector" if version == (0, 0) else f"pgvector {version[0]}.{version[1]}"
        raise DatabaseUnavailable(f"this server has {have}; 0.8 or newer is needed")


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError) as error:
        raise CemsError(f"the system user {os.getuid()} has no name", hint="set CEMS_OWNER") from error
