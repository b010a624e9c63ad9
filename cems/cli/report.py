"""What a run of the observer brought, as one document and as text for people."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import click

from cems.cli import output
from db import status
from db.connect import Database
from db.ledger import Caps
from observer.capture import Capture
from observer.embed import Embedding
from observer.observe import Observing


@dataclasses.dataclass
class Work:
    """The parts of a running observer whose reports are read."""

    capture: Capture
    observing: Observing
    embedding: Embedding | None


def document(work: Work, seconds: float, waiting: dict[str, Any]) -> dict[str, Any]:
    """The run's report."""
    seen, made = work.capture.report, work.observing.report
    return {
        "transcripts": seen.transcripts,
        "bytes": seen.bytes,
        "bytes_read": seen.bytes_read,
        "lines_landed": seen.lines_landed,
        "lines_skipped": dict(sorted(seen.lines_skipped.items())),
        "unreadable": seen.unreadable,
        "rewound": seen.rewound,
        "batches": made.batches,
        "observations": dict(sorted(made.observations.items())),
        "seen_again": made.seen_again,
        "refused": dict(sorted(made.refused.items())),
        "split": made.split,
        "failed_calls": made.failed_calls,
        "set_aside": seen.set_aside + made.set_aside,
        "set_aside_lines": seen.set_aside,
        "set_aside_batches": made.set_aside,
        "embedded": work.embedding.embedded if work.embedding else 0,
        "waiting": waiting,
        "seconds": round(seconds, 3),
    }


def waiting(db: Database, caps: Caps, now: dt.datetime) -> dict[str, Any]:
    """Batches that wait, why, and until when."""
    queue = status.queue(db, now)
    if not queue["pending"]:
        return {"batches": 0, "why": None, "until": None}
    pause = status.pause(db, "extraction", caps, now)
    why = pause["why"] or queue["last_error"] or ("another observer has them" if queue["leased"] else None)
    return {"batches": queue["pending"], "why": why, "until": pause["until"] or queue["next_due"]}


def show(report: dict[str, Any], now: dt.datetime) -> None:
    """Print a report for people."""
    new = sum(report["observations"].values())
    took = output.duration(report["seconds"])
    click.echo(
        f"{output.many(report['transcripts'], 'transcript')}, {output.size(report['bytes'])} new, {took}"
    )
    skipped = output.tally(report["lines_skipped"])
    again = f"; {report['seen_again']:,} seen again" if report["seen_again"] else ""
    kinds = output.tally(report["observations"])
    held = report["waiting"]
    facts = {
        "lines": f"{report['lines_landed']:,} landed" + (f"; left out: {skipped}" if skipped else ""),
        "batches": f"{report['batches']:,} observed"
        + (f", {report['split']} split" if report["split"] else ""),
        "memories": f"{new:,} new" + (f": {kinds}" if kinds else "") + again,
        "vectors": f"{report['embedded']:,} new" if report["embedded"] else "",
        "set aside": f"{report['set_aside']:,}; see `cems set-aside list`" if report["set_aside"] else "",
        "unreadable": f"{output.many(report['unreadable'], 'file')}" if report["unreadable"] else "",
        "waiting": _waiting_line(held, now) if held["batches"] else "",
    }
    output.pairs(output.console(), facts)


def _waiting_line(held: dict[str, Any], now: dt.datetime) -> str:
    until = f" until {output.until(held['until'], now)}" if held["until"] and held["until"] > now else ""
    return f"{output.many(held['batches'], 'batch', 'batches')}{until}" + (
        f": {held['why']}" if held["why"] else ""
    )
