"""`cems db run`: the embedded Postgres as a service in the foreground. Postgres belongs to no process; this one starts it,
watches it, starts it again when it was killed, and stops it in order when it is asked to end."""

from __future__ import annotations

import click

from cems import settings as configuration
from cems.cli.processes import Asked, held, was_killed
from cems.cli.stopping import Stopping
from cems.errors import UsageError
from cems.notify import Service
from cems.settings import Settings

NAME = "database"
_LOOK = 2.0
"""Seconds between two looks."""
_PATIENCE = 80.0
"""Seconds the server may take to end; systemd waits a little longer."""


@click.command()
def run() -> int:
    """Run the embedded Postgres in the foreground, until asked to end or until `cems db stop`.

    This is what the service `cems-postgres` runs.
    """
    from cems import logs

    settings = configuration.load()
    if settings.database_url:
        raise UsageError("there is no embedded Postgres to run: CEMS_DATABASE_URL names another server")
    logs.configure(settings.log_level, settings.log_format)
    with Stopping(exit_code=lambda _: 0, patience=_PATIENCE) as stopping:
        try:
            with held(settings.home, NAME, stopping):
                return _run(settings, stopping)
        except Asked:
            return 0


def _run(settings: Settings, stopping: Stopping) -> int:
    import logging

    import structlog

    from db import access, embedded

    logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # its pool logs each try
    log, service = structlog.get_logger(), Service({"database": 60.0})
    stopping.then(service.stopping)
    with access.database(settings, "cems_writer", progress=lambda message: log.info(message)) as db:
        info = embedded.status(settings.home)
        log.info("Postgres runs", version=info.version, process=info.pid)
        service.ready(f"Postgres {info.version} accepts connections")
        while not stopping.wait(_LOOK):
            if was_killed(settings.home):
                log.warning("Postgres was killed; starting it again")
                embedded.start(settings.home)
            elif embedded.status(settings.home).pid is None:
                log.info("Postgres was stopped by someone else")
                return 0
            elif db.reachable():
                service.beat("database")
    embedded.stop(settings.home)
    log.info("Postgres has stopped")
    return 0
