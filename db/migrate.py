"""Schema and roles: `prepare` does the superuser's part once, `migrate` applies numbered, forward-only migrations, each in
one transaction under a lock, and `check` refuses to work on a schema that is older or newer than this program."""

from __future__ import annotations

import re
from importlib import resources
from typing import NamedTuple

import psycopg

from cems.errors import DatabaseUnavailable, SchemaOutdated, SchemaTooNew
from db.connect import Connection

_FILE = re.compile(r"(\d{4})_(\w+)\.sql")


class Migration(NamedTuple):
    """One numbered step."""

    version: int
    name: str
    sql: bytes


def migrations() -> list[Migration]:
    """Every migration this program knows, in order."""
    found = []
    for file in (resources.files("db") / "migrations").iterdir():
        if match := _FILE.fullmatch(file.name):
            found.append(Migration(int(match[1]), match[2], file.read_bytes()))
    return sorted(found)


def prepare(conn: Connection) -> None:
    """Create roles, schema and extension. Needs a superuser, or a role that may create roles and trusted extensions.

    Raises:
        DatabaseUnavailable: the server lacks pgvector, or the role lacks the rights; the message says which.
    """
    sql = (resources.files("db") / "roles.sql").read_bytes()
    try:
        with conn.transaction():
            conn.execute(sql)
    except psycopg.errors.InsufficientPrivilege as error:
        raise DatabaseUnavailable(
            "this database user may not create the roles cems_owner, cems_writer and cems_reader",
            hint="let an administrator run db/roles.sql in this database once, then grant the three roles to your user",
        ) from error
    except (psycopg.errors.UndefinedFile, psycopg.errors.FeatureNotSupported) as error:
        raise DatabaseUnavailable(
            "this Postgres has no pgvector extension", hint="install pgvector 0.8 or newer on the server"
        ) from error


def allow_login(conn: Connection) -> None:
    """Let the roles log in: only on the embedded server, where the socket decides who may be whom."""
    with conn.transaction():
        for role in ("cems_owner", "cems_writer", "cems_reader"):
            conn.execute(f"alter role {role} login".encode())


def current_version(conn: Connection) -> int:
    """The newest migration applied; 0 for a database without the schema."""
    row = conn.execute("select to_regclass('cems.schema_migration') as found").fetchone()
    if not row or row["found"] is None:
        return 0
    row = conn.execute("select coalesce(max(version), 0) as version from cems.schema_migration").fetchone()
    return int(row["version"]) if row else 0


def migrate(conn: Connection, target: int | None = None) -> list[Migration]:
    """Apply what is missing, each migration in its own transaction as cems_owner; returns what was applied.

    Raises:
        SchemaTooNew: the database knows migrations this program does not.
    """
    applied = []
    known = migrations()
    if current_version(conn) > known[-1].version:
        raise SchemaTooNew()
    for migration in known:
        if target is not None and migration.version > target:
            break
        with conn.transaction():
            conn.execute(
                "select set_config('role', 'cems_owner', true), set_config('search_path', 'cems, public', true)"
            )
            # One migrating process at a time; a second one finds the work done.
            conn.execute(
                "create table if not exists schema_migration (version integer primary key, name text not null,"
                " applied_at timestamptz not null default now())"
            )
            conn.execute("grant select on schema_migration to cems_writer, cems_reader")
            conn.execute("lock table schema_migration in access exclusive mode")
            if current_version(conn) >= migration.version:
                continue
            conn.execute(migration.sql)
            conn.execute(
                "insert into schema_migration (version, name) values (%s, %s)",
                (migration.version, migration.name),
            )
            applied.append(migration)
    return applied


def check(conn: Connection) -> None:
    """Raise unless the database's schema is exactly this program's.

    Raises:
        SchemaOutdated, SchemaTooNew: with what to do.
    """
    found, wanted = current_version(conn), migrations()[-1].version
    if found < wanted:
        raise SchemaOutdated(f"the database's schema is version {found}, this program needs {wanted}")
    if found > wanted:
        raise SchemaTooNew(f"the database's schema is version {found}, this program knows {wanted}")
