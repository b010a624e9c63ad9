"""`cems maintenance`: the jobs by hand, what each run did, and taking a run back."""

from __future__ import annotations

import contextlib
import logging
import sys
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from cems import settings as configuration
from cems.cli import output, scope
from cems.cli.stopping import Stopping
from cems.errors import AlreadyRunning, NotFound, UsageError
from cems.settings import Settings

if TYPE_CHECKING:
    from db.connect import Database
    from db.runs import Job
    from maintenance.start import Ended, Order, Progress

NAMES = ("consolidation", "reflection", "summarization", "reindexing")
"""As `db.runs.JOBS`, which is not imported for `--help`."""
ALL = "all"


@click.command()
@click.option("--job", type=click.Choice((*NAMES, ALL)), help="Run this job now, or all four in order.")
@click.option("--project", "-p", metavar="P", help="Only this project: its name, identity, id or folder.")
@click.option("--history", is_flag=True, help="The runs there were, newest first.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="Of the history.")
@click.option("--show", "shown", metavar="RUN", help="What a run changed, one change after another.")
@click.option("--undo", "undone", metavar="RUN", help="Take back all that a run changed.")
@click.option("--dry-run", is_flag=True, help="With --job or --undo: only say what would be changed.")
@output.json_option
def maintenance(
    job: str | None,
    project: str | None,
    history: bool,
    limit: int,
    shown: str | None,
    undone: str | None,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Run maintenance by hand, see what runs did, and take a run back.

    \b
    The jobs:
      consolidation   merges memories that say the same
      reflection      condenses observations of a project into reflections
      summarization   summarises old memories, archives what ended
      reindexing      checks and rebuilds vectors and indexes, archives stale memories

    \b
    Examples:
      cems maintenance --job consolidation --dry-run     what would be merged; nothing is written
      cems maintenance --job all                         everything, now
      cems maintenance --history                         what ran, by schedule and by hand
      cems maintenance --show 3f1c9a20de                 what a run changed, and why
      cems maintenance --undo 3f1c9a20de                 as if it had not run
    """
    _sensible(job, project, history, shown, undone, dry_run)
    settings = configuration.load()
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)
    if history or shown or undone:
        from cems.cli import maintenance_runs as past

        if shown:
            return past.show(settings, shown, as_json)
        if undone:
            return past.undo(settings, undone, dry_run, as_json)
        return past.history(settings, None if job == ALL else job, limit, as_json)
    assert job is not None
    return _run(settings, NAMES if job == ALL else (job,), project, dry_run, as_json)


def _sensible(
    job: str | None, project: str | None, history: bool, shown: str | None, undone: str | None, dry_run: bool
) -> None:
    scope.only_one(history=history, show=shown, undo=undone)
    if not (job or history or shown or undone):
        raise UsageError(
            "nothing was asked for", hint="give --job to run one, --history, --show or --undo to look back"
        )
    if job and (shown or undone):
        raise UsageError("--job goes with neither --show nor --undo", hint="a run's id says which job it was")
    if project and (history or shown or undone):
        raise UsageError("--project goes with --job only", hint="leave it out")
    if dry_run and (history or shown):
        raise UsageError("--dry-run goes with --job and --undo only", hint="looking changes nothing")


def _run(settings: Settings, names: Sequence[str], project: str | None, dry_run: bool, as_json: bool) -> int:
    """Run jobs one after another; the exit code says whether all of them went well. One of several that runs elsewhere is
    refused, and the others run.

    Raises:
        AlreadyRunning: the only one runs elsewhere.
    """
    from cems import logs
    from cems.cli import maintenance_text
    from cems.cli.reach import database
    from cems.clock import SystemClock
    from maintenance.start import Order, run_job

    quiet = sys.stderr.isatty() and settings.log_level == "info"
    logs.configure("warning" if quiet else settings.log_level, settings.log_format)
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)
    ended: list[Ended] = []
    documents: list[dict[str, Any]] = []
    with (
        Stopping(exit_code=lambda number: 128 + number) as stopping,
        database(settings, "cems_writer") as db,
    ):
        only = _project(db, settings, project)
        for name in names:
            if stopping.event.is_set():
                break
            order = Order(_job(name), project=only, dry_run=dry_run)
            try:
                with _progress(sys.stderr.isatty()) as progress:
                    one = run_job(db, settings, order, SystemClock(), stopping.event, progress=progress)
            except AlreadyRunning as error:
                if len(names) == 1:
                    raise
                documents.append(_refused(order, error, project))
                if not as_json:
                    maintenance_text.refused(output.console(), order.job, str(error))
                continue
            ended.append(one)
            documents.append(document(one, project))
            if not as_json:
                maintenance_text.ended(output.console(), one)
    if as_json:
        output.document(documents[0] if len(names) == 1 and documents else _together(documents, dry_run))
    if stopping.signal:
        return 128 + stopping.signal
    if any(one.outcome == "failed" for one in ended):
        return 1
    return AlreadyRunning.exit_code if len(documents) > len(ended) else 0


def document(one: Ended, project: str | None = None) -> dict[str, Any]:
    """A run, for programs."""
    planned = [
        {"what": p.what, "why": p.why, "memories": list(p.memories), "into": p.into, "title": p.title}
        for p in one.planned
    ]
    return {
        "run": one.run,
        "job": one.order.job,
        "project": project,
        "dry_run": one.order.dry_run,
        "outcome": one.outcome,
        "ended_by": one.ended_by,
        "error": one.error,
        "seconds": round(one.seconds, 3),
        **one.report.to_json(),
        **({"planned": planned} if one.order.dry_run else {}),
    }


def _refused(order: Order, error: AlreadyRunning, project: str | None) -> dict[str, Any]:
    """A run that did not begin, with the keys of one that did."""
    from maintenance.job import Report
    from maintenance.start import Ended

    nothing = document(Ended(order, None, "stopped", Report(), [], 0.0, error=str(error)), project)
    return nothing | {"outcome": "refused"}


_SUMMED = ("seen", "changed", "kept_apart", "failed", "llm_calls", "cost", "waiting", "seconds")
_WORST = ("failed", "refused", "stopped", "done")


def _together(documents: Sequence[dict[str, Any]], dry_run: bool) -> dict[str, Any]:
    """Several runs as one document with the same keys, and each of them below it."""
    outcomes = [one["outcome"] for one in documents]
    return {
        "job": ALL,
        "dry_run": dry_run,
        "outcome": next((o for o in _WORST if o in outcomes), "stopped"),
        **{name: sum(one[name] for one in documents) for name in _SUMMED},
        "runs": list(documents),
    }


def _job(name: str) -> Job:
    from db.runs import JOBS

    return next(job for job in JOBS if job == name)


def _project(db: Database, settings: Settings, wanted: str | None) -> uuid.UUID | None:
    if wanted is None:
        return None
    from db import memories

    known = {row["id"] for row in memories.projects(db)}
    found = [one for one in scope.find_projects(db, settings, wanted) if one in known]
    if not found:
        raise NotFound(f"nothing is known of {wanted}", hint="`cems status` lists the projects")
    return found[0]


@contextlib.contextmanager
def _progress(wanted: bool) -> Iterator[Progress]:
    """Show what a job is at."""
    if not wanted:
        yield lambda what, done, total: None
        return
    from cems.cli.progress import bar

    display = bar()
    task = display.add_task("working", detail="", total=None)

    def told(what: str, done: int, total: int | None) -> None:
        display.update(task, detail=f"{done:,} {what}", completed=done, total=total)

    with display:
        yield told
