"""The services of this machine: systemd's user units, launchd's agents, or neither, and then `cems up` is what runs."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from cems.cli.installing import launchd
from cems.cli.installing.steps import Step, command, gone, own_files
from cems.cli.installing.units import SERVICES, SOCKET, Place, enabled, units
from cems.settings import Settings, environment_name, fields

Manager = Literal["systemd", "launchd", "none"]
FORWARDED = ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE", "TZ")
"""What a service needs of a shell's environment besides our own settings, to reach a model."""
_ASK_SECONDS = 10


def manager() -> Manager:
    """What starts services for this user."""
    if sys.platform == "darwin":
        return "launchd" if shutil.which("launchctl") else "none"
    return "systemd" if systemd_version() else "none"


def systemd_version() -> int:
    """The version of the user's systemd; 0 where none runs."""
    found = _ask("systemctl", "--user", "show", "--property=Version", "--value")
    match = re.match(r"\d+", found or "")
    return int(match[0]) if match else 0


def lingers() -> bool | None:
    """Whether the user's services go on after the last logout; None: it cannot be told."""
    found = _ask("loginctl", "show-user", getpass.getuser(), "--property=Linger", "--value")
    return {"yes": True, "no": False}.get(found or "")


def place(settings: Settings, python: str) -> Place:
    """What the units are made for on this machine."""
    return Place(
        python=python,
        home=settings.home,
        systemd=systemd_version(),
        embedded=not settings.database_url,
        files=_own_view_of_files(),
    )


def unit_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where a user's units lie."""
    base = environment.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "systemd" / "user"


def install(settings: Settings, python: str, kind: Manager) -> list[Step]:
    """Steps that put the services in place and start them; none where all is as it should be."""
    if kind == "none":
        return []
    # Its text is not shown: keys are in it.
    there = _environment_path(settings).exists()
    first = [] if there else own_files(_environment_file(settings), show=False)
    if kind == "launchd":
        own = own_files(
            launchd.agents(
                python, settings.home, Path.home(), _plain(settings), embedded=not settings.database_url
            )
        )
        domain = f"gui/{os.getuid()}"
        starts = [
            command(
                "launchctl", "bootstrap", domain, step.says.split(" ", 1)[1], why="start it now and at login"
            )
            for step in own
        ]
        return [*first, *own, *starts]
    at, folder = place(settings, python), unit_folder()
    wanted = {folder / name: text.encode() for name, text in units(at).items()}
    own = own_files(wanted, 0o644)
    old = gone([p for p in _known(folder) if p not in wanted])
    if not own and not old and all(_is(name, "enabled") and _is(name, "active") for name in enabled(at)):
        return first
    return [
        *first,
        *old,
        *own,
        command("systemctl", "--user", "daemon-reload", why="read the units"),
        command("systemctl", "--user", "enable", "--no-block", "--now", *enabled(at), why="start them now and at login"),
        command("systemctl", "--user", "try-restart", "--no-block", *_running(at), why="run what is new", may_fail=True),
    ]  # fmt: skip


def uninstall(settings: Settings, kind: Manager) -> list[Step]:
    """Steps that stop the services and take them away."""
    if kind == "launchd":
        agents = [launchd.folder(Path.home()) / f"{launchd.LABEL}.{name}.plist" for name in launchd.SERVICES]
        there = [path for path in agents if path.exists()]
        stops = [
            command("launchctl", "bootout", f"gui/{os.getuid()}", str(path), why="stop it", may_fail=True)
            for path in there
        ]
        return [*stops, *gone(there)]
    folder = unit_folder()
    files = _known(folder)
    removed = gone(files, [folder / f"{name}.d" for name in SERVICES])
    if kind == "none" or not removed:
        return removed
    names = [name for name in (*SERVICES, SOCKET) if folder / name in files]
    return [
        command("systemctl", "--user", "disable", "--now", *names, why="stop them", may_fail=True),
        *removed,
        command("systemctl", "--user", "daemon-reload", why="forget the units", may_fail=True),
        command("systemctl", "--user", "reset-failed", "cems-*", why="forget their failures", may_fail=True),
    ]


def _known(folder: Path) -> list[Path]:
    """Every file of ours among the units."""
    names = [folder / name for name in (*SERVICES, SOCKET)]
    names += [folder / f"{name}.d" / "files.conf" for name in SERVICES]
    return [path for path in names if os.path.lexists(path)]


def _environment_path(settings: Settings) -> Path:
    return settings.home / "service.env"


def _environment_file(settings: Settings) -> dict[Path, bytes]:
    """Settings and keys of this shell, for services that see nothing of it."""
    lines = [
        "# What the services of CEMS are told: NAME=value, one a line. Read at their start; keep it to yourself (mode 0600).",
        "# `cems config` lists the names. A key of the Gemini API goes here: CEMS_GEMINI_API_KEY=...",
    ]
    lines += [f"{name}={_quoted(value)}" for name, value in given(settings).items()]
    return {_environment_path(settings): ("\n".join(lines) + "\n").encode()}


def given(settings: Settings, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The settings that come from this shell's environment, under their own names, and what else a service needs of it."""
    found = {}
    for field in fields():
        source = settings.sources.get(field.name, "")
        if field.name != "home" and source in environment and environment[source]:
            found[environment_name(field)] = environment[source]
    return found | {name: environment[name] for name in FORWARDED if environment.get(name)}


def _plain(settings: Settings) -> dict[str, str]:
    """The same without secrets, for files that others may read."""
    secret = {environment_name(f) for f in fields() if f.metadata["secret"]}
    return {name: value for name, value in given(settings).items() if name not in secret}


def _quoted(value: str) -> str:
    """A value as systemd.exec(5) reads it in an environment file."""
    if re.fullmatch(r"[\w@%+=:,./-]*", value, re.ASCII):
        return value
    escaped = re.sub(r'(["\\`$])', r"\\\1", value)
    return f'"{escaped}"'


def _running(at: Place) -> list[str]:
    return [name for name in units(at) if name in SERVICES]


def is_active(unit: str) -> bool:
    """Whether a unit runs, or its socket listens."""
    return _is(unit, "active")


def _is(unit: str, state: Literal["enabled", "active"]) -> bool:
    return _ask("systemctl", "--user", f"is-{state}", unit) == state


def _own_view_of_files() -> bool:
    options = ("PrivateUsers=yes", "ProtectSystem=strict", "ProtectHome=read-only")
    given = [word for option in options for word in ("-p", option)]
    return _ask("systemd-run", "--user", "--wait", "--collect", "--quiet", *given, "/bin/true") is not None


def _ask(*argv: str) -> str | None:
    """What a program says, or None where it fails or is not there."""
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=_ASK_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
