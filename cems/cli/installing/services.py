"""The services of this machine: systemd's user units, launchd's agents, or neither, and then `cems up` is what runs."""

from __future__ import annotations

import dataclasses
import getpass
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from cems.cli.installing import launchd
from cems.cli.installing.steps import Step, StepFailed, command, gone, own_files
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
        return [*first, *_install_agents(settings, python)]
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
        return _without_agents(_known_agents())
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


def agents(settings: Settings, python: str) -> dict[Path, bytes]:
    """launchd's property lists by path."""
    embedded = not settings.database_url
    return launchd.agents(python, settings.home, Path.home(), _plain(settings), embedded=embedded)


def agent_state(label: str) -> str | None:
    """What launchd says of an agent, such as `running`; None: it does not know it."""
    said = _ask("launchctl", "print", f"{_domain()}/{label}")
    if said is None:
        return None
    match = re.search(r"^\s*state = (.+)$", said, re.M)
    return match[1].strip() if match else ""


def _install_agents(settings: Settings, python: str) -> list[Step]:
    wanted, logs = agents(settings, python), settings.home / "logs"
    # Their text is not shown: a proxy's password may be in it.
    own = own_files(wanted, show=False)
    replaced = {step.path for step in own}
    loaded = {path for path in wanted if agent_state(launchd.label(path)) is not None}
    starts = [path for path in wanted if path in replaced or path not in loaded]
    return [
        *([] if logs.is_dir() else [Step(f"create {logs}", _making(logs), path=logs)]),
        *_without_agents([path for path in _known_agents() if path not in wanted]),
        *own,
        *(_booting_out(path) for path in starts if path in loaded),
        *(
            command("launchctl", "bootstrap", _domain(), str(path), why="start it now and at login")
            for path in starts
        ),
    ]


def _without_agents(paths: Sequence[Path]) -> list[Step]:
    there = [path for path in paths if path.exists() or agent_state(launchd.label(path)) is not None]
    return [*map(_booting_out, there), *gone(there)]


def _known_agents() -> list[Path]:
    """Every property list that may be ours."""
    return [launchd.folder(Path.home()) / f"{launchd.LABEL}.{name}.plist" for name in launchd.SERVICES]


def _booting_out(path: Path) -> Step:
    """Stop an agent, and wait until launchd has forgotten it: before that it cannot be started anew."""
    label = launchd.label(path)
    step = command("launchctl", "bootout", f"{_domain()}/{label}", why="stop it", may_fail=True)

    def do() -> None:
        step.do()
        deadline = time.monotonic() + _ASK_SECONDS
        while agent_state(label) is not None and time.monotonic() < deadline:
            time.sleep(0.1)

    return dataclasses.replace(step, do=do)


def _making(folder: Path) -> Callable[[], None]:
    def do() -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StepFailed(f"{folder} cannot be made: {error.strerror}") from error

    return do


def _domain() -> str:
    return f"gui/{os.getuid()}"


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
