"""Fixtures every test may use: one real Postgres for a test process, a fresh database from a template for each test that
touches data, a home folder, and the clock."""

from __future__ import annotations

import datetime as dt
import itertools
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from cems.settings import Settings
from cems.settings import load as load_settings
from db import embedded, migrate
from db.access import owner_id
from db.connect import Access, Connection, Database, Role, connect
from db.embedded import ServerInfo

TEMPLATE = "cems_template"
_numbers = itertools.count()


class FakeClock:
    """A clock that moves when it is told to."""

    def __init__(self, now: dt.datetime | None = None) -> None:
        self.time = now or dt.datetime(2026, 11, 30, 12, 0, tzinfo=dt.UTC)
        self.ticks = 0.0

    def now(self) -> dt.datetime:
        return self.time

    def monotonic(self) -> float:
        return self.ticks

    def advance(self, seconds: float) -> None:
        self.time += dt.timedelta(seconds=seconds)
        self.ticks += seconds


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(scope="session")
def server() -> Iterator[ServerInfo]:
    """A private Postgres, faster and less durable than the product's own."""
    home = Path(tempfile.mkdtemp(prefix="cems-test-", dir="/tmp"))
    info = embedded.start(
        home,
        settings={
            "fsync": "off",
            "synchronous_commit": "off",
            "full_page_writes": "off",
            "max_connections": "80",
        },
    )
    try:
        yield info
    finally:
        embedded.stop(home, mode="immediate")
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def template(server: ServerInfo) -> str:
    """Name of a database with the schema, to make others from."""
    with admin(server, "postgres") as conn:
        conn.execute(f"create database {TEMPLATE}".encode())
    with admin(server, TEMPLATE) as conn:
        migrate.prepare(conn)
        migrate.allow_login(conn)
        migrate.migrate(conn)
    return TEMPLATE


def admin(server: ServerInfo, dbname: str) -> Connection:
    """A superuser's connection."""
    return connect(Access(server.dsn(embedded.SUPERUSER, dbname), "cems_owner", uuid.UUID(int=0)))


@pytest.fixture
def dbname(server: ServerInfo, template: str) -> Iterator[str]:
    """A fresh database with the schema."""
    name = f"t_{os.getpid()}_{next(_numbers)}"
    with admin(server, "postgres") as conn:
        conn.execute(f"create database {name} template {template}".encode())
        # A template gives its objects, not the rights on the database itself, which `roles.sql` sets.
        conn.execute(f"revoke temporary on database {name} from public".encode())
    yield name
    with admin(server, "postgres") as conn:
        conn.execute(f"drop database if exists {name} with (force)".encode())


@pytest.fixture
def db_url(server: ServerInfo, dbname: str) -> str:
    """The database as another program names it, for CEMS_DATABASE_URL."""
    return f"postgresql:///{dbname}?host={server.socket_dir}&port={server.port}&user={embedded.SUPERUSER}"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder for one test."""
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def config_dir(tmp_path: Path) -> Path:
    """An empty configuration folder of the agent."""
    folder = tmp_path / "claude"
    (folder / "projects").mkdir(parents=True)
    return folder


@pytest.fixture
def environment(home: Path, db_url: str, config_dir: Path) -> dict[str, str]:
    """The environment of a process under test: its own home and database, no key, no embedder."""
    keep = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV")}
    return keep | {
        "CEMS_HOME": str(home),
        "CEMS_DATABASE_URL": db_url,
        "CEMS_OWNER": "tester",
        "CLAUDE_CONFIG_DIR": str(config_dir),
        "CEMS_EMBEDDER": "none",
    }


@pytest.fixture
def settings(environment: dict[str, str]) -> Settings:
    return load_settings(environment)


def open_role(server: ServerInfo, dbname: str, settings: Settings, role: Role) -> Database:
    """A pool that logs in as the role itself."""
    return Database(Access(server.dsn(role, dbname), role, owner_id(settings)))


@pytest.fixture
def db(server: ServerInfo, dbname: str, settings: Settings) -> Iterator[Database]:
    """The writer's way in."""
    with open_role(server, dbname, settings, "cems_writer") as found:
        yield found


@pytest.fixture
def reader(server: ServerInfo, dbname: str, settings: Settings) -> Iterator[Database]:
    """The reader's way in."""
    with open_role(server, dbname, settings, "cems_reader") as found:
        yield found


@pytest.fixture
def sql(server: ServerInfo, dbname: str) -> Iterator[Connection]:
    """A superuser's connection to the test's database, past every policy; for looking, not for working."""
    conn = psycopg.Connection.connect(
        server.dsn(embedded.SUPERUSER, dbname), autocommit=True, options="-c search_path=cems,public"
    )
    conn.row_factory = psycopg.rows.dict_row  # type: ignore[assignment]
    with conn:
        yield conn  # type: ignore[misc]
