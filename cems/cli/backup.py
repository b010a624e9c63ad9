"""`cems db backup`: the whole database in one file, made by pg_dump while everything goes on running. The file appears under
its name only when it is whole, and only its owner may read it."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

from cems import settings as configuration
from cems.cli import output
from cems.errors import CemsError, DatabaseUnavailable, NotFound, UsageError
from cems.settings import Settings


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@output.json_option
def backup(file: Path | None, force: bool, as_json: bool) -> None:
    """Write the whole database into FILE, in Postgres's custom format, while everything goes on running.

    Default: `backups/cems-DATE.dump` in CEMS_HOME. On a shared server only the memories of this owner are written.

    \b
    To restore into an empty database:
      pg_restore --no-owner --dbname DATABASE FILE
    """
    settings = configuration.load()
    target = file.absolute() if file else _default(settings)
    if target.exists() and not force:
        raise UsageError(f"{target} exists", hint="give another name, or --force to replace it")
    size = _dump(settings, target, force)
    if as_json:
        output.document({"file": target, "bytes": size})
    else:
        click.echo(f"{target} ({output.size(size)})")


def _default(settings: Settings) -> Path:
    folder = settings.home / "backups"
    if not settings.home.is_dir():
        raise NotFound(f"there is nothing to back up: {settings.home} does not exist")
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / f"cems-{dt.datetime.now().astimezone():%Y-%m-%dT%H-%M-%S}.dump"


def _dump(settings: Settings, target: Path, force: bool) -> int:
    """Let pg_dump write beside the target, then give it its name; returns its size."""
    from cems.cli import tools

    program = tools.program("pg_dump", settings)
    if program is None:
        raise NotFound(
            "there is no pg_dump here",
            hint="install Postgres's client programs, of the server's version or newer",
        )
    # The embedded server's superuser passes row-level security; anyone else dumps what their owner may see.
    found = tools.way_in(settings, "cems_owner" if settings.database_url else None)
    arguments = ["--format=custom", "--no-password"]
    if settings.database_url:
        arguments += ["--enable-row-security", "--schema=cems", "--extension=vector"]
    output.note("backing up …")
    with _temporary(target) as temporary:
        done = subprocess.run(
            [program, *arguments, f"--file={temporary}", f"--dbname={found.conninfo}"],
            env=found.environment,
            capture_output=True,
            check=False,
        )
        if done.returncode != 0:
            _explain(done.stderr.decode("utf-8", "replace"))
        _flush(temporary)
        size = temporary.stat().st_size
        if force:
            temporary.replace(target)
        else:
            try:
                os.link(temporary, target)  # fails where somebody was faster, unlike a rename
            except FileExistsError:
                raise UsageError(
                    f"{target} exists", hint="give another name, or --force to replace it"
                ) from None
            except OSError:  # a file system without links
                temporary.replace(target)
    _flush(target.parent)
    return size


@contextlib.contextmanager
def _temporary(target: Path) -> Iterator[Path]:
    """A new private file beside the target, gone at the end."""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror}") from error
    os.close(handle)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _explain(errors: str) -> None:
    lines = [
        line.removeprefix("pg_dump: ").removeprefix("error: ") for line in errors.splitlines() if line.strip()
    ]
    said = lines[0] if lines else "it did not say why"
    if "connection to server" in said or "could not connect" in said:
        raise DatabaseUnavailable(f"the database does not answer: {said}")
    raise CemsError(f"pg_dump failed: {said}")


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
