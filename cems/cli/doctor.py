"""`cems doctor`: every part tested end to end; what is wrong, and what mends it."""

from __future__ import annotations

import dataclasses
import datetime as dt
import subprocess
from collections.abc import Iterator
from typing import Any

import click

from cems import settings as configuration
from cems.cli import output
from cems.cli.doctoring import agent, canary, database, files, system, work
from cems.cli.doctoring.finding import Check, Finding, Patient, bad, reason
from cems.cli.installing import plan
from cems.errors import CemsError, SettingsError
from db.connect import OUTAGES

FAILURES = (CemsError, OSError, ValueError, TypeError, AttributeError, subprocess.SubprocessError, *OUTAGES)
"""What looking at something broken may raise."""
FIRST: tuple[Check, ...] = (files.check_home, files.check_disk, files.check_transcripts, files.check_cleanup)
WITH_DATABASE: tuple[Check, ...] = (
    database.check_times,
    database.check_roles,
    database.check_indexes,
    work.check_work,
    work.check_embedder,
)
AGENT: tuple[Check, ...] = (
    agent.check_hooks,
    agent.check_hook,
    agent.check_recall,
    agent.check_mcp,
    system.check_services,
)
_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "bad": ("✗", "red")}


@click.command()
@click.option("--fix", is_flag=True, help="Mend what can be mended safely, then look again.")
@click.option("--quick", is_flag=True, help="Leave out the trial session, which takes some seconds.")
@output.json_option
def doctor(fix: bool, quick: bool, as_json: bool) -> int:
    """Test each part end to end, and say for each failure what to do. Exit code 1 where something does not work.

    \b
    Examples:
      cems doctor
      cems doctor --fix              also mend what is safe to mend
    """
    found = list(_look(quick))
    mended: list[str] = []
    failed: list[str] = []
    if fix:
        for one in found:
            if one.remedy is not None:
                try:
                    one.remedy()
                    mended.append(one.says)
                except FAILURES as error:
                    failed.append(f"{one.says}: {reason(error)}")
        if mended or failed:
            found = list(_look(quick))
    counts = {level: sum(one.level == level for one in found) for level in _MARKS}
    if as_json:
        findings = [{k: v for k, v in dataclasses.asdict(one).items() if k != "remedy"} for one in found]
        outcome = {"healthy": not counts["bad"], "findings": findings, "mended": mended, "not_mended": failed}
        output.document(outcome | counts)
    else:
        _show(found, mended, failed, counts)
    return 1 if counts["bad"] else 0


def _look(quick: bool) -> Iterator[Finding]:
    """Every finding, in the order in which one thing needs the other."""
    try:
        settings = configuration.load()
    except SettingsError as error:
        yield bad("settings", str(error), error.hint or "`cems config` lists them all")
        return
    patient = Patient(settings, dt.datetime.now(dt.UTC), plan.python())
    for check in FIRST:
        yield from _guarded(check, patient)
    answers = list(_guarded(database.check_server, patient))
    yield from answers
    if not any(one.level == "bad" and one.part == "database" for one in answers):
        for check in WITH_DATABASE:
            yield from _guarded(check, patient)
        if not quick:
            yield from _guarded(canary.check_canary, patient)
    for check in AGENT:
        yield from _guarded(check, patient)


def _guarded(check: Check, patient: Patient) -> Iterator[Finding]:
    """What a check finds; a check that cannot look is a finding too."""
    try:
        yield from check(patient)
    except FAILURES as error:
        part = check.__name__.removeprefix("check_")
        yield bad(part, f"it could not be looked at: {reason(error)}", getattr(error, "hint", ""))


def _show(found: list[Finding], mended: list[str], failed: list[str], counts: dict[str, Any]) -> None:
    width = max(len(one.part) for one in found)
    for one in found:
        mark, colour = _MARKS[one.level]
        click.echo(f"{click.style(mark, fg=colour)} {one.part.ljust(width)}  {output.clean(one.says)}")
        if one.todo and one.level != "ok":
            click.echo(f"  {' ' * width}  → {output.clean(one.todo)}")
    for says in mended:
        output.note(f"mended: {says}")
    for says in failed:
        output.note(f"could not be mended: {output.clean(says)}")
    click.echo(
        "Everything works."
        if not counts["bad"] and not counts["warning"]
        else f"{output.many(counts['bad'], 'thing does', 'things do')} not work, "
        f"{output.many(counts['warning'], 'could be', 'could be')} better."
    )
