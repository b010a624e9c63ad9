"""`cems memory`: what is remembered. Listing and showing are here and change nothing; what changes memories is in
`memory_add` and `memory_life`."""

from __future__ import annotations

import dataclasses
import datetime as dt

import click

from cems import settings as configuration
from cems.cli import memory_life, memory_life_text, output, scope
from cems.cli.memory_add import add
from cems.ids import short
from cems.models import LAYERS


@click.group(name="memory")
def memory() -> None:
    """Add, list and show memories; pin, snooze, archive, forget, restore or erase them."""


for _command in (
    add,
    memory_life.pin,
    memory_life.unpin,
    memory_life.snooze,
    memory_life.unsnooze,
    memory_life.archive,
    memory_life.forget,
    memory_life.restore,
    memory_life.erase,
):
    memory.add_command(_command)
STATES = ("active", "pinned", "snoozed", "archived", "superseded", "forgotten", "all")


@memory.command(name="list")
@scope.narrowing
@click.option("--layer", type=click.Choice(LAYERS), help="Only memories of this layer.")
@click.option(
    "--state",
    type=click.Choice(STATES),
    default="active",
    show_default=True,
    help="Which state.",
)
@click.option(
    "--limit", "-n", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many at most."
)
@output.json_option
def list_(
    project: str | None,
    everywhere_only: bool,
    kind: str | None,
    layer: str | None,
    concept: str | None,
    file: str | None,
    since: dt.datetime | None,
    state: str,
    limit: int,
    as_json: bool,
) -> None:
    """List memories, newest first.

    \b
    Examples:
      cems memory list --project . --kind decision
      cems memory list --since 7d --limit 20
      cems memory list --state pinned
      cems memory list --state forgotten
    """
    scope.only_one(project=project, everywhere_only=everywhere_only)
    settings = configuration.load()
    from cems.cli.reach import database
    from db import lifecycle
    from db.memories import Filter, list_memories

    with database(settings, "cems_writer") as db:
        projects = [] if everywhere_only else scope.find_projects(db, settings, project) if project else None
        # One more than asked for tells whether there are more.
        wanted = Filter(
            kind=kind,
            layer=layer,
            concept=concept,
            file=file,
            since=since,
            projects=projects,
            state=state,
            limit=limit + 1,
        )
        if state in lifecycle.STATES:
            of_state = lifecycle.in_state(db, state, dt.datetime.now(dt.UTC))
            wanted = dataclasses.replace(wanted, ids=of_state, state="all")
        found = list_memories(db, wanted)
        shown, more = found[:limit], len(found) > limit
    if as_json:
        rows = [m.to_json() | {"short_id": short(m.id)} for m in shown]
        output.document({"count": len(rows), "more": more, "memories": rows})
    elif not shown:
        click.echo(
            "No memories." if state == "active" and not (kind or since or project) else "No such memories."
        )
    else:
        from cems.cli.memory_text import results

        results(output.console(), shown, bodies=False)
        if more:
            output.note(f"\nThe newest {limit}; --limit shows more.")


@memory.command()
@click.argument("memory_id", metavar="ID")
@output.json_option
def show(memory_id: str, as_json: bool) -> None:
    """Show one memory and its evidence: who said what, when, in which session.

    ID may be shortened, as the lists show it.

    \b
    Example:
      cems memory show 019ad5b0-3c1e-7f
    """
    from cems.cli.reach import database
    from db import lifecycle, memories

    with database(configuration.load(), "cems_writer") as db:
        found, evidence = memories.show(db, memories.resolve_id(db, memory_id))
        standing = lifecycle.standing(db, found.id, dt.datetime.now(dt.UTC))
    if as_json:
        output.document(found.to_json() | dataclasses.asdict(standing) | {"evidence": evidence})
        return
    from cems.cli.memory_text import detail

    detail(output.console(), found, evidence)
    memory_life_text.standing(output.console(), standing)
