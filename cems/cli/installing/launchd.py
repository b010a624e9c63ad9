"""Agents of launchd, for macOS: one property list a service. launchd knows neither readiness nor signs of life, and starts
again what ends with an error, ten seconds later at the earliest."""

from __future__ import annotations

import plistlib
from collections.abc import Mapping
from pathlib import Path

LABEL = "dev.cems"
SERVICES: Mapping[str, tuple[str, ...]] = {
    "postgres": ("db", "run"),
    "observer": ("observe",),
    "maintenance": ("maintain",),
    "recall": ("recall",),
}
"""What each runs: the arguments of `cems`."""


def folder(user_home: Path) -> Path:
    """Where a user's agents lie."""
    return user_home / "Library" / "LaunchAgents"


def label(path: Path) -> str:
    """An agent's name, by its property list's."""
    return path.name.removesuffix(".plist")


def agents(
    python: str, home: Path, user_home: Path, environment: Mapping[str, str], *, embedded: bool = True
) -> dict[Path, bytes]:
    """The property lists by path."""
    found = {}
    for name, arguments in SERVICES.items():
        if name == "postgres" and not embedded:
            continue
        log = str(home / "logs" / f"{name}.log")
        found[folder(user_home) / f"{LABEL}.{name}.plist"] = plistlib.dumps(
            {
                "Label": f"{LABEL}.{name}",
                "ProgramArguments": [python, "-I", "-m", "cems", *arguments],
                "EnvironmentVariables": {"CEMS_HOME": str(home), **environment},
                "RunAtLoad": True,
                "KeepAlive": {"SuccessfulExit": False},
                "ProcessType": "Background",
                "Umask": 0o077,
                "StandardOutPath": log,
                "StandardErrorPath": log,
            }
        )
    return found
