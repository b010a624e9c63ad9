"""`cems memory pin`, `snooze`, `archive`, `forget`, `restore`, `erase` and their opposites: what a person does with memories by
hand. Several ids are changed all or none. All of it can be taken back but erasing, the only thing in the whole program that
deletes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from cems import settings as configuration
from cems.cli import memory_life_text as text
from cems.cli import output, scope
from cems.errors import UsageError
from cems.ids import short
from cems.models import Memory

if TYPE_CHECKING:
    from db.connect import Database
    from db.lifecycle import Action

DAYS = 30
"""A snooze, when nobody says how long."""
_ids = click.argument("ids", metavar="ID...", nargs=-1, required=True)


def _dry_run(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--dry-run", is_flag=True, help="Only say what would be changed.")(command)


@click.command()
@_ids
@_dry_run
@output.json_option
def pin(ids: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Pin memories: given to sessions before others, and never archived or summarised.

    \b
    Examples:
      cems memory pin 5b03c1e77f
      cems memory list --state pinned
    """
    _change("pin", ids, dry_run, as_json)


@click.command()
@_ids
@_dry_run
@output.json_option
def unpin(ids: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Take the pins of memories off.

    \b
    Example:
      cems memory unpin 5b03c1e77f
    """
    _change("unpin", ids, dry_run, as_json)


def _moment(_ctx: click.Context, param: click.Parameter, value: str | None) -> dt.datetime | None:
    """`2026-12-24` or `2026-12-24T09:30`, in the user's time zone."""
    if value is None:
        return None
    try:
        return dt.datetime.fromisoformat(value.strip().upper()).astimezone()
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{value!r} is no date (2026-12-24 or 2026-12-24T09:30)", param=param
        ) from None


@click.command()
@_ids
@click.option("--days", type=click.IntRange(1, 36_500), help=f"For how long.  [default: {DAYS}]")
@click.option("--until", metavar="DATE", callback=_moment, help="Until then: 2026-12-24, 2026-12-24T09:30.")
@_dry_run
@output.json_option
def snooze(
    ids: tuple[str, ...], days: int | None, until: dt.datetime | None, dry_run: bool, as_json: bool
) -> None:
    """Snooze memories: not given back for a time, 30 days unless told otherwise.

    \b
    Examples:
      cems memory snooze 5b03c1e77f
      cems memory snooze 5b03c1e77f 1c2d3e4f50 --days 7
      cems memory snooze 5b03c1e77f --until 2027-01-15
      cems memory list --state snoozed
    """
    scope.only_one(days=days, until=until)
    now = dt.datetime.now(dt.UTC)
    if until is not None and until <= now:
        raise UsageError(f"{until:%Y-%m-%d %H:%M} is past", hint="give a date to come, or --days")
    _change("snooze", ids, dry_run, as_json, until=until or now + dt.timedelta(days=days or DAYS))


@click.command()
@_ids
@_dry_run
@output.json_option
def unsnooze(ids: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Give snoozed memories back again.

    \b
    Example:
      cems memory unsnooze 5b03c1e77f
    """
    _change("unsnooze", ids, dry_run, as_json)


@click.command()
@_ids
@_dry_run
@output.json_option
def archive(ids: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Put memories away: not given back until they are said again, or restored.

    \b
    Examples:
      cems memory archive 5b03c1e77f
      cems memory list --state archived
      cems memory restore 5b03c1e77f
    """
    _change("archive", ids, dry_run, as_json)


@click.command()
@_ids
@_dry_run
@output.json_option
def forget(ids: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Forget memories: they are not given back any more, and the same content is not learnt again.

    `cems memory restore` takes it back.

    \b
    Examples:
      cems memory forget 5b03c1e77f
      cems memory list --state forgotten
    """
    _change("forget", ids, dry_run, as_json)


@click.command()
@_ids
@_dry_run
@output.json_option
def restore(ids: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Bring forgotten, archived or snoozed memories back.

    \b
    Examples:
      cems memory restore 5b03c1e77f
      cems memory list --state forgotten     shows what can be restored
    """
    _change("restore", ids, dry_run, as_json)


@click.command()
@_ids
@click.option("--yes", is_flag=True, help="Do not ask.")
@_dry_run
@output.json_option
def erase(ids: tuple[str, ...], yes: bool, dry_run: bool, as_json: bool) -> None:
    """Delete memories for good, with their vectors, their quotes and the text of the lines they quote.

    Nothing brings them back, except a backup. The session transcript itself is not touched. What maintenance made of them may
    repeat their words: it is named first, so that it can be erased too.

    \b
    Examples:
      cems memory erase 5b03c1e77f --dry-run
      cems memory erase 5b03c1e77f 1c2d3e4f50 --yes
    """
    if as_json and not (yes or dry_run):
        raise UsageError(
            "with --json nobody is asked", hint="give --yes to erase, or --dry-run to see what would go"
        )

    def sure(found: Sequence[Memory]) -> bool:
        return (
            dry_run
            or yes
            or output.confirm(f"Erase {output.many(len(found), 'memory', 'memories')} for good?")
        )

    _change("erase", ids, dry_run, as_json, sure=sure)


def _change(
    action: Action,
    texts: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
    *,
    until: dt.datetime | None = None,
    sure: Callable[[Sequence[Memory]], bool] = lambda _found: True,
) -> None:
    """Resolve every id first, so that a mistyped one changes nothing; then change all of them or none."""
    from cems.cli.reach import database
    from db import lifecycle, memories

    with database(configuration.load(), "cems_writer") as db:
        wanted = list(dict.fromkeys(memories.resolve_id(db, one) for one in texts))
        found = [memories.show(db, one)[0] for one in wanted]
        going = [_going(db, one) if action == "erase" else {} for one in found]
        rest = [_left(db, one, wanted) if action in ("forget", "erase") else [] for one in found]
        if action == "erase" and not as_json:
            for one, counts, made in zip(found, going, rest, strict=True):
                text.belongings(one, counts, made)
        if not sure(found):
            click.echo("Nothing was changed.")
            return
        now = dt.datetime.now(dt.UTC)
        changed = set(lifecycle.change(db, action, wanted, now, until=until, dry_run=dry_run))
    if as_json:
        extra = [{"until": until} if until else {} for _ in found]
        rows = [
            {"id": m.id, "kind": m.kind, "title": m.title, "was": m.state, "changed": m.id in changed}
            | more
            | counts
            | ({"derived": made} if action in ("forget", "erase") else {})
            for m, more, counts, made in zip(found, extra, going, rest, strict=True)
        ]
        output.document({"dry_run": dry_run, text.DONE[action]: rows})
        return
    for one, made in zip(found, rest, strict=True):
        text.changed(action, one, one.id in changed, dry_run, until)
        if action == "forget":
            text.derived(made)


def _going(db: Database, memory: Memory) -> dict[str, Any]:
    from db import lifecycle

    return lifecycle.belongings(db, memory.id)


def _left(db: Database, memory: Memory, together: Sequence[object]) -> list[dict[str, Any]]:
    """What was made of a memory and stays, because it was not named too."""
    from db import lifecycle

    made = lifecycle.derived(db, memory.id)
    return [{**row, "short_id": short(row["id"])} for row in made if row["id"] not in together]
