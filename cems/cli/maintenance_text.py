"""Runs of maintenance for people: how one ended, the list of those there were, and what one changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.text import Text

from cems.cli.output import block, clean, duration, many, moment, pairs
from cems.ids import short
from cems.text import one_line

if TYPE_CHECKING:
    from maintenance.job import Planned
    from maintenance.start import Ended

PLANNED_SHOWN = 50
_COLOURS = {"done": "green", "stopped": "yellow", "running": "cyan", "failed": "red", "killed": "red"}
GOES_ON = "the next run goes on where this one was"


def ended(console: Console, one: Ended) -> None:
    """Print how a run that was asked for ended."""
    report, dry = one.report, one.order.dry_run
    head = Text.assemble((one.order.job, "bold"), ": ", (one.outcome, _COLOURS[one.outcome]))
    head.append(f" in {duration(one.seconds)}")
    if dry:
        head.append("; a dry run: nothing was written, no model was asked", style="dim")
    block(console, head, indent=0)
    if dry:
        _planned(console, one.planned)
    facts = {
        "error": one.error or "",
        "looked at": f"{report.seen:,}",
        "would change" if dry else "changed": f"{report.changed:,}",
        "kept apart": f"{report.kept_apart:,}" if report.kept_apart else "",
        "failed": f"{report.failed:,}" if report.failed else "",
        "left": _left(one),
        "model": f"{many(report.llm_calls, 'call')}, ${report.cost:.2f}" if report.llm_calls else "",
        "notes": "\n".join(report.notes),
        "run": f"{short(one.run)}; with --show its changes, with --undo they are taken back"
        if one.run and report.changed
        else "",
    }
    pairs(console, facts)


def refused(console: Console, job: str, why: str) -> None:
    """Print that a run did not begin."""
    block(console, Text.assemble((job, "bold"), ": ", ("refused", "red"), f"; {clean(why)}"), indent=0)


def _left(one: Ended) -> str:
    waiting = f"{one.report.waiting:,} waiting" if one.report.waiting else ""
    if one.outcome != "stopped":
        return waiting
    why = "out of time" if one.ended_by == "deadline" else "asked to end"
    return "; ".join(filter(None, (why, waiting, GOES_ON)))


def _planned(console: Console, planned: Sequence[Planned]) -> None:
    for one in planned[:PLANNED_SHOWN]:
        ids = [short(memory) for memory in one.memories if memory != one.into]
        line = Text.assemble((f"{one.what}: ", "bold"), one_line(clean(one.title), 160))
        block(console, line, indent=2)
        into = f" → {short(one.into)}" if one.into else ""
        block(console, f"{', '.join(ids)}{into} · {one.why}", indent=6, style="dim")
    if len(planned) > PLANNED_SHOWN:
        block(console, f"and {len(planned) - PLANNED_SHOWN:,} more; --json has them all")


def history(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print runs, one a line, with an error below it."""
    if not rows:
        click.echo("No runs.")
    for row in rows:
        line = Text(f"{moment(row['started_at'])}  {row['job']:<14}")
        line.append(f"{row['outcome']:<8}", style=_COLOURS[row["outcome"]])
        line.append(f"  {_brief(row)}")
        line.append(f"  {short(row['id'])}", style="dim")
        console.print(line, soft_wrap=True)
        if row["error"]:
            block(console, row["error"], indent=18, style="dim")


def _brief(row: Mapping[str, Any]) -> str:
    report = row["report"]
    parts = ["by hand" if row["asked_by"] == "hand" else "by schedule"]
    if row["project"]:
        parts.append(f"in {one_line(clean(row['project']), 40)}")
    if row["outcome"] != "running":
        changes = many(row["changes"], "change")
        parts.append(f"{changes} of {report['seen']:,} seen" if report.get("seen") is not None else changes)
    if report.get("waiting"):
        parts.append(f"{report['waiting']:,} waiting")
    if row["finished_at"] and row["outcome"] != "killed":
        parts.append(duration((row["finished_at"] - row["started_at"]).total_seconds()))
    if row["undone_at"]:
        parts.append("undone")
    return ", ".join(parts)


def detail(console: Console, run: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> None:
    """Print one run and each of its changes."""
    report = run["report"]
    head = Text.assemble((run["job"], "bold"), " ", (run["outcome"], _COLOURS[run["outcome"]]))
    block(console, head.append(f" · {run['id']}", style="dim"), indent=0)
    ended_at = f", ended {moment(run['finished_at'])}" if run["finished_at"] else ""
    due = f" for {moment(run['due_at'])}" if run["due_at"] else ""
    counts = ("seen", "changed", "kept_apart", "failed", "waiting", "llm_calls")
    facts = {
        "began": f"{moment(run['started_at'])}{ended_at}",
        "asked by": f"the schedule{due}" if run["asked_by"] == "schedule" else "hand",
        "project": run["project"] or "",
        "counted": ", ".join(f"{report[c]:,} {c.replace('_', ' ')}" for c in counts if report.get(c)),
        "cost": f"${report['cost']:.2f}" if report.get("cost") else "",
        "error": run["error"] or "",
        "undone": moment(run["undone_at"]) if run["undone_at"] else "",
        "notes": "\n".join(report.get("notes", ())),
    }
    pairs(console, facts)
    for step in steps:
        console.print()
        _step(console, step)
    if not steps:
        block(console, "It changed nothing.", indent=0)


def _step(console: Console, step: Mapping[str, Any]) -> None:
    block(console, Text.assemble((f"{step['number']}. {step['what']}", "bold"), f" {step['why']}"), indent=0)
    for memory in step["memories"]:
        block(console, _memory(memory), indent=4)
    if step["into"]:
        block(console, _memory(step["into"]), indent=4, first="  →")
    about = [f"{step[n]:,} {n.replace('_', ' ')}" for n in ("sources_copied", "vectors_taken") if step[n]]
    if about:
        block(console, ", ".join(about), indent=4, style="dim")


def _memory(memory: Mapping[str, Any]) -> Text:
    title = one_line(clean(memory["title"]), 160) if memory["title"] else "erased since"
    return Text.assemble(title, (f" · {memory['short_id']}", "dim"))
