"""The systemd units: what systemd itself says of them, and paths of every shape."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cems.cli.installing.units import SERVICES, SOCKET, Place, enabled, sources, units

ODD = ["plain", "with a space", "mit-Umläuten-ß-日本", 'quo"te', "per%cent", "dol$lar", "back\\slash"]


def place(home: Path, **more: object) -> Place:
    return Place(python=sys.executable, home=home, systemd=252, **more)  # type: ignore[arg-type]


def verify(folder: Path, found: dict[str, str]) -> subprocess.CompletedProcess[str]:
    for name, text in found.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    runtime = folder / "runtime"
    runtime.mkdir(mode=0o700, exist_ok=True)
    whole = [str(folder / name) for name in found if "/" not in name]
    return subprocess.run(
        ["systemd-analyze", "--user", "verify", "--man=no", "--recursive-errors=no", *whole],
        env={**os.environ, "XDG_RUNTIME_DIR": str(runtime), "SYSTEMD_UNIT_PATH": f"{folder}:"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze here")
@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("files", [False, True])
def test_systemd_finds_nothing_to_say(tmp_path: Path, name: str, files: bool) -> None:
    home = tmp_path / name
    home.mkdir()
    done = verify(tmp_path / "units", units(place(home, files=files)))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze here")
def test_the_check_would_see_a_mistake(tmp_path: Path) -> None:
    found = units(place(tmp_path))
    found["cems-observer.service"] += "\nNonsense=yes\n"
    done = verify(tmp_path / "units", found)
    assert done.returncode == 1 and "Nonsense" in done.stderr


def test_nothing_is_left_to_fill_in_and_every_command_is_absolute(tmp_path: Path) -> None:
    for name, text in units(place(tmp_path, files=True)).items():
        assert not re.search("@[A-Z]+@", text), name
        for command in re.findall("^ExecStart=(.*)$", text, re.M):
            assert command.startswith(f'"{sys.executable}" -I -m cems ')


def test_newer_keys_only_for_a_systemd_that_knows_them(tmp_path: Path) -> None:
    old, new = (
        units(Place(sys.executable, tmp_path, version))["cems-observer.service"] for version in (252, 254)
    )
    assert not re.search("^RestartSteps=", old, re.M) and re.search("^RestartSteps=6$", new, re.M)


def test_another_server_needs_no_database_unit(tmp_path: Path) -> None:
    assert set(units(place(tmp_path, embedded=False))) == {*SERVICES[1:], SOCKET}
    assert "cems-postgres.service" not in enabled(place(tmp_path, embedded=False))


def test_a_path_too_long_for_a_socket_makes_recall_a_standing_service(tmp_path: Path) -> None:
    far = place(tmp_path / ("x" * 120))
    assert SOCKET not in units(far)
    assert "WantedBy=default.target" in units(far)["cems-recall.service"]
    assert SOCKET not in units(far)["cems-recall.service"]
    assert enabled(far)[-1] == "cems-recall.service" and enabled(place(Path("/h")))[-1] == SOCKET


def test_each_line_that_hardens_has_its_reason() -> None:
    for file in ("hardening.inc", "files.conf"):
        lines = [line for line in (sources() / file).read_text().splitlines() if not line.startswith("[")]
        assert lines[0].startswith("#") and sum(line.startswith("#") for line in lines) >= 5
