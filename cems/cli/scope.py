"""What users say about where and when, turned into what the database asks for: a project by name, identity, id or folder,
and a time by date or age; with the options that say both."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from cems import home, project
from cems.errors import NotFound, UsageError
from cems.models import KINDS
from cems.project import Project
from cems.settings import Settings
from cems.text import sanitise
from db import memories
from db.connect import Database

_AGE = re.compile(r"(\d{1,5})\s*(h|d|w|mo|y)")
_HOURS = {"h": 1, "d": 24, "w": 7 * 24, "mo": 30 * 24, "y": 365 * 24}


def since(_ctx: click.Context, param: click.Parameter, value: str | None) -> dt.datetime | None:
    """A callback for options: `2026-11-01`, `2026-11-01T09:30`, `today`, `yesterday`, or an age such as `6h`, `30d`, `2w`.
    Dates are in the user's time zone."""
    if value is None:
        return None
    now = dt.datetime.now().astimezone()
    text = value.strip().lower()
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    try:
        if match := _AGE.fullmatch(text):
            return now - dt.timedelta(hours=int(match[1]) * _HOURS[match[2]])
        if text in ("today", "yesterday"):
            return today - dt.timedelta(days=text == "yesterday")
        return dt.datetime.fromisoformat(text.upper()).astimezone()  # without a zone: the user's
    except (ValueError, OverflowError):
        message = f"{value!r} is no date (2026-11-01) and no age (6h, 30d, 2w, 3mo, 1y)"
        raise click.BadParameter(message, param=param) from None


def find_projects(db: Database, settings: Settings, wanted: str) -> list[uuid.UUID]:
    """The project a user means, as the database knows it; a folder that is there is a project even if nothing is known of
    it yet.

    Raises:
        NotFound: nothing is known of it; UsageError: several projects have this name.
    """
    wanted = sanitise(wanted)
    if not _is_path(wanted):
        try:
            return memories.find_project(db, wanted)
        except NotFound:
            if not project.is_folder(Path(wanted)):
                raise
    folder = _folder(wanted)
    found = project.resolve(folder, str(home.machine_id(settings.home)))
    if project.is_folder(Path(folder)):
        return [found.id]
    for known in (str(found.id), folder):
        with contextlib.suppress(NotFound):
            return memories.find_project(db, known)
    raise NotFound(f"nothing is known of {folder}", hint="`cems status` lists the projects")


def named_project(db: Database, settings: Settings, wanted: str | None) -> Project:
    """The project to store something for; a folder may be new, a name must be known; None: the current folder's."""
    if wanted is None:
        return project.resolve(os.getcwd(), str(home.machine_id(settings.home)))  # noqa: PTH109 - as the shell names it
    if _is_path(wanted) and project.is_folder(Path(_folder(wanted))):
        return project.resolve(_folder(wanted), str(home.machine_id(settings.home)))
    ids = find_projects(db, settings, wanted)
    row = next(row for row in memories.projects(db) if row["id"] == ids[0])
    return Project(row["identity"], row["name"], row["root"])


def only_one(**given: object) -> None:
    """Refuse options that contradict each other."""
    names = [f"--{name.replace('_', '-')}" for name, value in given.items() if value]
    if len(names) > 1:
        raise UsageError(f"{' and '.join(names)} exclude each other", hint="give one of them")


def _is_path(text: str) -> bool:
    return text in (".", "..") or text.startswith(("/", "./", "../", "~"))


def _folder(text: str) -> str:
    # A symlink stays: the resolver decides. `~nobody` is left as it is.
    return os.path.abspath(os.path.expanduser(text))  # noqa: PTH100, PTH111


def narrowing(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options by which a list of memories and a search are narrowed."""
    options = (
        click.option(
            "--project",
            "-p",
            metavar="P",
            help="A project's name, identity, id or folder (`.` for this one), and what holds everywhere.",
        ),
        click.option("--everywhere-only", is_flag=True, help="Only what holds in every project."),
        click.option("--kind", type=click.Choice(KINDS), help="Only memories of this kind."),
        click.option("--concept", help="Only memories of this concept, such as gotcha."),
        click.option("--file", help="Only memories about this file: its path, or the end of it."),
        click.option(
            "--since",
            metavar="WHEN",
            callback=since,
            help="Only what happened since a date (2026-11-01) or an age (6h, 30d, 2w).",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command
