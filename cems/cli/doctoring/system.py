"""The services: there, started, and allowed to go on."""

from __future__ import annotations

import plistlib
import stat
from collections.abc import Iterator
from typing import Any
from xml.parsers.expat import ExpatError

from cems.cli.doctoring.finding import Finding, Patient, bad, ok, warning
from cems.cli.installing import launchd, services, units
from cems.cli.processes import holder


def check_services(patient: Patient) -> Iterator[Finding]:
    """Units are installed as this version has them, and run."""
    settings, part = patient.settings, "services"
    kind = services.manager()
    if kind == "launchd":
        yield from check_agents(patient)
        return
    if kind != "systemd":
        runs = holder(settings.home, "up") is not None
        says = f"no service manager here; `cems up` {'runs' if runs else 'does not run'}"
        yield ok(part, says) if runs else warning(part, says, "keep `cems up` running, or `cems install`")
        return
    folder, place = services.unit_folder(), services.place(settings, patient.python)
    wanted = units.units(place)
    missing = [name for name in wanted if not (folder / name).exists()]
    if len(missing) == len(wanted):
        yield warning(part, "none are installed", "`cems install`, or keep `cems up` running")
        return
    changed = [name for name in wanted if name not in missing and (folder / name).read_text() != wanted[name]]
    for name in (*missing, *changed):
        yield bad(
            part,
            f"{name} is {'missing' if name in missing else 'not this version’s'}",
            "`cems install --only services`",
        )
    idle = [name for name in units.enabled(place) if not services.is_active(name)]
    for name in idle:
        yield bad(
            part,
            f"{name} does not run",
            f"systemctl --user status {name}; then systemctl --user start {name}",
        )
    if not (missing or changed or idle):
        yield ok(part, f"{len(units.enabled(place))} run")
    if services.lingers() is False:
        yield warning(part, "they end when you log out", "loginctl enable-linger")
    environment = settings.home / "service.env"
    if environment.exists() and stat.S_IMODE(environment.stat().st_mode) & 0o077:
        return  # the home's check says so
    if not environment.exists():
        yield warning(
            part,
            f"{environment} is missing: services know no key and no setting of your shell",
            "`cems install --only services`",
        )


def check_agents(patient: Patient) -> Iterator[Finding]:
    """The same of launchd's agents."""
    settings, part = patient.settings, "services"
    wanted = services.agents(settings, patient.python)
    if not any(path.exists() for path in wanted):
        if holder(settings.home, "up") is not None:
            yield ok(part, "none are installed; `cems up` runs")
        else:
            yield warning(part, "none are installed", "`cems install`, or keep `cems up` running")
        return
    wrong = False
    for path, content in wanted.items():
        label = launchd.label(path)
        state = services.agent_state(label)
        log = settings.home / "logs" / f"{label.removeprefix(launchd.LABEL + '.')}.log"
        if not path.exists() or _program(path.read_bytes()) != _program(content):
            what = "not this version’s" if path.exists() else "missing"
            yield bad(part, f"{path} is {what}", "`cems install --only services`")
        elif state is None:
            yield bad(part, f"{label} is not loaded", "`cems install --only services`")
        elif state not in ("running", ""):
            yield bad(part, f"{label} does not run ({state})", f"its log {log} says why")
        else:
            continue
        wrong = True
    if not wrong:
        yield ok(part, f"{len(wanted)} run")


def _program(content: bytes) -> dict[str, Any] | None:
    """What a property list runs, without what it took from the shell that made it; None where it is none."""
    try:
        found = plistlib.loads(content)
        given = found.pop("EnvironmentVariables")
        return {**found, "home": given["CEMS_HOME"]}
    except (ExpatError, ValueError, KeyError, TypeError, AttributeError):
        return None
