"""`cems hook EVENT`: what an agent's hook runs, by a name that is easy to type. It becomes the thin program that installed
hooks call directly, so there is one way only. No argument can make it fail: exit code 2 would erase the user's prompt."""

from __future__ import annotations

import importlib.util
import os
import sys

import click


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]})
@click.argument("event", nargs=-1, type=click.UNPROCESSED)
def hook(event: tuple[str, ...]) -> None:
    """Give memories to a session: the agent's description of the event on standard input, one JSON document on standard
    output, always exit code 0.

    \b
    Example:
      echo '{"cwd": "/src/app", "prompt": "why do uploads retry?"}' | cems hook UserPromptSubmit
    """
    found = importlib.util.find_spec("recall.hook")
    if found is None or not found.origin:
        click.echo("{}")
        return
    os.execv(sys.executable, [sys.executable, "-I", "-S", found.origin, *event[:1]])
