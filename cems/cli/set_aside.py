"""`cems set-aside`: what could not be handled, why, and trying it again. Nothing that is set aside holds up the queue, and
nothing of it is lost."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from cems import settings as configuration
from cems.cli import output
from cems.errors import UsageError
from cems.ids import short
from cems.text import one_line

if TYPE_CHECKING:
    from db.connect import Database
    from db.set_aside import Ref

REASONS = {
    "not_json": "not JSON, and no whole record in it",
    "too_long": "longer than the limit for a line",
}
EXCERPT_SHOWN = 200


@click.group(name="set-aside")
def set_aside() -> None:
    """What could not be handled: list, show, retry."""


@set_aside.command(name="list")
@output.json_option
def list_(as_json: bool) -> None:
    """List batches without a usable answer and lines that could not be read, oldest first."""
    from cems.cli.reach import database
    from db import set_aside as aside

    with database(configuration.load(), "cems_writer") as db:
        batches, lines = aside.batches(db), aside.lines(db)
    if as_json:
        output.document(
            {"batches": [_plain_batch(b) for b in batches], "lines": [_plain_line(one) for one in lines]}
        )
        return
    if not (batches or lines):
        click.echo("Nothing is set aside.")
        return
    for row in batches:
        click.echo(
            f"{click.style(short(row['id']), bold=True)}  batch  {output.moment(row['created_at'])}  {_of_batch(row)}"
        )
        click.echo(f"    {one_line(output.clean(row['last_error'] or 'no error is recorded'), 300)}")
    for row in lines:
        what = f"{_reason(row)}, {output.size(row['bytes'])}"
        click.echo(
            f"{click.style(short(row['id']), bold=True)}  line   {output.moment(row['created_at'])}  {what}"
        )
        click.echo(f"    {output.clean(row['transcript'])} at byte {row['offset']:,}")
        if row["excerpt"]:
            click.echo(click.style(f"    {one_line(output.clean(row['excerpt']), EXCERPT_SHOWN)}", dim=True))
    output.note("\n`cems set-aside show ID` shows more, `cems set-aside retry ID` tries again.")


@set_aside.command()
@click.argument("aside_id", metavar="ID")
@output.json_option
def show(aside_id: str, as_json: bool) -> None:
    """Show a batch with its lines and last error, or a line with what is kept of it."""
    from cems.cli.reach import database
    from db import set_aside as aside

    with database(configuration.load(), "cems_writer") as db:
        ref = aside.resolve_id(db, aside_id)
        lines = aside.batch_lines(db, ref.id) if ref.what == "batch" else []
        row = (aside.batches(db, ref.id) if ref.what == "batch" else aside.lines(db, ref.id))[0]
    if as_json:
        output.document(
            {"what": ref.what}
            | (_plain_batch(row) | {"of": lines} if ref.what == "batch" else _plain_line(row))
        )
        return
    console = output.console()
    if ref.what == "batch":
        click.echo(f"batch {row['id']}")
        output.pairs(
            console,
            {
                "session": _of_batch(row),
                "since": output.moment(row["created_at"]),
                "attempts": str(row["attempts"]),
                "size": output.size(row["bytes"]),
                "error": row["last_error"] or "none is recorded",
            },
        )
        for line in lines:
            click.echo(
                click.style(f"\n{line['kind']} by {line['origin']}, {output.moment(line['at'])}", dim=True)
            )
            output.block(console, line["text"])
        return
    click.echo(f"line {row['id']}")
    output.pairs(
        console,
        {
            "reason": _reason(row),
            "transcript": row["transcript"],
            "at byte": f"{row['offset']:,}",
            "size": output.size(row["bytes"]),
            "since": output.moment(row["created_at"]),
        },
    )
    if row["excerpt"]:
        click.echo("\nIts beginning, redacted:")
        output.block(console, row["excerpt"])


@set_aside.command()
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--all", "all_", is_flag=True, help="Everything that is set aside.")
@output.json_option
def retry(ids: tuple[str, ...], all_: bool, as_json: bool) -> int:
    """Try again: a batch goes back into the queue, a line is read again.

    A line is read again from its transcript if it still stands there, else from what was kept of it if that is all of it.

    \b
    Examples:
      cems set-aside retry --all
      cems set-aside retry 019ad5b0-3c1e
    """
    from cems.cli import retry_line
    from cems.cli.reach import database
    from db import set_aside as aside

    if bool(ids) == all_:
        raise (
            UsageError("nothing was named to try again", hint="give ids, or --all")
            if not ids
            else UsageError("ids and --all exclude each other", hint="give one of them")
        )
    settings, now = configuration.load(), dt.datetime.now(dt.UTC)
    done: list[dict[str, Any]] = []
    with database(settings, "cems_writer") as db:
        for ref in _wanted(db, ids):
            if ref.what == "batch":
                again = aside.retry_batch(db, ref.id, now)
                done.append(
                    {
                        "id": ref.id,
                        "what": "batch",
                        "retried": again,
                        "why": None if again else "set aside no longer",
                    }
                )
            else:
                landed, why = retry_line.retry(db, settings, aside.lines(db, ref.id)[0], now)
                done.append(
                    {"id": ref.id, "what": "line", "retried": why is None, "why": why, "lines_landed": landed}
                )
    failed = [one for one in done if not one["retried"]]
    if as_json:
        output.document({"retried": [one for one in done if one["retried"]], "not_retried": failed})
    elif not done:
        click.echo("Nothing is set aside.")
    else:
        _say_retried(done)
    return 1 if failed and not all_ else 0


def _say_retried(done: list[dict[str, Any]]) -> None:
    batches = sum(one["what"] == "batch" and one["retried"] for one in done)
    for one in done:
        if one["what"] == "line":
            how = (
                f"read: {output.many(one['lines_landed'], 'new line')}"
                if one["retried"]
                else f"not read: {one['why']}"
            )
            click.echo(f"line {one['id']} {how}")
        elif not one["retried"]:
            click.echo(f"batch {one['id']}: {one['why']}")
    if batches:
        click.echo(f"{output.many(batches, 'batch is', 'batches are')} back in the queue for the observer.")


def _wanted(db: Database, ids: tuple[str, ...]) -> list[Ref]:
    from db import set_aside as aside
    from db.set_aside import Ref

    if ids:
        return list(dict.fromkeys(aside.resolve_id(db, text) for text in ids))
    return [Ref(row["id"], "batch") for row in aside.batches(db)] + [
        Ref(row["id"], "line") for row in aside.lines(db)
    ]


def _of_batch(row: Mapping[str, Any]) -> str:
    session = one_line(output.clean(row["session_title"] or row["session"]), 60)
    where = f"“{session}” in {row['project'] or 'no project'}"
    return f"{output.many(row['lines'], 'line')} of {where}, {output.many(row['attempts'], 'attempt')}"


def _reason(row: Mapping[str, Any]) -> str:
    return REASONS.get(row["reason"], str(row["reason"]))


def _plain_batch(row: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in row.items() if not isinstance(v, uuid.UUID) or k == "id"}


def _plain_line(row: Mapping[str, Any]) -> dict[str, Any]:
    kept = (
        "id",
        "transcript",
        "generation",
        "offset",
        "bytes",
        "reason",
        "excerpt",
        "created_at",
        "session",
        "agent",
    )
    return {k: row[k] for k in kept}
