"""`cems status`: what runs, what waits, what is stored. It starts nothing and changes nothing."""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
import sys
import time

import click

from cems import settings as configuration
from cems.cli import output
from cems.errors import UsageError

INTERVAL = 2.0


@click.command()
@click.option("--watch", is_flag=True, help="Look again every two seconds, until Ctrl-C.")
@output.json_option
def status(watch: bool, as_json: bool) -> int:
    """Show what runs, what waits, what is stored, and what it costs.

    Exit code 0: healthy; 1: the database or the observer does not run, transcripts wait for more than an hour, or a
    maintenance job failed, got stuck, or has been due for a day with no worker to run it. Things that are set aside do not
    make it unhealthy.

    \b
    Examples:
      cems status
      cems status --json | jq .queue
    """
    from cems.cli import status_read, status_text

    if watch and as_json:
        raise UsageError("--watch and --json exclude each other", hint="--json gives one document")
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)
    settings = configuration.load()
    while True:
        found = status_read.read(settings, dt.datetime.now(dt.UTC))
        if as_json:
            output.document(found)
        else:
            console = output.console()
            if watch and sys.stdout.isatty():
                console.clear()
            status_text.show(console, found)
        if not watch:
            return 0 if found["healthy"] else 1
        with contextlib.suppress(KeyboardInterrupt):
            time.sleep(INTERVAL)
            continue
        return 0 if found["healthy"] else 1
