"""Which files are session transcripts: found by walking the roots, judged by place and name, never by a folder's meaning.
Symlinks inside a root are not followed, so nothing outside it is read."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

_DEPTH_LIMIT = 8
_SESSION = re.compile(r"(?!agent-)[A-Za-z0-9_-]+\.jsonl")
_AGENT = re.compile(r"agent-(?!acompact-)([A-Za-z0-9_-]+)\.jsonl")
_NOT_SESSIONS = {"journal.jsonl", "history.jsonl"}
_NOT_ENTERED = {"tool-results", "memory", "workflows-data"}


class Found(NamedTuple):
    """A transcript on disk, as one look saw it."""

    path: str
    size: int
    modified_ns: int
    inode: int
    session: str
    """Name of the session: the file's stem, or for a subagent its parent's."""
    agent: str | None
    """The subagent's id."""

    @property
    def name(self) -> str:
        """The path as text: what the database, the log and people are given."""
        return as_text(self.path)


def as_text(path: str) -> str:
    """A path whose bytes are no UTF-8 in a form that is; any other as it is."""
    return (
        path
        if path.isascii()
        else path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    )


def roots(config_dirs: list[Path]) -> list[Path]:
    """The folders to watch, each once by its real path: `projects` below each configuration folder, or the folder itself
    where it is called that."""
    found: dict[str, Path] = {}
    for folder in config_dirs:
        root = folder if folder.name == "projects" else folder / "projects"
        real = Path(os.path.realpath(root))
        found.setdefault(str(real), real)
    return list(found.values())


def scan(root: Path, complain: Callable[[str, OSError], None]) -> Iterator[Found]:
    """Every transcript below a root; sessions before the subagents inside them.

    Args:
        complain: told about folders that cannot be read; the walk goes on.
    """
    for project in _entries(root, complain):
        if project.is_dir(follow_symlinks=False):
            yield from _project(project.path, complain)


def _project(folder: str, complain: Callable[[str, OSError], None]) -> Iterator[Found]:
    deeper = []
    for entry in _entries(Path(folder), complain):
        if entry.is_dir(follow_symlinks=False):
            deeper.append(entry)
        elif (kind := _kind(entry.name)) and (found := _look(entry, complain, *kind)):
            yield found
    for entry in deeper:
        if entry.name not in _NOT_ENTERED:
            yield from _session_folder(entry.path, entry.name, complain, 1)


def _session_folder(
    folder: str, session: str, complain: Callable[[str, OSError], None], depth: int
) -> Iterator[Found]:
    """Subagents below a session's folder, at whatever depth."""
    if depth > _DEPTH_LIMIT:
        return
    for entry in _entries(Path(folder), complain):
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in _NOT_ENTERED:
                yield from _session_folder(entry.path, session, complain, depth + 1)
        elif "/subagents" in folder and (match := _AGENT.fullmatch(entry.name)):
            found = _look(entry, complain, session, match[1])
            if found:
                yield found


def _kind(name: str) -> tuple[str, str | None] | None:
    """(session, agent) of a file directly in a project's folder, or None where it is no transcript."""
    if name in _NOT_SESSIONS:
        return None
    if _SESSION.fullmatch(name):
        return name.removesuffix(".jsonl"), None
    if match := _AGENT.fullmatch(name):
        return "", match[1]
    return None


def _look(
    entry: os.DirEntry[str], complain: Callable[[str, OSError], None], session: str, agent: str | None
) -> Found | None:
    try:
        if not entry.is_file(follow_symlinks=False):
            return None
        seen = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        complain(entry.path, error)
        return None
    return Found(entry.path, seen.st_size, seen.st_mtime_ns, seen.st_ino, as_text(session), agent)


def _entries(folder: Path, complain: Callable[[str, OSError], None]) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda e: e.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        complain(str(folder), error)
        return []
