"""The systemd user units, from the commented files in `systemd/`: made for one interpreter, one home and one version of
systemd. Quoting follows systemd.syntax(7): a percent sign is doubled; what stands in quotes has its backslashes and quotes
escaped. A dollar sign stays: systemd takes the program's path as it is."""

from __future__ import annotations

import dataclasses
import os
import re
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

SERVICES = (
    "cems-postgres.service",
    "cems-observer.service",
    "cems-maintenance.service",
    "cems-recall.service",
)
SOCKET = "cems-recall.socket"
LONGEST_SOCKET = 107
"""Bytes of a socket's path, see unix(7)."""
_NEWER = re.compile(r"^#(\d{3}) ", re.M)


@dataclasses.dataclass(frozen=True)
class Place:
    """What the units are made for."""

    python: str
    """The interpreter, absolute and as it is called: links in it survive an upgrade."""
    home: Path
    systemd: int
    """systemd's version."""
    embedded: bool = True
    """Whether the database is the embedded one."""
    files: bool = False
    """Whether a trial run has shown that services may have their own view of the files."""

    @property
    def socket(self) -> Path:
        """Where hooks ask."""
        return self.home / "recall" / "recall.sock"

    @property
    def environment(self) -> Path:
        """The services' own settings and keys."""
        return self.home / "service.env"

    @property
    def activated(self) -> bool:
        """Whether systemd can listen for the recall service: a long path it cannot bind; then the service runs always."""
        return len(os.fsencode(self.socket)) <= LONGEST_SOCKET


def units(place: Place) -> dict[str, str]:
    """The units by name, drop-ins as `NAME.d/files.conf`."""
    names = [name for name in SERVICES if place.embedded or name != "cems-postgres.service"]
    found = {name: _render(name, place) for name in names}
    if place.activated:
        found[SOCKET] = _render(SOCKET, place)
    else:
        found["cems-recall.service"] = _standing(found["cems-recall.service"])
    if place.files:
        found |= {f"{name}.d/files.conf": _render("files.conf", place) for name in names}
    return found


def enabled(place: Place) -> list[str]:
    """The units that start with the session."""
    recall = SOCKET if place.activated else "cems-recall.service"
    return [name for name in units(place) if name in SERVICES[:3]] + [recall]


def sources() -> Traversable:
    """The folder of the commented files: in the package, or beside it in a checkout."""
    packaged = resources.files("cems") / "systemd"
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "systemd"


def _render(name: str, place: Place) -> str:
    text = (sources() / name).read_text()
    text = text.replace("@HARDENING@\n", (sources() / "hardening.inc").read_text() + "\n")
    text = _NEWER.sub(lambda m: "" if place.systemd >= int(m[1]) else m[0], text)
    if place.systemd >= 254:
        text = text.replace(" (systemd 254 and newer; older ones say that they do not know it)", "")
    writable = f"{_item(str(place.home))} /tmp -%t"
    return (
        text.replace('"@PYTHON@"', f'"{_quoted(place.python)}"')
        .replace('"CEMS_HOME=@HOME@"', f'"CEMS_HOME={_quoted(str(place.home))}"')
        .replace("@ENVIRONMENT@", _percent(str(place.environment)))
        .replace("@SOCKET@", _percent(str(place.socket)))
        .replace("@WRITABLE@", writable)
    )


def _standing(text: str) -> str:
    """The recall service without a socket of systemd's."""
    text = text.replace("Requires=cems-recall.socket\n", "").replace("cems-recall.socket ", "")
    return text.replace("Also=cems-recall.socket", "WantedBy=default.target")


def _percent(text: str) -> str:
    return text.replace("%", "%%")


def _quoted(text: str) -> str:
    return _percent(text).replace("\\", "\\\\").replace('"', '\\"')


def _item(text: str) -> str:
    """One of several paths in a list."""
    return f'"{_quoted(text)}"'
