"""Postgres's own programs, psql and pg_dump, and how they reach the database: no password in an argument, where every user
of the machine could read it."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from cems.cli import output
from cems.errors import DatabaseUnavailable, EmbeddedPostgresError, SettingsError
from cems.settings import Settings
from db import access, embedded


@dataclasses.dataclass(frozen=True)
class WayIn:
    """How a program of Postgres connects."""

    conninfo: str
    environment: dict[str, str]
    shown: str
    """The conninfo as it may be shown."""


def way_in(settings: Settings, role: str | None, *, start: bool = True) -> WayIn:
    """The database as this owner sees it, in the product's schema.

    Args:
        role: act as it; None: the embedded server's superuser, or the user of CEMS_DATABASE_URL.

    Raises:
        DatabaseUnavailable: it does not run; SettingsError: the URL is none.
    """
    # A clean environment for libpq: a PGHOST or PGSERVICE of the user's is meant for another database.
    environment = {
        k: v for k, v in os.environ.items() if not k.startswith("PG") or k in ("PGTZ", "PGCLIENTENCODING")
    }
    options = f"-c search_path=cems,public -c cems.owner_id={access.owner_id(settings)}"
    if settings.database_url:
        try:
            parts = conninfo_to_dict(settings.database_url)
        except psycopg.ProgrammingError as error:
            raise SettingsError(
                "CEMS_DATABASE_URL is not a Postgres URL", hint="such as postgresql://user@host/dbname"
            ) from error
        if password := parts.pop("password", None):
            environment["PGPASSWORD"] = str(password)
        options = " ".join(
            filter(None, (str(parts.pop("options", "") or ""), options, f"-c role={role}" if role else ""))
        )
        conninfo = make_conninfo("", **parts)
    else:
        info = embedded.status(settings.home)
        if not info.running:
            if not (start and info.version):
                raise DatabaseUnavailable("the embedded Postgres is not running", hint="`cems db start`")
            info = embedded.start(settings.home, progress=output.note)
        conninfo = info.dsn(role or embedded.SUPERUSER, access.DATABASE)
    return WayIn(conninfo, environment | {"PGOPTIONS": options}, f'"{conninfo}"')


def program(name: str, settings: Settings) -> Path | None:
    """One of Postgres's programs: the embedded server's own, else the system's; None where there is none."""
    try:
        return embedded.tool(name, settings.home)
    except EmbeddedPostgresError:
        found = shutil.which(name)
        return Path(found) if found else None
