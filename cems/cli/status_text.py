"""`cems status` for people: one short block a subject, problems first."""

from __future__ import annotations

import collections
import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import click
from rich.console import Console

from cems.cli.output import ago, block, duration, many, pairs, size, tally, until

PROJECTS_SHOWN = 8


def show(console: Console, found: Mapping[str, Any]) -> None:
    """Print the document of `status_read.read`."""
    now = found["at"]
    healthy = found["healthy"]
    click.echo(
        click.style("healthy" if healthy else "not healthy", fg="green" if healthy else "red", bold=True)
    )
    problem_lines(console, found["problems"])
    facts = {
        "observer": _observer(found),
        "recall": _process(found, "recall", "not running; a hook starts it when it is needed"),
        "maintenance": _process(found, "maintenance", "not running here"),
        "database": ", ".join(filter(None, database_facts(found["database"]).values())),
    }
    if found["queue"]:
        facts |= _transcripts(found["transcripts"], now) | {
            "queue": _queue(found["queue"], now),
            "set aside": _set_aside(found["set_aside"]),
        }
        facts |= _memories(found["memories"], found["embeddings"])
        facts |= {"written by": found["llm"]["written_by"]} | {
            f"today, {row['purpose']}": _calls(row, now) for row in found["llm"]["today"]
        }
    if found["maintenance"]:
        facts |= maintenance_facts(found["maintenance"], now)
    facts["disk"] = (
        f"{size(found['disk']['used_bytes'])} in {found['home']}; {size(found['disk']['free_bytes'])} free"
    )
    pairs(console, facts)


def problem_lines(console: Console, problems: Sequence[Mapping[str, str]]) -> None:
    """Each problem, with what to do."""
    for one in problems:
        block(console, one["problem"] + (f"\n{one['hint']}" if one["hint"] else ""), indent=4, first="  !")


def database_facts(found: Mapping[str, Any]) -> dict[str, str]:
    """The database's block."""
    where = "embedded" if found["kind"] == "embedded" else "of CEMS_DATABASE_URL"
    process = f", process {found['pid']}" if found.get("pid") else ""
    facts = {"server": f"Postgres {found['version']} {where}{process}" if found["version"] else where}
    if found.get("bytes") is not None:
        schema = f"schema {found['schema']}" + (
            "" if found["schema"] == found["schema_wanted"] else f" of {found['schema_wanted']}"
        )
        facts |= {"parts": f"pgvector {found['pgvector']}, {schema}", "size": size(found["bytes"])}
    return facts


def _observer(found: Mapping[str, Any]) -> str:
    observer = found["processes"]["observer"]
    leases = found["processes"]["leases"]
    others = [row["described"] for row in leases if row["name"].startswith("observer:")]
    state = f"running, process {observer['pid']}" if observer["running"] else "not running here"
    elsewhere = [one for one in others if not (observer["pid"] and one.endswith(f" {observer['pid']}"))]
    return state + (f"; also {', '.join(elsewhere)}" if elsewhere else "")


def _process(found: Mapping[str, Any], name: str, absent: str) -> str:
    process = found["processes"][name]
    return f"running, process {process['pid']}" if process["running"] else absent


def maintenance_facts(found: Mapping[str, Any], now: dt.datetime) -> dict[str, str]:
    """A line a job: what its last run did and when it runs next, in the time zone of the schedules."""
    facts = {}
    for index, job in enumerate(found["jobs"]):
        where = f" ({found['zone']})" if index == 0 else ""
        facts[job["job"]] = f"{_last_run(job, now)}; {_next_run(job, now)}{where}"
    return facts


def _last_run(job: Mapping[str, Any], now: dt.datetime) -> str:
    if going := job["running"]:
        return f"running since {ago(going['started_at'], now)} ({going['described']})"
    if (last := job["last"]) is None:
        return "never ran"
    undone = ", undone" if last["undone_at"] else ""
    counts = f", {many(last['changed'], 'change')}" if last["changed"] is not None else ""
    waiting = f", {last['waiting']:,} waiting" if last["waiting"] else ""
    return f"{last['outcome']} {ago(last['started_at'], now)}{counts}{waiting}{undone}"


def _next_run(job: Mapping[str, Any], now: dt.datetime) -> str:
    if job["next_at"] is None:
        return "no schedule" if job["schedule"] is None else "never again by its schedule"
    if job["due_since"] and job["next_at"] <= now:
        return "due now"
    again = "tried again" if job["due_since"] else "next"
    return f"{again} {job['next_local'][:16].replace('T', ' ')}"


def _transcripts(found: Mapping[str, Any], now: dt.datetime) -> dict[str, str]:
    unread = f"; {size(found['unread_bytes'])} not read yet" if found["unread_bytes"] else "; all of it read"
    behind = f", waiting for {duration(found['behind_seconds'])}" if found["behind_seconds"] >= 60 else ""
    newest = f"newest {ago(found['newest_on_disk'], now)}" if found["newest_on_disk"] else "none"
    landed = found["landed"]
    return {
        "transcripts": f"{many(found['files'], 'file')}, {size(found['bytes'])}, {newest}{unread}{behind}",
        "landed": f"{many(landed['lines'], 'line')}, the last {ago(landed['last_landed_at'], now)}"
        if landed["lines"]
        else "nothing yet",
    }


def _queue(queue: Mapping[str, Any], now: dt.datetime) -> str:
    parts = []
    if queue["pending"]:
        due = queue["next_due"]
        when = "due now" if due <= now else f"next at {until(due, now)}"
        parts.append(
            f"{many(queue['pending'], 'batch', 'batches')} (oldest {ago(queue['oldest'], now)}, {when})"
        )
        if queue["last_error"]:
            parts.append(f"last error: {queue['last_error']}")
    if queue["lines"]:
        parts.append(f"{many(queue['lines'], 'line')} of {many(queue['sessions'], 'session')} gathering")
    return "; ".join(parts) or "empty"


def _set_aside(counts: Mapping[str, int]) -> str:
    said = [many(counts["batches"], "batch", "batches")] if counts["batches"] else []
    said += [many(counts["lines"], "line")] if counts["lines"] else []
    return f"{', '.join(said)}; see `cems set-aside list`" if said else "nothing"


def _memories(found: Mapping[str, Any], vectors: Mapping[str, Any]) -> dict[str, str]:
    layers = found["by_layer"]
    facts = {"memories": f"{found['total']:,}" + (f": {tally(found['by_kind'])}" if found["total"] else "")}
    if set(layers) - {"observation"}:
        facts["layers"] = tally(layers)
    if gone := {k: v for k, v in found["by_state"].items() if k != "active"}:
        facts["no longer shown"] = tally(gone)
    ranked = sorted(found["projects"], key=lambda p: -p["memories"])
    names = collections.Counter(p["name"] for p in ranked)
    projects = [f"{p['name'] if names[p['name']] == 1 else _where(p)} ({p['memories']:,})" for p in ranked]
    more = f" and {len(projects) - PROJECTS_SHOWN} more" if len(projects) > PROJECTS_SHOWN else ""
    facts["projects"] = ", ".join(projects[:PROJECTS_SHOWN]) + more
    if vectors["model"]:
        missing = (
            f"; {many(vectors['missing'], 'memory has', 'memories have')} none yet"
            if vectors["missing"]
            else ""
        )
        facts["vectors"] = f"{vectors['by_model'].get(vectors['model'], 0):,} by {vectors['model']}{missing}"
    else:
        facts["vectors"] = "no embedder: search by words only"
    return facts


def _where(project: Mapping[str, Any]) -> str:
    """What tells a project from another one of its name."""
    identity: str = project["identity"]
    return identity.removeprefix("git:") if identity.startswith("git:") else str(project["root"])


def _calls(row: Mapping[str, Any], now: dt.datetime) -> str:
    cost = f"${row['cost_usd'] or 0:.2f}" + (" and more of unknown price" if row["unpriced"] else "")
    tokens = (row["input_tokens"] or 0) + (row["output_tokens"] or 0)
    failed = f" ({row['failed']} failed)" if row["failed"] else ""
    line = f"{row['calls']:,} of {row['cap_calls']:,} calls{failed}, {tokens:,} of {row['cap_tokens']:,} tokens, {cost}"
    if row["waits_until"]:
        line += f"; waits until {until(row['waits_until'], now)}: {row['why']}"
    return line
