"""`cems logs`: what the parts have written down, wherever that is: systemd's journal, or files in the home."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import click

from cems import settings as configuration
from cems.cli import output
from cems.cli.installing import services, units
from cems.errors import NotFound
from cems.settings import Settings

PARTS = ("postgres", "observer", "maintenance", "recall")


@click.command()
@click.option(
    "--part", type=click.Choice(PARTS), multiple=True, help="Only this part; may be given more than once."
)
@click.option(
    "--lines", "-n", default=100, show_default=True, type=click.IntRange(1, 100_000), help="The last so many."
)
@click.option("--follow", "-f", is_flag=True, help="Go on as new lines come; Ctrl-C ends it.")
def logs(part: tuple[str, ...], lines: int, follow: bool) -> None:
    """Show the logs of the services. `cems up` writes its own to the terminal it runs in.

    \b
    Examples:
      cems logs
      cems logs --part observer -f
    """
    settings, parts = configuration.load(), part or PARTS
    argv = _journal(parts, lines, follow) or _files(settings, parts, lines, follow)
    sys.stdout.flush()
    os.execvp(argv[0], argv)


def _journal(parts: tuple[str, ...], lines: int, follow: bool) -> list[str]:
    """How to ask systemd's journal, where units are installed."""
    names = [f"cems-{part}.service" for part in parts]
    if not shutil.which("journalctl") or not any(
        (services.unit_folder() / name).exists() for name in units.SERVICES
    ):
        return []
    chosen = [word for name in names for word in ("--user-unit", name)]
    return [
        "journalctl",
        *chosen,
        "--output=cat",
        f"--lines={lines}",
        *(["--follow"] if follow else ["--no-pager"]),
    ]


def _files(settings: Settings, parts: tuple[str, ...], lines: int, follow: bool) -> list[str]:
    """How to read the files there are."""
    places = {
        "postgres": ("logs/postgres.log", "postgres/server.log"),
        "observer": ("logs/observer.log",),
        "maintenance": ("logs/maintenance.log",),
        "recall": ("logs/recall.log", "recall/service.log"),
    }
    found: list[Path] = [p for part in parts for name in places[part] if (p := settings.home / name).exists()]
    if not found:
        raise NotFound(
            "there are no logs",
            hint="`cems up` writes to the terminal it runs in; `cems install` makes services",
        )
    if len(found) > 1:
        output.note(", ".join(map(str, found)))
    return ["tail", "-n", str(lines), *(["-F"] if follow else []), *map(str, found)]
