"""What the commands print, and how: one JSON document or text for people on standard output, everything else on standard
error. Text from transcripts may hold anything, so control characters never reach a terminal."""

from __future__ import annotations

import collections
import datetime as dt
import json
import re
import sys
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cems.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

Command = TypeVar("Command", bound=Callable[..., Any])
# Escapes move the cursor and marks of direction turn text around: both could make a memory look like another.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def json_option(command: Command) -> Command:
    """Give a command --json."""
    return click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")(
        command
    )


def document(content: Any) -> None:
    """Print the command's JSON document: indented on a terminal, one line otherwise."""
    indent = 2 if sys.stdout.isatty() else None
    click.echo(json.dumps(content, default=plain, ensure_ascii=False, indent=indent))


def plain(value: Any) -> Any:
    """A value JSON does not know, as one it does."""
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, uuid.UUID | Path):
        return str(value)
    if isinstance(value, collections.abc.Mapping):
        return dict(value)
    if isinstance(value, collections.abc.Iterable):
        return list(value)
    return str(value)


def error(message: str, hint: str = "") -> None:
    """One line for what went wrong, one for what to do."""
    message = " ".join(clean(message).split())
    click.echo(click.style("error: ", fg="red", bold=True) + message, err=True)
    if hint:
        click.echo(click.style("hint: ", fg="cyan") + " ".join(clean(hint).split()), err=True)


def note(message: str) -> None:
    """A line on standard error: progress, or something the user should know beside the answer."""
    click.echo(click.style(clean(message), dim=True), err=True)


def console(*, stderr: bool = False) -> Console:
    """Where text for people goes. Wraps at the terminal's width, colours only on a terminal."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def block(
    target: Console, content: str | Text, *, indent: int = 2, style: str = "", first: str | Text = ""
) -> None:
    """Print text wrapped at the terminal's width, each line moved to the right; `first` stands before the first line. No
    line ends in spaces, so the output can be piped and compared."""
    from rich.text import Text

    body = content if isinstance(content, Text) else Text(clean(content), style=style)
    width = max(20, target.width - indent)
    prefix = Text(first) if isinstance(first, str) else first
    prefix.pad_right(indent - len(prefix))
    # One word, such as a path or an address, stays in one piece, to be copied.
    lines = body.wrap(target, width, overflow="fold") if " " in body.plain or "\n" in body.plain else [body]
    for line in lines:
        line.rstrip()
        target.print(Text.assemble(prefix, line) if line else prefix.plain.rstrip(), soft_wrap=True)
        prefix = Text(" " * indent)


def pairs(target: Console, facts: Mapping[str, str]) -> None:
    """Print names and values in two columns; what is empty is left out."""
    from rich.text import Text

    width = max((len(name) for name, value in facts.items() if value), default=0)
    for name, value in facts.items():
        if value:
            block(target, value, indent=width + 4, first=Text(f"  {name}", style="dim"))


def clean(text: str) -> str:
    """The text without control characters; line ends and tabs stay."""
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).replace("\t", "    ")


def confirm(question: str) -> bool:
    """Ask, on the terminal.

    Raises:
        UsageError: nobody is there to answer.
    """
    if not sys.stdin.isatty():
        raise UsageError(
            f"{question} Nobody is there to answer", hint="give --yes to go ahead without being asked"
        )
    return click.confirm(question, err=True)


def day(at: dt.datetime) -> str:
    """A date, in the user's time zone."""
    return f"{at.astimezone():%Y-%m-%d}"


def moment(at: dt.datetime | None) -> str:
    """A date and time, in the user's time zone."""
    return f"{at.astimezone():%Y-%m-%d %H:%M}" if at else "never"


def until(at: dt.datetime, now: dt.datetime) -> str:
    """When something will be: the time alone where it is today."""
    local = at.astimezone()
    return f"{local:%H:%M:%S}" if local.date() == now.astimezone().date() else f"{local:%Y-%m-%d %H:%M}"


def duration(seconds: float) -> str:
    """A length of time, in the one or two units that matter."""
    seconds = max(0.0, seconds)
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, length, smaller, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= length:
            rest = whole % length // part
            return f"{whole // length} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def ago(at: dt.datetime | None, now: dt.datetime) -> str:
    """How long ago something was."""
    if at is None:
        return "never"
    seconds = (now - at).total_seconds()
    if seconds < 2:
        return "just now"
    unit = next(unit for unit in (86400, 3600, 60, 1) if seconds >= unit)
    return f"{duration(max(10 if unit == 1 else unit, seconds // unit * unit))} ago"


def size(count: float) -> str:
    """A number of bytes."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def many(count: int, one: str, several: str = "") -> str:
    """A number with its noun."""
    return f"{count:,} {one if count == 1 else several or one + 's'}"


def tally(counts: Mapping[str, int]) -> str:
    """Counts by name, the largest first."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in ranked if count)
