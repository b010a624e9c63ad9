"""`cems up`: everything in the foreground, for machines without systemd and for a first try. Each part is a process of its
own, started again when it dies; Ctrl-C ends them in order, and with them the database if it was started here."""

from __future__ import annotations

import datetime as dt
import sys
from typing import Any

import click

from cems import __version__, home
from cems import settings as configuration
from cems.cli import output
from cems.cli.children import Child, Family
from cems.cli.processes import Asked, held, holder, was_killed
from cems.cli.stopping import Stopping
from cems.errors import AlreadyRunning
from cems.settings import Settings

CHILDREN: tuple[Child, ...] = (
    Child("observer", ("observe", "--wait", "--while-parent-lives")),
    Child("recall", ("recall", "--wait", "--while-parent-lives")),
    Child("maintenance", ("maintain", "--wait", "--while-parent-lives")),
)
"""What runs beside the database, in the order in which it is started; ended in the opposite one."""
_PATIENCE = 80.0
"""Seconds for all children and the database to end before this process is left."""
_LOOK_AT_DATABASE = 5.0


@click.command()
@output.json_option
def up(as_json: bool) -> int:
    """Run database, observer, recall and maintenance in the foreground; Ctrl-C ends everything that was started here.

    With --json one document says what runs, as soon as it does.

    \b
    Example:
      cems up
    """
    from maintenance import schedule

    settings = configuration.load()
    schedule.of(settings)  # what no worker could use is said before anything is started
    home.ensure(settings.home)
    with Stopping(exit_code=lambda number: 128 + number, patience=_PATIENCE) as stopping:
        try:
            with held(settings.home, "up", stopping):
                return _run(settings, stopping, as_json)
        except Asked:
            return 0
        except AlreadyRunning as error:
            if (pid := holder(settings.home, "up")) is None:
                raise
            raise AlreadyRunning(
                f"`cems up` runs for this home already (process {pid})", hint=error.hint
            ) from None


def _run(settings: Settings, stopping: Stopping, as_json: bool) -> int:
    from db import access, embedded

    started = not settings.database_url and not embedded.status(settings.home).running
    try:
        access.access(settings, "cems_writer", progress=output.note)
        family = Family(CHILDREN, settings)
        _say(settings, started, as_json)
        code = _supervise(settings, family, stopping)
    finally:
        if started:
            output.note("stopping the database")
            embedded.stop(settings.home)
    output.note("everything has ended")
    return code


def _supervise(settings: Settings, family: Family, stopping: Stopping) -> int:
    """Keep the children and the database running until asked to end, or until a child cannot run at all."""
    since_look, code = 0.0, 0
    try:
        family.start()
        while not stopping.wait(family.POLL):
            if (failed := family.look()) is not None:
                output.error(f"{failed.child.name} cannot run with these settings", "its message is above")
                code = failed.code
                break
            since_look += family.POLL
            if since_look >= _LOOK_AT_DATABASE:
                since_look = 0.0
                _revive(settings)
    finally:
        family.stop()
    return code


def _revive(settings: Settings) -> None:
    from cems.errors import EmbeddedPostgresError
    from db import embedded

    if settings.database_url:
        return
    try:
        if was_killed(settings.home):
            output.note("the database was killed; starting it again")
            embedded.start(settings.home)
    except EmbeddedPostgresError as error:
        output.error(str(error), error.hint)


def _say(settings: Settings, started: bool, as_json: bool) -> None:
    """What runs, where, and what to do next."""
    from observer.scan import roots

    folders = [str(root) for root in roots(settings.claude_dirs())]
    missing = [folder for folder in folders if not _is_dir(folder)]
    found: dict[str, Any] = {
        "version": __version__,
        "home": str(settings.home),
        "database": _database(settings),
        "database_started": started,
        "processes": [child.name for child in CHILDREN],
        "folders": folders,
        "written_by": settings.llm_model if settings.gemini_api_key else "rules",
        "embedder": settings.embedder,
    }
    if as_json:
        output.document(found)
        sys.stdout.flush()
        return
    model = (
        found["written_by"]
        if settings.gemini_api_key
        else "rules; set CEMS_GEMINI_API_KEY for finer memories"
    )
    click.echo(f"CEMS {__version__} is running; Ctrl-C ends everything.")
    output.pairs(
        output.console(),
        {
            "home": found["home"],
            "database": f"{found['database']}, {'started now' if started else 'running before'}",
            "reading": "\n".join(f + (" (not there yet)" if f in missing else "") for f in folders),
            "written by": model,
            "embedder": {"local": "bge-small, on this machine", "none": "none: keywords only"}.get(
                settings.embedder, settings.embedding_model
            ),
            "maintenance": _next_job(settings),
            "next": 'in another terminal: `cems status`, `cems search "…"`',
        },
    )
    sys.stdout.flush()


def _next_job(settings: Settings) -> str:
    """The job that the schedules name next."""
    from maintenance import schedule

    now, zone = dt.datetime.now(dt.UTC), schedule.zone(settings)
    coming = [(at, job) for job, plan in schedule.of(settings, zone).items() if (at := plan.next(now))]
    if not coming:
        return "off: no job has a schedule"
    at, job = min(coming)
    return f"{job} next, {at.astimezone(zone):%Y-%m-%d %H:%M} ({schedule.zone_name(zone)})"


def _is_dir(folder: str) -> bool:
    from pathlib import Path

    return Path(folder).is_dir()


def _database(settings: Settings) -> str:
    from db import embedded

    if settings.database_url:
        return "the server of CEMS_DATABASE_URL"
    return f"embedded Postgres {embedded.status(settings.home).version}"
