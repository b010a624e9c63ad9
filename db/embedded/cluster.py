"""Makes the data folder. A cluster is made under another name and renamed when it is whole, so a kill at any
moment leaves either no data folder or a good one."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from cems.errors import EmbeddedPostgresError

from .binaries import Binaries, BinariesBroken
from .config import SUPERUSER
from .layout import Layout
from .process import run_tool

MAKING = "data.new-"

# Comparisons by code point, alike on every system; letters and case as Unicode has them. The character type
# must be a real UTF-8 locale as well: full-text search takes words apart by it, and under C quotes and dashes
# become letters.
CHARACTER_TYPES = ("C.UTF-8", "en_US.UTF-8", "C.utf8", "en_US.utf8", "C")


def make(layout: Layout, binaries: Binaries) -> Path:
    """A new cluster beside where it belongs, not yet synced to disk; `adopt` makes it the data folder.

    Raises BinariesBroken when the programs crash or miss a library."""
    folder = Path(tempfile.mkdtemp(prefix=MAKING, dir=layout.place))
    if os.geteuid() != layout.server_uid:
        os.chown(folder, layout.server_uid, layout.server_gid)
    said = ""
    try:
        for locale in CHARACTER_TYPES:
            done = run_tool(layout, _initdb(binaries, folder, locale), binaries.env())
            if done.returncode == 0:
                return folder
            said = done.stdout.strip()
            if "invalid locale name" not in said:
                break
    except BaseException:
        discard(folder)
        raise
    discard(folder)
    broken = (
        done.returncode < 0
        or done.returncode >= 126
        or "terminated by signal" in said
        or "shared librar" in said
    )
    raise (BinariesBroken if broken else EmbeddedPostgresError)(f"initdb failed: {said[-2000:]}")


def adopt(layout: Layout, binaries: Binaries, folder: Path) -> None:
    """Sync the new cluster to disk and give it its name."""
    sync: list[str | Path] = [binaries.bindir / "initdb", "--sync-only", "-D", folder]
    if sys.platform == "linux":  # one call for the file system, a tenth of the time of one per file
        done = run_tool(layout, [*sync, "--sync-method=syncfs"], binaries.env())
    if sys.platform != "linux" or done.returncode != 0:
        done = run_tool(layout, sync, binaries.env())
    if done.returncode != 0:
        raise EmbeddedPostgresError(f"the new database could not be written to disk: {done.stdout.strip()}")
    folder.rename(layout.data)
    parent = os.open(layout.place, os.O_RDONLY)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)


def discard(folder: Path) -> None:
    """Remove a cluster that was not adopted; what cannot be removed now is tried again at the next start."""
    shutil.rmtree(folder, ignore_errors=True)


def discard_unfinished(layout: Layout) -> None:
    """Remove what starts that were killed have left."""
    for folder in (*layout.place.glob(f"{MAKING}*"), *layout.binaries.glob(".making-*")):
        discard(folder)


def exists(layout: Layout, major: str) -> bool:
    """Whether there is a data folder, one that binaries of this major version can serve.

    Raises EmbeddedPostgresError when it is of another version, or when something else has its name."""
    version = layout.data / "PG_VERSION"
    if version.is_file():
        found = version.read_text().strip()
        if found == major:
            return True
        raise EmbeddedPostgresError(
            f"{layout.data} was made by Postgres {found}, and this program brings Postgres {major}",
            hint=f"run the CEMS that made it and dump the data (pg_dump), move {layout.data} away, start and "
            f"restore; or serve it with a Postgres {found} of your own and set CEMS_DATABASE_URL",
        )
    if layout.data.is_dir() and any(layout.data.iterdir()):
        raise EmbeddedPostgresError(
            f"{layout.data} is not empty and not a database of Postgres", hint="look at it, then move it away"
        )
    return False


def _initdb(binaries: Binaries, folder: Path, locale: str) -> list[str | Path]:
    return [
        binaries.bindir / "initdb",
        "--pgdata",
        folder,
        f"--username={SUPERUSER}",
        "--encoding=UTF8",
        "--locale=C",
        f"--lc-ctype={locale}",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        "--data-checksums",
        "--auth=peer",
        "--no-sync",
        "--no-instructions",
    ]
