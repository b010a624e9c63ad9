"""What a check gives."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Iterator
from typing import Literal

from cems.settings import Settings

Level = Literal["ok", "warning", "bad"]


@dataclasses.dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    part: str
    """What it is about, in a word or two."""
    level: Level
    says: str
    """What was found."""
    todo: str = ""
    """What mends it."""
    remedy: Callable[[], None] | None = None
    """Mends it safely, where that can be done without asking."""


@dataclasses.dataclass(frozen=True)
class Patient:
    """What checks are given."""

    settings: Settings
    now: dt.datetime
    python: str


Check = Callable[[Patient], Iterator[Finding]]


def reason(error: BaseException) -> str:
    """What an error says, in a line."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def ok(part: str, says: str) -> Finding:
    """All is well."""
    return Finding(part, "ok", says)


def warning(part: str, says: str, todo: str, remedy: Callable[[], None] | None = None) -> Finding:
    """It works, less well than it could."""
    return Finding(part, "warning", says, todo, remedy)


def bad(part: str, says: str, todo: str, remedy: Callable[[], None] | None = None) -> Finding:
    """It does not work."""
    return Finding(part, "bad", says, todo, remedy)
