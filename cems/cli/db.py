"""`cems db`: the database itself. The embedded server is started, stopped and looked at here; migrating, the roles and the way
in with psql serve any server."""

from __future__ import annotations

import os
import sys
from importlib import resources
from typing import TYPE_CHECKING, Any

import click

from cems import home
from cems import settings as configuration
from cems.cli import output
from cems.cli.backup import backup
from cems.cli.db_run import run
from cems.cli.restore import restore
from cems.errors import NotFound, UsageError
from cems.settings import Settings

if TYPE_CHECKING:
    from db.embedded import ServerInfo

ROLES = {
    "cems_owner": "owns the schema and migrates it",
    "cems_writer": "observer, maintenance and command line: reads and writes, deletes memories only",
    "cems_reader": "search and recall: reads memories that are not forgotten, nothing else",
}


@click.group(name="db")
def db() -> None:
    """The database: start, stop, run, psql, backup, restore, migrate."""


db.add_command(backup)
db.add_command(run)
db.add_command(restore)


@db.command()
@output.json_option
def start(as_json: bool) -> None:
    """Start the embedded Postgres, made at the first time, and bring its schema up to date.

    It runs until `cems db stop`, whoever uses it meanwhile.
    """
    settings = _embedded_settings("start")
    from db import access, embedded

    home.ensure(settings.home)
    before = embedded.status(settings.home).running
    access.access(settings, "cems_writer", progress=output.note)
    info = embedded.status(settings.home)
    if as_json:
        output.document(_plain(info) | {"started": not before})
    else:
        click.echo(
            f"Postgres {info.version} {'runs already' if before else 'is running'} (process {info.pid})."
        )


@db.command()
@click.option(
    "--mode",
    type=click.Choice(("smart", "fast", "immediate")),
    default="fast",
    show_default=True,
    help="smart waits for clients to leave; fast ends their transactions; immediate is like a power cut.",
)
@output.json_option
def stop(mode: Any, as_json: bool) -> None:
    """Stop the embedded Postgres. What uses it waits for it to come back."""
    settings = _embedded_settings("stop")
    from db import embedded

    stopped = embedded.stop(settings.home, mode=mode)
    if as_json:
        output.document({"stopped": stopped})
    else:
        click.echo("Postgres has stopped." if stopped else "Postgres was not running.")


@db.command()
@output.json_option
def status(as_json: bool) -> int:
    """Whether the database runs, which version it is, and where it is. Exit code 1 when it does not run."""
    from cems.cli import status_read

    found = status_read.database(configuration.load())
    if as_json:
        output.document(found)
    else:
        from cems.cli.status_text import database_facts, problem_lines

        click.echo("running" if found["running"] else "not running")
        output.pairs(output.console(), database_facts(found))
        problem_lines(output.console(), found["problems"])
    return 0 if found["running"] and not found["problems"] else 1


@db.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--role",
    type=click.Choice(tuple(ROLES)),
    help="Act as this role. Default: the embedded server's superuser.",
)
@click.argument("arguments", metavar="[ARGS]...", nargs=-1, type=click.UNPROCESSED)
def psql(role: str | None, arguments: tuple[str, ...]) -> None:
    """Open psql on the database; ARGS go to psql.

    \b
    Examples:
      cems db psql
      cems db psql -c "select kind, count(*) from memory group by kind"
      cems db psql --role cems_reader
    """
    settings = configuration.load()
    from cems.cli import tools

    found = tools.way_in(settings, role)
    program = tools.program("psql", settings)
    if program is None:
        raise NotFound(
            "there is no psql here", hint=f"install Postgres's client programs, then: psql {found.shown}"
        )
    sys.stdout.flush()
    os.execve(program, [str(program), "-d", found.conninfo, *arguments], found.environment)


@db.command()
@output.json_option
def migrate(as_json: bool) -> None:
    """Bring the schema up to date. The embedded database does this by itself; another server waits for this command.

    Migrations only go forward; make a backup first (`cems db backup`).
    """
    settings = configuration.load()
    from db import access
    from db import migrate as migrations

    applied = access.bring_up(settings, progress=output.note)
    version = migrations.migrations()[-1].version
    if as_json:
        output.document(
            {"applied": [{"version": m.version, "name": m.name} for m in applied], "schema": version}
        )
        return
    for one in applied:
        click.echo(f"applied {one.version:04} {one.name}")
    click.echo(f"The schema is version {version}{'' if applied else ' already'}.")


@db.command()
@click.option("--sql", is_flag=True, help="Print what an administrator runs once in the database.")
@output.json_option
def roles(sql: bool, as_json: bool) -> None:
    """The three roles and what each may do; with --sql the script that makes them.

    \b
    Example, where your database user may not create roles:
      cems db roles --sql | psql -d DATABASE -U ADMINISTRATOR
    """
    script = (resources.files("db") / "roles.sql").read_text()
    if as_json:
        output.document(
            {"roles": [{"name": name, "does": does} for name, does in ROLES.items()]}
            | ({"sql": script} if sql else {})
        )
    elif sql:
        click.echo(script, nl=False)
        click.echo(f"-- Then, for the user in CEMS_DATABASE_URL:\n-- grant {', '.join(ROLES)} to THE_USER;")
    else:
        for name, does in ROLES.items():
            click.echo(f"{name:<12} {does}")


def _embedded_settings(what: str) -> Settings:
    settings = configuration.load()
    if settings.database_url:
        raise UsageError(
            f"there is no embedded Postgres to {what}: CEMS_DATABASE_URL names another server",
            hint="`cems db status` shows whether it answers",
        )
    return settings


def _plain(info: ServerInfo) -> dict[str, Any]:
    return {
        "running": info.running,
        "pid": info.pid,
        "version": info.version,
        "binaries": info.binaries,
        "data": info.data,
        "socket_dir": info.socket_dir,
        "port": info.port,
    }
