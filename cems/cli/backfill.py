"""`cems backfill`: learn from the sessions there are. An estimate first, then the same run as `cems observe --once`; what was
interrupted goes on where it was."""

from __future__ import annotations

import datetime as dt
import sys
from typing import Any

import click

from cems import home
from cems import settings as configuration
from cems.cli import output, scope
from cems.errors import UsageError
from cems.settings import Settings


@click.command()
@click.option(
    "--since",
    metavar="WHEN",
    callback=scope.since,
    help="Leave out transcripts last written before this date (2026-11-01) or age (30d).",
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only the estimate.")
@output.json_option
def backfill(since: dt.datetime | None, yes: bool, dry_run: bool, as_json: bool) -> int:
    """Learn from the sessions there are: an estimate first, then, if you agree, the work, with progress.

    It may be interrupted at any time; run again, it goes on where it was. No other observer may run meanwhile.

    \b
    Examples:
      cems backfill --dry-run
      cems backfill --since 90d
    """
    from cems import logs

    if as_json and not (yes or dry_run):
        raise UsageError(
            "with --json nobody is asked", hint="give --yes to begin, or --dry-run for the estimate alone"
        )
    settings = configuration.load()
    logs.configure("warning", settings.log_format)
    written_since = since.timestamp() if since else 0.0
    found = _estimate(settings, written_since)
    if as_json and dry_run:
        output.document(found)
    elif not as_json:
        _show(found)
    if dry_run:
        return 0
    if not found["transcripts"] and not found["waiting"]:
        return _nothing(as_json, found)
    if not yes and not output.confirm("Begin?"):
        click.echo("Nothing was changed.")
        return 0
    return _begin(settings, as_json, written_since)


def _begin(settings: Settings, as_json: bool, written_since: float) -> int:
    from cems.cli import observe
    from cems.cli.processes import Asked, held
    from cems.cli.stopping import Stopping

    with Stopping(exit_code=lambda number: 128 + number) as stopping:
        try:
            with held(settings.home, observe.NAME, stopping):
                return observe.run_once(settings, stopping, as_json, written_since=written_since)
        except Asked:
            return 128 + stopping.signal


def _nothing(as_json: bool, found: dict[str, Any]) -> int:
    if as_json:
        output.document(found | {"transcripts": 0})
    return 0


def _estimate(settings: Settings, written_since: float) -> dict[str, Any]:
    """The estimate, and `waiting`: batches and lines that earlier runs left."""
    from cems.cli import estimate, unread
    from cems.cli.reach import database
    from db import ingest, status

    machine = home.machine_id(settings.home)
    now = dt.datetime.now(dt.UTC)
    with database(settings, "cems_writer", make=True) as db:
        disk = unread.look(settings, ingest.cursors(db, machine), written_since=written_since)
        queue = status.queue(db, now)
        milliseconds = status.call_milliseconds(db, "extraction", now - dt.timedelta(days=30))
    if sys.stderr.isatty() and disk.unread:
        output.note("reading a sample …")
    found = estimate.estimate(settings, disk, estimate.sample(settings, disk, machine), milliseconds)
    return found | {"waiting": queue["pending"] + queue["sessions"], "known_transcripts": disk.files}


def _show(found: dict[str, Any]) -> None:
    if not found["transcripts"]:
        waiting = (
            f"; {output.many(found['waiting'], 'batch', 'batches')} of earlier runs wait"
            if found["waiting"]
            else ""
        )
        click.echo(f"Every one of {output.many(found['known_transcripts'], 'transcript')} is read{waiting}.")
        return
    by_rules = found["by"] == "rules"
    cost = "unknown price" if found["cost_usd"] is None else f"about ${found['cost_usd']:.2f}"
    tokens = f"{found['tokens_in'] / 1e6:.2f} M tokens in, {found['tokens_out'] / 1e6:.2f} M out"
    facts = {
        "to read": f"{output.many(found['sessions'], 'session')}, {output.size(found['bytes'])}",
        "batches": f"about {found['batches']:,}",
        "written by": "rules: free" if by_rules else f"{found['by']}: {tokens}, {cost} at list price",
        "time": f"about {output.duration(max(1, round(found['seconds'])))}",
    }
    if days := found.get("days_by_caps"):
        facts["caps"] = f"spread over {days} days by CEMS_LLM_DAILY_CALLS and CEMS_LLM_DAILY_TOKENS"
    output.pairs(output.console(), facts)
