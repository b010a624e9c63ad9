"""The runs there were: listed, shown change by change, taken back."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from cems.cli import maintenance_text, output
from cems.cli.reach import database
from cems.ids import short
from cems.settings import Settings

if TYPE_CHECKING:
    from db.connect import Database, Row


def history(settings: Settings, job: str | None, limit: int, as_json: bool) -> int:
    """The newest runs."""
    from db import runs

    wanted = next((known for known in runs.JOBS if known == job), None)
    with database(settings, "cems_writer") as db:
        rows = runs.history(db, job=wanted, limit=limit)
    if as_json:
        output.document({"runs": [_run(row) for row in rows]})
    else:
        maintenance_text.history(output.console(), rows)
    return 0


def show(settings: Settings, wanted: str, as_json: bool) -> int:
    """What one run changed."""
    from db import changes, runs

    with database(settings, "cems_writer") as db:
        (run,) = runs.history(db, run=runs.resolve_id(db, wanted))
        written = changes.of_run(db, run["id"])
        steps = steps_of(written, _titles(db, written))
    if as_json:
        output.document(_run(run) | {"steps": steps})
    else:
        maintenance_text.detail(output.console(), run, steps)
    return 0


def undo(settings: Settings, wanted: str, dry_run: bool, as_json: bool) -> int:
    """Take a run back.

    Raises:
        UndoRefused: it cannot be; says why.
    """
    from db import runs, undoing

    with database(settings, "cems_writer") as db:
        run = runs.resolve_id(db, wanted)
        memories = undoing.undo(db, run, dt.datetime.now(dt.UTC), dry_run=dry_run)
    if as_json:
        output.document({"run": run, "dry_run": dry_run, "memories": memories})
        return 0
    what = output.many(memories, "memory", "memories")
    would = f"{'would be' if dry_run else 'is' if memories == 1 else 'are'} as before"
    click.echo(f"{what} {would} the run {short(run)}.")
    return 0


def _run(row: Mapping[str, Any]) -> dict[str, Any]:
    """A run, for programs: its row, with what it counted beside it."""
    return {("run" if k == "id" else k): v for k, v in row.items() if k != "report"} | {
        "short_id": short(row["id"]),
        "report": row["report"],
    }


def steps_of(written: Sequence[Row], titles: Mapping[uuid.UUID, str]) -> list[dict[str, Any]]:
    """The rows of a run as the changes they were: number, what, why, memories, into, sources_copied, vectors_taken."""
    steps: dict[int, dict[str, Any]] = {}
    for row in written:
        step = steps.setdefault(
            row["step"],
            {
                "number": row["step"],
                "what": row["what"],
                "why": row["why"],
                "memories": [],
                "into": None,
                "sources_copied": 0,
                "vectors_taken": 0,
            },
        )
        if row["into_id"] and step["into"] is None:
            step["into"] = _memory(row["into_id"], titles)
        if row["table_name"] == "memory":
            step["memories"].append(_memory(row["memory_id"], titles))
        elif row["table_name"] == "memory_source":
            step["sources_copied"] += 1
        else:
            step["vectors_taken"] += 1
    for step in steps.values():
        into = step["into"]
        step["memories"] = [one for one in step["memories"] if into is None or one["id"] != into["id"]]
    return list(steps.values())


def _memory(memory: uuid.UUID, titles: Mapping[uuid.UUID, str]) -> dict[str, Any]:
    return {"id": memory, "short_id": short(memory), "title": titles.get(memory)}


def _titles(db: Database, written: Sequence[Row]) -> dict[uuid.UUID, str]:
    """The titles of the memories of a run, as it left them; of those it did not write, as they are now. What was erased
    has none."""
    titles: dict[uuid.UUID, str] = {}
    for row in written:
        if row["table_name"] == "memory" and (content := row["after"] or row["before"]):
            titles[row["memory_id"]] = content["title"]
    from cems.errors import NotFound
    from db import memories

    for other in {row["into_id"] for row in written} - {None} - titles.keys():
        try:
            titles[other] = memories.show(db, other)[0].title
        except NotFound:
            continue
    return titles
