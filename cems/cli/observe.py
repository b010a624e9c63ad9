"""`cems observe`: the observer as a process of its own, and one run of it with a report. One at a time for a home; it ends in
time when it is asked to, whatever it is waiting for."""

from __future__ import annotations

import datetime as dt
import os
import sys
import threading
import time
from typing import Any

import click

from cems import settings as configuration
from cems.cli import output
from cems.cli.processes import Asked, held, reviving
from cems.cli.stopping import Stopping
from cems.notify import Service
from cems.settings import Settings

NAME = "observer"


@click.command()
@click.option("--once", is_flag=True, help="Read, observe and embed all there is, print a report, and end.")
@click.option("--wait", is_flag=True, help="Where another observer runs: wait for it to end, then take over.")
@click.option("--while-parent-lives", is_flag=True, hidden=True, help="End when standard input ends.")
@output.json_option
def observe(once: bool, wait: bool, while_parent_lives: bool, as_json: bool) -> int:
    """Turn session transcripts into memories: now and, without --once, for as long as it runs.

    Killed at any moment it loses nothing: the next run goes on where this one was. While the database or the model is
    away, it waits.

    \b
    Examples:
      cems observe --once            everything there is, then a report
      cems observe                   keep watching; Ctrl-C ends it
    """
    from cems import logs

    settings = configuration.load()
    quiet = once and sys.stderr.isatty() and settings.log_level == "info"
    logs.configure("warning" if quiet else settings.log_level, settings.log_format)
    # A daemon that is asked to end and does has done what it should; a run that is interrupted has not.
    parent = sys.stdin.fileno() if while_parent_lives else None
    with Stopping(exit_code=lambda number: 128 + number if once else 0, parent=parent) as stopping:
        try:
            with held(settings.home, NAME, stopping, wait=wait):
                return run_once(settings, stopping, as_json) if once else run(settings, stopping, as_json)
        except Asked:
            return 0


def run_once(settings: Settings, stopping: Stopping, as_json: bool, *, written_since: float = 0.0) -> int:
    """One run over everything, under the home's lock, with progress on a terminal and a report at the end."""
    from cems.cli import progress, report
    from db import access
    from db.ledger import Caps
    from observer import start

    began, show = time.monotonic(), sys.stderr.isatty()
    with access.database(settings, "cems_writer", progress=output.note) as db:
        with progress.fetching(show) as fetching:
            parts = start.process(db, settings, watch=False, fetching=fetching, written_since=written_since)
            if parts[3]:
                parts[3].ready()  # its progress is shown here; a daemon fetches beside its work
        process, work = parts[0], report.Work(*parts[1:])
        stopping.then(process.shutdown)
        model_id = _model_of(settings) if work.embedding else None
        with progress.watching(
            db, work, model_id, work.capture.pending_bytes() if show else 0, show
        ) as landed:
            process.run_once(landed)
        now = dt.datetime.now(dt.UTC)
        caps = Caps(settings.llm_daily_calls, settings.llm_daily_tokens)
        outcome = report.document(work, time.monotonic() - began, report.waiting(db, caps, now))
    if stopping.signal:
        outcome["interrupted"] = True
    if as_json:
        output.document(outcome)
    else:
        report.show(outcome, now)
    return 128 + stopping.signal if stopping.signal else 0


def run(settings: Settings, stopping: Stopping, as_json: bool) -> int:
    """The daemon, under the home's lock, until it is asked to end."""
    import structlog

    from cems.cli import report
    from cems.errors import DatabaseUnavailable
    from db import access
    from observer import start
    from observer.process import LOOPS

    log, began = structlog.get_logger(), time.monotonic()
    service = Service(LOOPS)
    service.ready("beginning")
    stopping.then(service.stopping)
    try:
        db = access.reach(
            settings,
            stopping.event,
            progress=lambda message: log.info(message),
            waiting=lambda: service.beat_all("the database does not answer; waiting"),
        )
    except DatabaseUnavailable:
        if stopping.event.is_set():
            return 0
        raise
    with db, reviving(settings, stopping):
        process, capture, observing, embedding = start.process(db, settings, service=service)
        work = report.Work(capture, observing, embedding)
        stopping.then(process.shutdown)
        log.info(
            "observing",
            folders=[str(folder) for folder in settings.claude_dirs()],
            by=start.extractor(settings).author,
        )
        process.run(lambda: log.info("every transcript was looked at once", **_summary(work)))
    outcome = report.document(work, time.monotonic() - began, {})
    del outcome["waiting"]
    log.info("ended", **_summary(work))
    if as_json:
        output.document(outcome)
    if any(thread.name == "observing" for thread in threading.enumerate()):
        # A call that hangs would hold up the end of the process; its batch is under a lease and is tried again.
        sys.stdout.flush()
        os._exit(0)
    return 0


def _summary(work: Any) -> dict[str, Any]:
    seen, made = work.capture.report, work.observing.report
    return {
        "transcripts": seen.transcripts,
        "lines_landed": seen.lines_landed,
        "batches": made.batches,
        "memories": sum(made.observations.values()),
    }


def _model_of(settings: Settings) -> str | None:
    from cems.cli.status_read import embedding_model

    return embedding_model(settings)
