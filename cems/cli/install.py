"""`cems install` and `cems uninstall`: into the agent and the machine's services, and out again. Both show what they will do,
ask, do it, look whether it works, and say what comes next."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from cems import home
from cems import settings as configuration
from cems.cli import output
from cems.cli.installing import hooks, launchd, plan, services, units
from cems.cli.installing.steps import Step, StepFailed
from cems.cli.processes import holder
from cems.errors import CemsError, UsageError
from cems.settings import Settings

_START_SECONDS = 30.0
"""Patience with services that start for the first time."""
_END_SECONDS = 10.0
_USERS = ("up", "observer", "maintain", "database", "recall")
"""The locks of processes that a home must not be deleted under."""
_MARKS = {"machine-id", "redaction-key"}
"""What a home holds that was in use."""
_OURS = _MARKS | {"backups", "config.toml", "hook", "logs", "models", "recall", "service.env"}
"""What else one may hold."""


@click.command()
@click.option(
    "--settings",
    "in_settings",
    is_flag=True,
    help="Put hooks into the agent's settings.json instead of a plugin.",
)
@click.option(
    "--only",
    type=click.Choice(plan.PARTS),
    multiple=True,
    help="Only this part; may be given more than once.",
)
@click.option("--dry-run", is_flag=True, help="Show every step and what it changes, and do nothing.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@output.json_option
def install(in_settings: bool, only: tuple[plan.Part, ...], dry_run: bool, yes: bool, as_json: bool) -> int:
    """Install into Claude Code (hooks, MCP server, skills) and as services that start at login.

    Everything lies in one plugin folder of the agent's, so no file of yours is edited; with --settings the hooks become
    entries of your settings.json instead. Run again it repairs what is missing and changes nothing else. `cems uninstall`
    is its inverse.

    \b
    Examples:
      cems install --dry-run         every step, and what it changes
      cems install                   ask, do it, and look whether it works
      cems install --only services
    """
    settings = configuration.load()
    parts = frozenset(only or plan.PARTS)
    way: plan.Way = "settings" if in_settings else "plugin"
    steps = plan.install(settings, way, parts)
    result: dict[str, Any] = {"way": way, "parts": sorted(parts), "steps": _said(steps), "done": False}
    if not _go_on(steps, "install", dry_run, yes, as_json):
        return _end(result | {"dry_run": dry_run}, as_json, 0 if dry_run else 1)
    home.ensure(settings.home)
    _do(steps, as_json)
    result["done"] = True
    problems = _verify(settings, parts)
    following = _next(settings, way, parts)
    if not as_json:
        output.note("everything is in place" if not steps else "installed")
        for problem in problems:
            output.error(problem, "`cems doctor` looks closer")
        for line in following:
            click.echo(line)
    return _end(result | {"problems": problems, "next": following}, as_json, 1 if problems else 0)


@click.command()
@click.option(
    "--purge", is_flag=True, help="Delete CEMS_HOME too: every memory, the database, the keys. Asks twice."
)
@click.option("--dry-run", is_flag=True, help="Show every step, and do nothing.")
@click.option("--yes", "-y", count=True, help="Do not ask; with --purge it has to be given twice.")
@output.json_option
def uninstall(purge: bool, dry_run: bool, yes: int, as_json: bool) -> int:
    """Take hooks, MCP server, skills and services away; memories stay unless --purge is given.

    \b
    Examples:
      cems uninstall
      cems uninstall --purge         and delete every memory
    """
    settings = configuration.load()
    steps = plan.uninstall(settings)
    if purge and settings.home.exists():
        _refuse_to_purge(settings)
        steps.append(Step(f"delete {_whole(settings)}", lambda: _purge(settings)))
    result: dict[str, Any] = {"steps": _said(steps), "done": False, "purge": purge}
    if not _go_on(steps, "uninstall", dry_run, yes > 0, as_json):
        return _end(result | {"dry_run": dry_run}, as_json, 0 if dry_run else 1)
    if purge and yes < 2 and not _really(settings, as_json):
        return _end(result, as_json, 1)
    _do(steps, as_json)
    if not as_json:
        output.note("nothing is installed" if not steps else "uninstalled")
        if not purge:
            click.echo(
                f"Memories and settings are still in {settings.home}; `cems install` takes them up again."
            )
    return _end(result | {"done": True}, as_json, 0)


def _said(steps: Sequence[Step]) -> list[dict[str, str]]:
    return [{"step": step.says, "detail": step.detail} for step in steps]


def _go_on(steps: Sequence[Step], what: str, dry_run: bool, yes: bool, as_json: bool) -> bool:
    """Show the steps and ask; whether to do them."""
    if not as_json:
        for step in steps:
            click.echo(step.says)
            if dry_run and step.detail:
                click.echo("\n".join(f"    {line}" for line in step.detail.splitlines()))
        if not steps:
            click.echo(f"There is nothing to {what}.")
    if dry_run:
        return False
    if not steps or yes:
        return True
    if not sys.stdin.isatty() or as_json:
        raise UsageError("nobody is there to be asked", hint="look with --dry-run, then give --yes")
    return click.confirm("Do this?", default=True)


def _really(settings: Settings, as_json: bool) -> bool:
    if as_json or not sys.stdin.isatty():
        raise UsageError(
            f"--purge deletes {_whole(settings)}", hint="give --yes twice if that is what you want"
        )
    return click.confirm(f"This deletes {_whole(settings)}, for good. Really?", default=False)


def _whole(settings: Settings) -> str:
    """What --purge deletes."""
    if settings.database_url:
        return f"{settings.home} with its settings and keys; memories stay in the other server's database"
    return f"{settings.home} with every memory in it"


def _refuse_to_purge(settings: Settings) -> None:
    """Look, before anything is done, whether the folder is ours alone to delete.

    Raises:
        UsageError: it is not, or it is in use.
    """
    folder, users = settings.home.resolve(), Path.home().resolve()
    found = {path.name for path in folder.iterdir() if path.suffix != ".lock"}
    ours = "postgres" in found or found.issuperset(_MARKS) or found.issubset(_OURS)
    if users.is_relative_to(folder) or not ours:
        raise UsageError(
            f"{settings.home} is not a folder that CEMS alone made, so it is not deleted",
            hint="look at CEMS_HOME; `cems uninstall` without --purge takes everything else away",
        )
    if (process := holder(settings.home, "up")) is not None:
        raise UsageError(f"`cems up` is running (process {process})", hint="end it, then run this again")


def _do(steps: Sequence[Step], as_json: bool) -> None:
    """Do the steps in order.

    Raises:
        CemsError: one failed; what was done before it stays, and running the command again goes on there.
    """
    for number, step in enumerate(steps, 1):
        if not as_json:
            output.note(f"[{number}/{len(steps)}] {step.says}")
        try:
            step.do()
        except CemsError as error:
            hint = error.hint or "mend it and run this again: it goes on where it stopped"
            raise CemsError(f"{step.says}: {error}", hint=hint) from error


def _verify(settings: Settings, parts: frozenset[plan.Part]) -> list[str]:
    """What does not work although everything is in place."""
    problems = []
    if "hooks" in parts:
        try:
            hooks.ask(plan.python(), settings.home, "SessionStart", source="startup", cwd=str(settings.home))
        except hooks.HookFailed as error:
            problems.append(f"the hook: {error}")
    if "services" in parts and services.manager() == "systemd":
        problems += _not_running(settings)
    if "services" in parts and services.manager() == "launchd":
        labels = map(launchd.label, services.agents(settings, plan.python()))
        problems += [f"{label} is not loaded" for label in labels if services.agent_state(label) is None]
    return problems


def _not_running(settings: Settings) -> list[str]:
    """Units that are not active after some time to start in."""
    names = units.enabled(services.place(settings, plan.python()))
    deadline = time.monotonic() + _START_SECONDS
    while waiting := [name for name in names if not services.is_active(name)]:
        if time.monotonic() > deadline:
            return [f"{name} does not run; `systemctl --user status {name}` says why" for name in waiting]
        time.sleep(0.5)
    return []


def _next(settings: Settings, way: plan.Way, parts: frozenset[plan.Part]) -> list[str]:
    """What to do now."""
    lines = []
    if parts & {"hooks", "mcp"}:
        lines.append(
            "New sessions of Claude Code have their memory; sessions that are open now keep what they have."
        )
    if way == "settings" and "mcp" in parts and not plan.server_is_registered(settings):
        lines.append("Register the MCP server: " + " ".join(plan.server_command(settings)))
    if "services" in parts:
        if services.manager() == "none":
            lines.append(
                "No service manager runs for you here: keep `cems up` running, in a terminal of its own."
            )
        elif services.lingers() is False:
            lines.append(
                "Your services stop when you log out; `loginctl enable-linger` lets them go on (missed jobs are caught up)."
            )
    if not settings.gemini_api_key:
        # The services of systemd have a file of their own; everything else reads the settings.
        file = "service.env" if services.manager() == "systemd" else "config.toml"
        lines.append(
            f"Memories are written by rules; with a Gemini key in {settings.home / file}, by a model."
        )
    lines.append(
        "Learn from the sessions there are: `cems backfill`. See what it knows and does: `cems status`."
    )
    return lines


def _purge(settings: Settings) -> None:
    from db import embedded

    # Services were stopped just now, and may take a moment.
    deadline = time.monotonic() + _END_SECONDS
    while running := [(name, pid) for name in _USERS if (pid := holder(settings.home, name)) is not None]:
        if time.monotonic() > deadline:
            said = ", ".join(f"{name} (process {pid})" for name, pid in running)
            raise StepFailed(f"still running: {said}", hint="end it, then run this again")
        time.sleep(0.1)
    try:
        if not settings.database_url:
            embedded.stop(settings.home)
            if (elsewhere := embedded.outside(settings.home)) is not None:
                shutil.rmtree(elsewhere)
        shutil.rmtree(settings.home)
    except OSError as error:
        raise StepFailed(f"{error.filename or settings.home}: {error.strerror or error}") from error


def _end(result: dict[str, Any], as_json: bool, code: int) -> int:
    if as_json:
        output.document(result)
    return code
