"""The services: there, started, and allowed to go on."""

from __future__ import annotations

import stat
from collections.abc import Iterator

from cems.cli.doctoring.finding import Finding, Patient, bad, ok, warning
from cems.cli.installing import services, units
from cems.cli.processes import holder


def check_services(patient: Patient) -> Iterator[Finding]:
    """Units are installed as this version has them, and run."""
    settings, part = patient.settings, "services"
    kind = services.manager()
    if kind != "systemd":
        runs = holder(settings.home, "up") is not None
        says = f"{'no service manager' if kind == 'none' else kind} here; `cems up` {'runs' if runs else 'does not run'}"
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
