"""What Claude Code tells a session by itself: the CLAUDE.md files on the way to its folder, their rules and imports, the
user's own, and the notes Claude Code keeps of the project. A memory that stands there already is not shown a second time.

Reads are bounded in number and size, only of regular files, and nothing of what is read is ever shown."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from recall.selection import Words

FILES_LIMIT = 60
SIZE_LIMIT = 64 * 1024
"""Bytes of one file; Claude Code itself complains about 40,000 characters."""
LINES_LIMIT = 3000
"""Lines and sentences, of all files together."""
_FOLDER_LIMIT = 20
"""Rules or notes of one folder."""
_HOPS = 4
_NAMES = ("CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md")
_MANAGED = Path("/etc/claude-code/CLAUDE.md")
_IMPORT = re.compile(r"(?<![^\s(])@([~./\w][^\s`)]*)")
_NEW_ITEM = re.compile(r"\s*(?:[-*+#>|]|\d+[.)])\s|\s*$")
_SENTENCE = re.compile(r"(?<=[.;!?])\s+")
_NO_NAME = re.compile(r"[^A-Za-z0-9]")


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a session is, for what is read around it."""

    cwd: str
    root: str
    """The project's main folder: Claude Code keeps its notes by repository."""
    transcript_path: str = ""
    config_dirs: Sequence[Path] = ()


def lines(place: Place) -> list[Words]:
    """Every line of these files and every sentence, also one that runs over two lines, as words."""
    found: list[Words] = []
    for content in _texts(place):
        previous = ""
        for line in content.splitlines():
            if len(found) >= LINES_LIMIT:
                return found
            if not line.strip():
                previous = ""
                continue
            said = [line]
            if previous and not _NEW_ITEM.match(line):
                said.append(f"{previous} {line}")
            parts = [part for text in said for part in _SENTENCE.split(text) if part.strip()]
            found.extend(Words.of(text) for text in dict.fromkeys(said + parts))
            previous = line
    return found


def _texts(place: Place) -> Iterator[str]:
    """The files' texts, each file once, with what they import."""
    seen: set[str] = set()
    waiting = [(path, 0) for path in _files(place)]
    waiting.reverse()
    while waiting and len(seen) < FILES_LIMIT:
        path, hops = waiting.pop()
        name = os.path.realpath(path)
        if name in seen or not (text := _read(path)):
            continue
        seen.add(name)
        yield text
        if hops < _HOPS:
            imported = [_imported(path, match) for match in _IMPORT.findall(text)[:_FOLDER_LIMIT]]
            waiting.extend((other, hops + 1) for other in reversed(imported))


def _files(place: Place) -> Iterator[Path]:
    """Nearest first, so that the limits cut what matters least."""
    folders: dict[Path, None] = {}
    if place.cwd.startswith("/"):
        for start in (Path(place.cwd), Path(os.path.realpath(place.cwd))):
            folders |= dict.fromkeys((start, *start.parents))
    for folder in folders:
        yield from (folder / name for name in _NAMES)
        yield from _markdown(folder / ".claude" / "rules")
    for config in place.config_dirs:
        yield config / "CLAUDE.md"
        yield from _markdown(config / "rules")
    for folder in dict.fromkeys(_notes(place)):
        yield from _markdown(folder)
    yield _MANAGED


def _notes(place: Place) -> Iterator[Path]:
    """Where Claude Code keeps its own notes: beside the transcript, and by the names it makes of the folders."""
    if place.transcript_path.endswith(".jsonl"):
        yield Path(place.transcript_path).parent / "memory"
    for config in place.config_dirs:
        for folder in (place.cwd, os.path.realpath(place.cwd), place.root):
            yield config / "projects" / _NO_NAME.sub("-", folder) / "memory"


def _markdown(folder: Path) -> list[Path]:
    try:
        return sorted(itertools.islice(folder.rglob("*.md"), _FOLDER_LIMIT)) if folder.is_dir() else []
    except OSError:
        return []


def _imported(path: Path, name: str) -> Path:
    return Path(name).expanduser() if name.startswith("~/") else path.parent / name.rstrip(".,;:")


def _read(path: Path) -> str:
    """The beginning of a regular file; empty for everything else. Opening a pipe must not block."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ""
        return os.read(fd, SIZE_LIMIT).decode("utf-8", "replace").replace("\0", "")
    except OSError:
        return ""
    finally:
        os.close(fd)
