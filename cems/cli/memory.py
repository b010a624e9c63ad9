"""`cems memory`: what is remembered, by hand. Listing and showing change nothing; forgetting can be taken back; erasing is
the only thing in the whole program that deletes."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from cems import settings as configuration
from cems.cli import output, scope
from cems.cli.memory_add import add
from cems.errors import UsageError
from cems.ids import short
from cems.models import LAYERS, Memory
from cems.text import one_line

if TYPE_CHECKING:
    from db.connect import Database


@click.group(name="memory")
def memory() -> None:
    """Add, list, show, forget, restore or erase memories."""


memory.add_command(add)


@memory.command(name="list")
@scope.narrowing
@click.option("--layer", type=click.Choice(LAYERS), help="Only memories of this layer.")
@click.option(
    "--state",
    type=click.Choice(("active", "forgotten", "all")),
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
      cems memory list --state forgotten
    """
    scope.only_one(project=project, everywhere_only=everywhere_only)
    settings = configuration.load()
    from cems.cli.reach import database
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
    from db import memories

    with database(configuration.load(), "cems_writer") as db:
        found, evidence = memories.show(db, memories.resolve_id(db, memory_id))
    if as_json:
        output.document(found.to_json() | {"evidence": evidence})
        return
    from cems.cli.memory_text import detail

    detail(output.console(), found, evidence)


@memory.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Only say what would be forgotten.")
@output.json_option
def forget(ids: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Forget memories: they are not given back any more, and the same content is not learnt again.

    `cems memory restore` takes it back.
    """
    from db import memories

    _change(ids, "forgotten", memories.forget, dry_run, as_json)


@memory.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Only say what would be restored.")
@output.json_option
def restore(ids: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Bring forgotten or archived memories back.

    `cems memory list --state forgotten` shows them.
    """
    from db import memories

    _change(ids, "restored", memories.restore, dry_run, as_json)


@memory.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Only say what would be erased.")
@output.json_option
def erase(ids: tuple[str, ...], yes: bool, dry_run: bool, as_json: bool) -> None:
    """Delete memories for good, with their vectors, their quotes and the text of the lines they quote.

    Nothing brings them back, except a backup. The session transcript itself is not touched.
    """
    from db import memories

    if as_json and not (yes or dry_run):
        raise UsageError(
            "with --json nobody is asked", hint="give --yes to erase, or --dry-run to see what would go"
        )

    def sure(db: Database, found: list[Memory]) -> bool:
        if not as_json:
            for one in found:
                _say_belongings(one, memories.belongings(db, one.id))
        return (
            dry_run
            or yes
            or output.confirm(f"Erase {output.many(len(found), 'memory', 'memories')} for good?")
        )

    _change(ids, "erased", memories.erase, dry_run, as_json, sure)


Change = Callable[["Database", uuid.UUID, dt.datetime], None]


def _change(
    texts: tuple[str, ...],
    done: str,
    change: Change,
    dry_run: bool,
    as_json: bool,
    sure: Callable[[Database, list[Memory]], bool] = lambda _db, _found: True,
) -> None:
    """Resolve every id first, so that a mistyped one changes nothing; then change each memory."""
    from cems.cli.reach import database
    from db import memories

    with database(configuration.load(), "cems_writer") as db:
        wanted = list(dict.fromkeys(memories.resolve_id(db, text) for text in texts))
        found = [memories.show(db, one)[0] for one in wanted]
        gone: dict[uuid.UUID, dict[str, Any]] = (
            {m.id: memories.belongings(db, m.id) for m in found} if done == "erased" else {}
        )
        if not sure(db, found):
            click.echo("Nothing was changed.")
            return
        if not dry_run:
            for one in found:
                change(db, one.id, dt.datetime.now(dt.UTC))
    if as_json:
        rows = [
            {"id": m.id, "kind": m.kind, "title": m.title, "was": m.state} | gone.get(m.id, {}) for m in found
        ]
        output.document({"dry_run": dry_run, done: rows})
        return
    for one in found:
        click.echo(
            f"{'would be ' if dry_run else ''}{done}: {one_line(output.clean(one.title), 100)} ({one.id})"
        )


def _say_belongings(one: Memory, counts: dict[str, Any]) -> None:
    click.echo(f"{one.kind}: {one_line(output.clean(one.title), 160)}", err=True)
    parts = [
        output.many(counts["sources"], "quote"),
        output.many(counts["vectors"], "vector"),
        f"the text of {output.many(counts['lines'], 'line')}",
    ]
    click.echo(f"  goes with {', '.join(parts)}", err=True)
    if others := counts["also_quoted_by"]:
        quoting = output.many(others, "other memory quotes", "other memories quote")
        click.echo(
            f"  {quoting} the same lines and {'keeps its' if others == 1 else 'keep their'} quotes", err=True
        )
