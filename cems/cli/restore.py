"""`cems db restore`: a backup becomes the database, while everything goes on running. The file is read into a database beside
the present one and brought up to date there; only then do the two change names. The former one is kept."""

from __future__ import annotations

import contextlib
import datetime as dt
import subprocess
from pathlib import Path

import click
import psycopg
from psycopg import sql

from cems import home
from cems import settings as configuration
from cems.cli import output, tools
from cems.errors import CemsError, NotFound, UsageError
from cems.settings import Settings
from db import access, embedded, migrate
from db.connect import OUTAGES, Access, Connection, connect

_TRIES = 10
"""To change names while others keep coming."""


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--dry-run",
    is_flag=True,
    help="Read the file into a database beside the present one, look at it, and drop it.",
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@output.json_option
def restore(file: Path, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Make the database what it was when FILE was written by `cems db backup`.

    Nothing has to be stopped: who uses the database waits a moment. The database as it is now is kept beside, under another
    name. What was learnt since the backup is learnt again from the transcripts that are still there.

    \b
    Example:
      cems db restore ~/.local/share/cems/backups/cems-2026-11-30T03-00-00.dump
    """
    settings = configuration.load()
    if settings.database_url:
        raise UsageError(
            "a server that others share is restored by its administrator",
            hint=f"into an empty database: pg_restore --no-owner --dbname DATABASE '{file}'",
        )
    if not (dry_run or yes) and not output.confirm(f"Replace the database by {file.name}?"):
        return 1
    stamp = f"{dt.datetime.now(dt.UTC):%Y%m%d%H%M%S}"
    beside, former = f"cems_restored_{stamp}", f"cems_before_{stamp}"
    output.note("reading the backup …")
    found = _read(settings, file, beside)
    if dry_run:
        with _superuser(settings) as conn:
            conn.execute(sql.SQL("drop database {}").format(sql.Identifier(beside)))
    else:
        try:
            _swap(settings, beside, former)
        except CemsError:
            with contextlib.suppress(CemsError, *OUTAGES), _superuser(settings) as conn:
                conn.execute(
                    sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(beside))
                )
            raise
    result = {"file": file, "restored": not dry_run, "former": None if dry_run else former} | found
    if as_json:
        output.document(result)
    else:
        what = f"{found['memories']:,} memories and {found['lines']:,} lines of {file.name}"
        click.echo(f"{what} {'can be restored' if dry_run else 'are back'}.")
        if not dry_run:
            output.note(f"what was there is kept; `cems db psql -c 'drop database {former}'` removes it")
    return 0


def _read(settings: Settings, file: Path, beside: str) -> dict[str, int]:
    """Make a database of the backup, of this program's schema; counts of what is in it. Leaves nothing where it fails."""
    program = tools.program("pg_restore", settings)
    if program is None:
        raise NotFound("there is no pg_restore here", hint="install Postgres's client programs")
    info = embedded.start(settings.home, progress=output.note)
    with _superuser(settings) as conn:
        conn.execute(sql.SQL("create database {}").format(sql.Identifier(beside)))
    try:
        done = subprocess.run(
            [program, "--exit-on-error", f"--dbname={info.dsn(embedded.SUPERUSER, beside)}", str(file)],
            env=tools.way_in(settings, None).environment,
            capture_output=True,
            check=False,
        )
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines() or [
                "pg_restore did not say why"
            ]
            raise CemsError(f"{file} cannot be restored: {said[0].removeprefix('pg_restore: error: ')}")
        with connect(
            Access(info.dsn(embedded.SUPERUSER, beside), "cems_owner", access.owner_id(settings))
        ) as conn:
            if not migrate.current_version(conn):
                raise CemsError(f"{file} is not a backup of this program")
            migrate.prepare(conn)
            migrate.migrate(conn)
            row = conn.execute(
                "select (select count(*) from cems.memory) as memories, (select count(*) from cems.line) as lines"
            ).fetchone()
            assert row is not None
            return dict(row)
    except BaseException:
        with _superuser(settings) as conn:
            conn.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(beside)))
        raise


def _swap(settings: Settings, beside: str, former: str) -> None:
    """The two databases change names, both or neither. Connections to the present one are ended; whoever held them comes back,
    and whoever would make a database where there is none waits."""
    with home.waiting(settings.home, "migrate"), _superuser(settings) as conn:
        for left in reversed(range(_TRIES)):
            try:
                _rename(conn, beside, former)
                return
            except psycopg.errors.ObjectInUse as error:  # somebody connected in between
                if not left:
                    raise _not_swapped(error, former) from error
            except psycopg.Error as error:
                raise _not_swapped(error, former) from error


def _rename(conn: Connection, beside: str, former: str) -> None:
    name = access.DATABASE
    with conn.transaction():
        if conn.execute("select 1 from pg_database where datname = %s", (name,)).fetchone():
            _rename_one(conn, name, former)
        _rename_one(conn, beside, name)


def _rename_one(conn: Connection, before: str, after: str) -> None:
    # Not waited for: the renaming waits itself, and holds off who would connect meanwhile.
    conn.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (before,))
    conn.execute(
        sql.SQL("alter database {} rename to {}").format(sql.Identifier(before), sql.Identifier(after))
    )


def _not_swapped(error: psycopg.Error, former: str) -> CemsError:
    return CemsError(
        f"the databases could not change names: {str(error).strip().splitlines()[0]}",
        hint=f"nothing is lost: what was there is still `{access.DATABASE}`, or `{former}` where `cems db psql -l` lists that",
    )


def _superuser(settings: Settings) -> Connection:
    info = embedded.start(settings.home, progress=output.note)
    return connect(Access(info.dsn(embedded.SUPERUSER, "postgres"), "cems_owner", access.owner_id(settings)))
