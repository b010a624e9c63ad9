"""The home, the disk, and the transcripts: what CEMS keeps, and what it reads."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from cems import home
from cems.cli.doctoring.finding import Finding, Patient, bad, ok, warning
from cems.cli.installing import plan
from cems.cli.output import many, size
from cems.errors import SettingsError
from observer.scan import roots

LEAST_FREE = 512 * 1024**2
"""Bytes: Postgres stops when it cannot write."""
LITTLE_FREE = 2 * 1024**3
PRIVATE = ("config.toml", "service.env", "redaction-key", "machine-id")
SHORTEST_CLEANUP = 7
"""Days; the agent deletes older transcripts. What was never read by then is lost."""


def check_home(patient: Patient) -> Iterator[Finding]:
    """The folder is there, ours, and closed to others."""
    folder, part = patient.settings.home, "home"
    if not folder.exists():
        yield warning(part, f"there is no {folder} yet", "`cems up` or `cems install` makes it")
        return
    found = folder.stat()
    if found.st_uid != os.geteuid() and os.geteuid() != 0:
        yield bad(
            part, f"{folder} belongs to another user", f"sudo chown -R $(id -u) '{folder}', or set CEMS_HOME"
        )
        return
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield bad(part, f"{folder} cannot be written", f"chmod u+rwx '{folder}'")
        return
    paths = [folder, *(folder / name for name in PRIVATE if (folder / name).exists())]
    open_to_others = [p for p in paths if stat.S_IMODE(p.stat().st_mode) & (0o066 if p == folder else 0o077)]
    for path in open_to_others:
        mode = 0o700 if path == folder else 0o600
        yield bad(part, f"others may look into {path}", f"chmod {mode:o} '{path}'", _chmod(path, mode))
    if not open_to_others:
        yield ok(part, str(folder))
    for read in (home.machine_id, home.redaction_key):
        try:
            if (folder / read.__name__.replace("_", "-")).exists():
                read(folder)
        except SettingsError as error:
            yield bad(part, str(error), error.hint)


def check_disk(patient: Patient) -> Iterator[Finding]:
    """Room for what is to come."""
    place = patient.settings.home
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < LITTLE_FREE:
        level = bad if free < LEAST_FREE else warning
        yield level(
            "disk", f"{size(free)} are free for {place}", "make room: a database that cannot write stops"
        )
    else:
        yield ok("disk", f"{size(free)} free")


def check_transcripts(patient: Patient) -> Iterator[Finding]:
    """The agent's folders are there and can be read; and how long it keeps what is in them."""
    part, folders = "transcripts", roots(patient.settings.claude_dirs())
    there = [folder for folder in folders if folder.is_dir()]
    if not there:
        yield bad(
            part,
            f"there are no sessions in {', '.join(map(str, folders))}",
            "use Claude Code once, or set CLAUDE_CONFIG_DIR to its configuration folder (in service.env for the services)",
        )
        return
    for folder in there:
        closed = (
            [p for p in (folder, *folder.iterdir()) if not os.access(p, os.R_OK)]
            if os.access(folder, os.X_OK)
            else [folder]
        )
        if closed:
            yield bad(part, f"{closed[0]} cannot be read", f"chmod -R u+rX '{closed[0]}'")
        else:
            yield ok(part, f"{many(sum(1 for _ in folder.rglob('*.jsonl')), 'file')} in {folder}")


def check_cleanup(patient: Patient) -> Iterator[Finding]:
    """How long the agent keeps transcripts."""
    path, part = plan.settings_file(patient.settings), "clean-up"
    try:
        days = json.loads(path.read_text("utf-8-sig")).get("cleanupPeriodDays", 30)
    except FileNotFoundError:
        days = 30
    except (OSError, ValueError, AttributeError):
        yield bad(
            part,
            f"{path} is not valid JSON; Claude Code ignores all of it",
            "mend it: `python3 -m json.tool` says where",
        )
        return
    if not isinstance(days, int | float) or days < SHORTEST_CLEANUP:
        yield warning(
            part,
            f"Claude Code deletes transcripts after {days} days",
            f"set cleanupPeriodDays in {path} to 30, so that a holiday without CEMS costs nothing",
        )
    else:
        yield ok(part, f"Claude Code keeps transcripts for {days} days")


def _chmod(path: Path, mode: int) -> Callable[[], None]:
    return lambda: path.chmod(mode)
