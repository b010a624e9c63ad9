"""`cems maintain`: the maintenance worker as a process of its own. One for a home; it ends in time when it is asked to, and a
job that it was at goes on at the next start."""

from __future__ import annotations

import contextlib
import logging
import sys

import click

from cems import settings as configuration
from cems.cli.processes import Asked, held, reviving
from cems.cli.stopping import Stopping
from cems.notify import Service
from cems.settings import Settings

NAME = "maintain"
LOOPS = {"maintenance": 240.0}
"""Its one loop, and the seconds after which it is stuck: it looks every minute, and a job gives signs of life between two
requests to a model, each of which may take a minute."""


@click.command()
@click.option("--wait", is_flag=True, help="Where another worker runs: wait for it to end, then take over.")
@click.option("--while-parent-lives", is_flag=True, hidden=True, help="End when standard input ends.")
def maintain(wait: bool, while_parent_lives: bool) -> int:
    """Run the maintenance jobs by their schedules, for as long as it runs.

    What was due while nothing ran, or while the machine slept, is caught up once. Killed at any moment it loses nothing:
    what a job had written stays, and the next run goes on.

    \b
    Examples:
      cems maintain                  work; Ctrl-C ends it
      cems maintenance --job all     the jobs once, now
      cems status                    when each job ran and runs next
    """
    from cems import logs
    from maintenance import schedule

    settings = configuration.load()
    logs.configure(settings.log_level, settings.log_format)
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # its pool logs each try; the worker says it once
    schedule.of(settings)  # raises for what cannot be used, before anything is started
    parent = sys.stdin.fileno() if while_parent_lives else None
    # A daemon that is asked to end and does has done what it should.
    with Stopping(exit_code=lambda _number: 0, parent=parent) as stopping:
        try:
            with held(settings.home, NAME, stopping, wait=wait):
                return run(settings, stopping, revive=not while_parent_lives)
        except Asked:
            return 0


def run(settings: Settings, stopping: Stopping, *, revive: bool = True) -> int:
    """The worker, under the home's lock, until it is asked to end.

    Args:
        revive: start an embedded server again that was killed; `cems up` does that for its children.
    """
    import structlog

    from cems.clock import SystemClock
    from cems.errors import DatabaseUnavailable
    from db import access
    from maintenance import schedule, worker

    log, service = structlog.get_logger(), Service(LOOPS)
    service.ready("beginning")
    stopping.then(service.stopping)

    def alive(status: str) -> None:
        service.beat("maintenance", status)

    try:
        db = access.reach(
            settings,
            stopping.event,
            progress=lambda message: log.info(message),
            waiting=lambda: alive(worker.AWAY),
        )
    except DatabaseUnavailable:
        if stopping.event.is_set():
            return 0
        raise
    with db, reviving(settings, stopping) if revive else contextlib.nullcontext():
        plans = schedule.of(settings)
        log.info(
            "maintaining",
            zone=schedule.zone_name(schedule.zone(settings)),
            **{job: plan.text for job, plan in plans.items()},
        )
        worker.Worker(db, settings, SystemClock(), stopping.event, alive=alive).run()
    log.info("ended")
    return 0
