"""Which project a folder belongs to: the one resolver, used when memories are written and when they are read.

Identity is, in this order: the canonical URL of the repository's remote; the main repository's root folder; the folder
itself. Worktrees, subfolders and symlinks of one repository agree; two repositories of one name never meet; a moved
repository keeps its memories when its remote says so. Reads a few small files below `.git` and nothing else."""

from __future__ import annotations

import configparser
import dataclasses
import hashlib
import os
import re
import uuid
from pathlib import Path

from cems.ids import derived
from cems.text import sanitise

_CONFIG_LIMIT = 256 * 1024
_IDENTITY_LIMIT = 500
# Where agents put worktrees inside a repository; lets a transcript of a worktree that is gone find its repository.
_WORKTREE_PLACES = re.compile(r"^(?P<root>.+?)/(?:\.claude/worktrees|\.worktrees)/[^/]+(?:/.*)?$")
_SCP_LIKE = re.compile(r"^(?:[^@/]+@)?(?P<host>[^:/]+):(?P<path>[^/].*|/.+)$")
_URL = re.compile(r"^[a-z][a-z0-9+.-]*://(?:[^@/]*@)?(?P<host>[^/:]+)(?::\d+)?/(?P<path>.+)$", re.I)


@dataclasses.dataclass(frozen=True)
class Project:
    """A project as found from a folder."""

    identity: str
    """`git:host/path` from a remote, else `path:<machine>:<root>`."""
    name: str
    """Short, for people; not unique."""
    root: str
    """The repository's main folder, or the folder itself."""

    def __post_init__(self) -> None:
        if len(self.identity) > _IDENTITY_LIMIT:  # an index of the database holds no longer one
            digest = hashlib.blake2b(self.identity.encode("utf-8", "replace"), digest_size=16).hexdigest()
            object.__setattr__(self, "identity", f"{self.identity[:_IDENTITY_LIMIT]}…{digest}")

    @property
    def id(self) -> uuid.UUID:
        """Derived from the identity: every process agrees on it."""
        return derived("project", self.identity)


def resolve(cwd: str, machine: str, session_root: str | None = None) -> Project:
    """The project of a folder.

    Args:
        cwd: absolute path as a transcript record or a hook gives it; it need not exist any more.
        machine: id of this machine; part of the identity where a project has no remote.
        session_root: the folder the session started in. A subfolder of it that is no repository of its own and no
            longer exists belongs to the session's project.
    """
    cwd = _plain(cwd)
    if not cwd.startswith("/"):  # another system's path, or none: nothing to look at here
        return Project(f"path:{machine}:{cwd}", re.split(r"[\\\\/]", cwd)[-1] or cwd, cwd)
    folder = Path(os.path.realpath(cwd))
    exists = is_folder(folder)
    git = _find_git(folder)
    if git is not None:
        root, git_dir = git
        remote = _remote(git_dir)
        if remote:
            return Project(f"git:{remote}", remote.rsplit("/", 1)[-1], str(root))
        return Project(f"path:{machine}:{root}", root.name or str(root), str(root))
    path = str(folder) if exists else cwd
    if match := _WORKTREE_PLACES.match(path):
        return resolve(match["root"], machine)
    if session_root and not exists and path.startswith(_plain(session_root).rstrip("/") + "/"):
        return resolve(session_root, machine)
    return Project(f"path:{machine}:{path}", Path(path).name or path, path)


def canonical_remote(url: str) -> str | None:
    """`host/path` of a remote URL, without user, port, `.git` or case of the host; None for a local path.

    `git@github.com:Owner/Repo.git`, `ssh://git@github.com/Owner/Repo` and `https://u:p@github.com/Owner/Repo/` agree.
    """
    url = url.strip()
    match = _URL.match(url) or (None if "://" in url else _SCP_LIKE.match(url))
    if not match or url.startswith("file:"):
        return None
    path = match["path"].strip("/").removesuffix(".git").strip("/")
    return f"{match['host'].lower()}/{path}" if path else None


def _plain(path: str) -> str:
    """The path without trailing slash or NUL; a Windows path keeps its form."""
    return (sanitise(path).rstrip("/") or "/")[:4000]


def is_folder(path: Path) -> bool:
    """Whether there is such a folder, for any path that somebody may give."""
    try:
        return path.is_dir()
    except (OSError, ValueError):  # too long for the system, closed to us, or no path at all
        return False


def _find_git(folder: Path) -> tuple[Path, Path] | None:
    """(main root, git directory with the config) of the repository around a folder, or None."""
    for place in (folder, *folder.parents):
        dot_git = place / ".git"
        try:
            if dot_git.is_dir():
                return place, dot_git
            if dot_git.is_file():
                return _linked(place, dot_git)
        except OSError:
            return None
    return None


def _linked(place: Path, dot_git: Path) -> tuple[Path, Path] | None:
    """Follow a `.git` file: a worktree leads to its main repository, a submodule is a repository of its own."""
    text = _read(dot_git)
    if not text.startswith("gitdir:"):
        return None
    git_dir = Path(os.path.normpath(place / text.removeprefix("gitdir:").strip()))
    common = _read(git_dir / "commondir").strip()
    if not common:
        return place, git_dir
    common_dir = Path(os.path.realpath(git_dir / common))
    root = common_dir.parent if common_dir.name == ".git" else common_dir
    return root, common_dir


def _remote(git_dir: Path) -> str | None:
    """The canonical URL of `origin`, else of the first remote in the file."""
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    # Git indents its entries; configparser would take an indented line for a continuation.
    text = "\n".join(line.strip() for line in _read(git_dir / "config").splitlines())
    try:
        parser.read_string(text)
    except configparser.Error:
        return None
    remotes = [s for s in parser.sections() if s.startswith('remote "')]
    remotes.sort(key=lambda s: s != 'remote "origin"')
    for section in remotes:
        url = parser.get(section, "url", fallback=None)
        if url and (remote := canonical_remote(url)):
            return remote
    return None


def _read(path: Path) -> str:
    """A small file's text; empty where there is none."""
    try:
        with path.open("rb") as f:
            return f.read(_CONFIG_LIMIT).decode("utf-8", "replace")
    except OSError:
        return ""
