"""What is said of a memory whose state is changed by hand, or shown: what was done, what an erasure takes with it, what was
made of a memory and stays, and how it stands."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from cems.cli import output
from cems.cli.output import moment, pairs
from cems.ids import short
from cems.models import Memory
from cems.text import one_line

if TYPE_CHECKING:
    from rich.console import Console

    from db.lifecycle import Action, Standing

DONE: dict[Action, str] = {
    "pin": "pinned",
    "unpin": "unpinned",
    "snooze": "snoozed",
    "unsnooze": "unsnoozed",
    "archive": "archived",
    "forget": "forgotten",
    "restore": "restored",
    "erase": "erased",
}


def changed(action: Action, one: Memory, done: bool, dry_run: bool, until: dt.datetime | None) -> None:
    """One line for one memory."""
    would = "would be " if dry_run else ""
    word = f"{would}{DONE[action]}" if done else f"nothing to do, {_ALREADY[action]}"
    when = f" until {until.astimezone():%Y-%m-%d %H:%M}" if until and done else ""
    click.echo(f"{word}{when}: {one_line(output.clean(one.title), 100)} ({one.id})")


_ALREADY: dict[Action, str] = {
    "pin": "pinned already",
    "unpin": "not pinned",
    "snooze": "snoozed already",
    "unsnooze": "not snoozed",
    "archive": "archived already",
    "forget": "forgotten already",
    "restore": "not forgotten, archived or snoozed",
    "erase": "gone already",
}


def belongings(one: Memory, counts: dict[str, Any], made: Sequence[dict[str, Any]]) -> None:
    """What goes with a memory that is to be erased, and what stays; on standard error, before anybody is asked."""
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
    if merged := counts["merged_into_it"]:
        click.echo(
            f"  {output.many(merged, 'memory', 'memories')} that said the same and were merged into it are forgotten"
            " with it",
            err=True,
        )
    derived(made)


def derived(made: Sequence[dict[str, Any]]) -> None:
    """What was made of a memory still says what it said."""
    for row in made:
        if not row["forgotten"]:
            title = one_line(output.clean(row["title"]), 80)
            output.note(
                f"  it was {row['how']} into the {row['layer']} {row['short_id']}, which stays: {title}"
            )


def standing(console: Console, found: Standing) -> None:
    """Print how a memory stands, where that is anything but plain."""
    by = short(found.superseded_by) if found.superseded_by else ""
    how = found.superseded_how or "replaced"
    replaced = f"replaced by {by}" if how == "replaced" else f"{how} into {by}"
    facts = {
        "pinned": "yes" if found.pinned else "",
        "snoozed": f"until {moment(found.snoozed_until)}" if found.snoozed_until else "",
        "superseded": f"{replaced}; `cems memory show {by}` shows it" if by else "",
        "archived": moment(found.archived_at) if found.archived_at else "",
        "forgotten": moment(found.forgotten_at) if found.forgotten_at else "",
    }
    if any(facts.values()):
        console.print()
        pairs(console, facts)
