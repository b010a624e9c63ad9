"""`cems context`: exactly what a session would be given when it starts, with sizes on standard error or in the JSON."""

from __future__ import annotations

import datetime as dt
import math
import os
from pathlib import Path

import click

from cems import home
from cems import settings as configuration
from cems.cli import output


@click.command()
@click.option(
    "--source",
    type=click.Choice(["startup", "resume", "clear", "compact", "fork"]),
    default="startup",
    show_default=True,
    help="How the session starts.",
)
@click.option(
    "--cwd",
    "folders",
    metavar="FOLDER",
    multiple=True,
    help="The session's folder; default: this one. Given again: further folders whose projects are merged by time.",
)
@click.option(
    "--session", "session_id", metavar="ID", default="", help="The session's id, for resume and compact."
)
@click.option("--transcript", metavar="FILE", default="", help="The session's transcript.")
@output.json_option
def context(source: str, folders: tuple[str, ...], session_id: str, transcript: str, as_json: bool) -> None:
    """Print exactly what a session would be given when it starts.

    \b
    Examples:
      cems context
      cems context --cwd ~/work/larder-api --json
      cems context --source compact --session 6b05530a-6193-4a7e-937e-08d7eb51f498
    """
    settings = configuration.load()
    from cems.cli.reach import database
    from recall.block import CHARACTERS_PER_TOKEN, shown_ids, size
    from recall.session import Limits, SessionRequest
    from recall.session import context as make

    places = [_folder(folder) for folder in folders] or [os.getcwd()]  # noqa: PTH109 - as the shell names it
    if session_id and not transcript:
        transcript = _transcript(settings.claude_dirs(), session_id)
    with database(settings, "cems_reader") as db:
        text = make(
            db,
            SessionRequest(
                source=source,  # type: ignore[arg-type]  # one of the choices
                cwd=places[0],
                session_id=session_id,
                transcript_path=transcript,
                machine=home.machine_id(settings.home),
                now=dt.datetime.now(dt.UTC),
                limits=Limits.of(settings),
                folders=tuple(places[1:]),
                config_dirs=tuple(settings.claude_dirs()),
            ),
        )
    sizes = {
        "characters": len(text),
        "tokens": math.ceil(size(text) / CHARACTERS_PER_TOKEN),
        "items": sum(line.startswith("- ") for line in text.splitlines()),
        "memories": len(shown_ids(text)),
    }
    if as_json:
        output.document({"source": source, "cwd": places[0], "context": text} | sizes)
        return
    if text:
        click.echo(output.clean(text))
    output.note(
        f"{output.many(sizes['characters'], 'character')}, about {output.many(sizes['tokens'], 'token')}, "
        f"{output.many(sizes['items'], 'item')}, {output.many(sizes['memories'], 'memory', 'memories')}"
        if text
        else "nothing: the session has everything already"
    )


def _folder(text: str) -> str:
    return os.path.normpath(Path(text).expanduser().absolute())  # a symlink stays: the resolver decides


def _transcript(config_dirs: list[Path], session_id: str) -> str:
    """The file of a session, where the agent keeps it."""
    if not session_id.replace("-", "").isalnum():
        return ""
    found = (path for config in config_dirs for path in config.glob(f"projects/*/{session_id}.jsonl"))
    return str(next(found, ""))
