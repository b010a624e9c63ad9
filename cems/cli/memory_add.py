"""`cems memory add`: memories written by hand, one as an argument or many as JSON Lines. Either every line given is stored or
none is; what looks like a secret is taken out first."""

from __future__ import annotations

import datetime as dt
import re
import sys
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Annotated

import click
import msgspec

from cems import home
from cems import settings as configuration
from cems.cli import output, scope
from cems.errors import CemsError, UsageError
from cems.models import BODY_LIMIT, KINDS, LIST_LIMIT, TITLE_LIMIT, Kind
from cems.redact import Redactor
from cems.settings import Settings
from cems.text import one_line

if TYPE_CHECKING:
    from cems.project import Project
    from db.memories import HandWritten, Stored

LINE_BYTES = 64 * 1024
"""Bytes of a JSON line; the longest memory, every character escaped, needs less than half of it."""
LINE_COUNT = 10_000
PROBLEMS_SHOWN = 20
_SENTENCE = re.compile(r"(?<=[.!?…。！？])\s+|\n+")

Short = Annotated[str, msgspec.Meta(max_length=300)]


class Refused(UsageError):
    """Lines cannot be used, so nothing was stored."""

    hint = "`cems memory add --help` lists the fields of a line"

    def __init__(self, message: str, details: list[str]) -> None:
        super().__init__(message)
        self.details = details


class Given(msgspec.Struct, forbid_unknown_fields=True):
    """One memory as it is given; `title`, or `text` whose first sentence becomes the title."""

    title: str = ""
    text: str = ""
    body: str = ""
    kind: Kind | None = None
    concepts: Annotated[tuple[Short, ...], msgspec.Meta(max_length=LIST_LIMIT)] = ()
    files: Annotated[tuple[Short, ...], msgspec.Meta(max_length=LIST_LIMIT)] = ()
    project: str | None = None
    everywhere: bool = False


@click.command()
@click.argument("text", required=False)
@click.option("--kind", type=click.Choice(KINDS), default="preference", show_default=True, help="What it is.")
@click.option(
    "--project",
    "-p",
    metavar="P",
    help="The project it holds in: a name, identity, id or folder. Default: this folder's.",
)
@click.option("--everywhere", is_flag=True, help="It holds in every project.")
@click.option("--title", help="The title; TEXT is the body then. Default: the first sentence of TEXT.")
@click.option("--concept", "concepts", multiple=True, help="A concept, such as gotcha; may be repeated.")
@click.option("--file", "files", multiple=True, help="A file it is about; may be repeated.")
@click.option(
    "--stdin", "from_stdin", is_flag=True, help="Read JSON Lines from standard input; `-` for TEXT does too."
)
@output.json_option
def add(
    text: str | None,
    kind: Kind,
    project: str | None,
    everywhere: bool,
    title: str | None,
    concepts: tuple[str, ...],
    files: tuple[str, ...],
    from_stdin: bool,
    as_json: bool,
) -> None:
    """Write a memory by hand. It holds in the current folder's project unless you say otherwise.

    Each JSON line is an object with `text`, or `title` and `body`, and optionally `kind`, `concepts`, `files`, `project`
    or `everywhere`; the options are their defaults. All lines are stored, or none.

    \b
    Examples:
      cems memory add "Always use uv, never pip." --everywhere
      cems memory add "Deploys go out on Tuesdays." --kind context
      cems memory add --stdin < rules.jsonl
    """
    scope.only_one(project=project, everywhere=everywhere)
    from_stdin = from_stdin or text == "-"
    settings = configuration.load()
    if from_stdin:
        given = list(_read_lines(sys.stdin.buffer))
    elif text is None and title is None:
        raise UsageError(
            "there is nothing to remember", hint='`cems memory add "…"`, or --stdin for JSON Lines'
        )
    else:
        entry = Given(title=title or "", body=text or "") if title else Given(text=text or "")
        given = [(0, entry)]
        entry.files = files
    for _, one in given:
        if isinstance(one, Given):
            one.kind = one.kind or kind
            one.concepts = one.concepts or concepts
            if not one.everywhere and one.project is None:
                one.project, one.everywhere = project, everywhere
    _store(settings, given, as_json)


def _store(settings: Settings, given: list[tuple[int, Given | str]], as_json: bool) -> None:
    """Check every entry, then store all of them."""
    from cems.cli.reach import database
    from db import memories

    redactor = Redactor(home.redaction_key(settings.home))
    with database(settings, "cems_writer", make=True) as db:
        known: dict[str | None, Project] = {}

        def project_of(wanted: str | None) -> Project:
            if wanted not in known:
                known[wanted] = scope.named_project(db, settings, wanted)
            return known[wanted]

        entries, problems = [], []
        for number, one in given:
            made = one if isinstance(one, str) else _made(one, redactor, settings, project_of)
            if isinstance(made, str):
                problems.append((number, made))
            else:
                entries.append(made)
        if problems:
            _refuse(problems, len(given))
        stored = memories.add_by_hand(db, entries, dt.datetime.now(dt.UTC))
    _report(stored, entries, as_json)


def _report(stored: Stored, entries: list[HandWritten], as_json: bool) -> None:
    new = sum(stored.new.values())
    if as_json:
        output.document(
            {
                "ids": stored.ids,
                "new": new,
                "by_kind": stored.new,
                "seen_again": stored.seen_again,
                "forgotten": stored.forgotten,
            }
        )
        return
    for memory in stored.ids:
        click.echo(str(memory))
    where = {e.project.name if e.project else "every project" for e in entries}
    if new:
        output.note(
            f"remembered for {', '.join(sorted(where)) if len(where) < 4 else output.many(len(where), 'project')}"
        )
    if stored.seen_again:
        output.note(f"known already: {stored.seen_again}")
    if stored.forgotten:
        output.note(
            f"not stored, as it was forgotten on purpose: {stored.forgotten}; `cems memory restore` brings it back"
        )


def _read_lines(stream: IO[bytes]) -> Iterator[tuple[int, Given | str]]:
    """(line number, entry or what is wrong with it) of each line that is not blank."""
    number = found = 0
    while line := stream.readline(LINE_BYTES + 1):
        number += 1
        if len(line) > LINE_BYTES:
            while line and not line.endswith(b"\n"):
                line = stream.readline(LINE_BYTES)
            yield number, f"longer than {LINE_BYTES:,} bytes"
            continue
        if not line.strip():
            continue
        found += 1
        if found > LINE_COUNT:
            raise UsageError(f"more than {LINE_COUNT:,} lines", hint="give them in several runs")
        yield number, _decoded(line.rstrip(b"\r\n"))
    if number == 0:
        raise UsageError("standard input is empty", hint='one JSON object a line: {"text": "Always use uv."}')


def _decoded(line: bytes) -> Given | str:
    if b"\0" in line:
        return "contains a NUL byte"
    try:
        line.decode()
        return msgspec.json.decode(line, type=Given)
    except UnicodeDecodeError as error:
        return f"not UTF-8 (byte {error.start + 1})"
    except msgspec.ValidationError as error:
        return f"the kind must be one of {', '.join(KINDS)}" if "$.kind" in str(error) else str(error)[:300]
    except (msgspec.DecodeError, RecursionError) as error:
        return f"not a JSON object: {error}"[:300]


def _made(
    one: Given, redactor: Redactor, settings: Settings, project_of: Callable[[str | None], Project]
) -> HandWritten | str:
    """The memory to store, or why it cannot be."""
    from db.memories import HandWritten

    if bool(one.title.strip()) == bool(one.text.strip()):
        return "it needs a title or a text, one of the two"
    if any(
        "\0" in part for part in (one.title, one.text, one.body, *one.concepts, *one.files, one.project or "")
    ):
        return "contains a NUL character"
    if one.everywhere and one.project is not None:
        return "project and everywhere exclude each other"
    if one.text and one.body:
        return "a text is divided into title and body; give title and body instead"
    # Redacted before it is divided: what is private may span sentences.
    title, body = (
        (redactor.redact(one.title), redactor.redact(one.body))
        if one.title.strip()
        else split(redactor.redact(one.text))
    )
    title, body = " ".join(title.split()), body.strip()
    if not title:
        return "nothing is left after what is private was taken out"
    for name, length, limit in (("title", len(title), TITLE_LIMIT), ("body", len(body), BODY_LIMIT)):
        if length > limit:
            return f"the {name} has {length:,} characters; {limit:,} is the most"
    concepts = tuple(dict.fromkeys("-".join(c.lower().replace("_", " ").split()) for c in one.concepts))
    if unknown := [c for c in concepts if c not in settings.extraction_concepts]:
        return f"there is no concept {unknown[0]!r}; there are {', '.join(settings.extraction_concepts)}"
    files = tuple(dict.fromkeys(redactor.redact(f).strip() for f in one.files if f.strip()))
    try:
        project = None if one.everywhere else project_of(one.project)
    except CemsError as error:
        return str(error)
    return HandWritten(one.kind or "preference", title, body, concepts, files, project)


def split(text: str) -> tuple[str, str]:
    """(title, body): the first sentence and the rest. A first sentence too long for a title is cut in the title and whole in
    the body."""
    text = text.strip()
    first, *rest = _SENTENCE.split(text, maxsplit=1)
    if len(first) > TITLE_LIMIT:
        return one_line(first, TITLE_LIMIT), text
    return first, rest[0].strip() if rest else ""


def _refuse(problems: list[tuple[int, str]], count: int) -> None:
    """Say what is wrong with each entry, and store nothing."""
    if problems[0][0] == 0:
        raise UsageError(problems[0][1])
    details = [f"line {number}: {reason}" for number, reason in problems[:PROBLEMS_SHOWN]]
    if len(problems) > PROBLEMS_SHOWN:
        details.append(f"and {len(problems) - PROBLEMS_SHOWN:,} more")
    raise Refused(
        f"{len(problems):,} of {output.many(count, 'line')} cannot be used, so nothing was stored", details
    )
