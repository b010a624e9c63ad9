"""Steps of an installation: each knows whether it is needed, says what it would do, and does it whole or not at all. A list of
steps that was done is empty when it is made again."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import hashlib
import os
import stat
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cems.cli.installing.hooks import write
from cems.errors import CemsError

COMMAND_SECONDS = 60


class StepFailed(CemsError):
    """A step could not be done."""


@dataclasses.dataclass(frozen=True)
class Step:
    """One thing to do."""

    says: str
    """For people: `create PATH`, `change PATH`, `remove PATH`, `run COMMAND`."""
    do: Callable[[], None]
    detail: str = ""
    """What it changes exactly: a file's text or the difference."""
    path: Path | None = None
    """The file it writes or removes."""


def own_files(wanted: Mapping[Path, bytes], mode: int = 0o600, *, show: bool = True) -> list[Step]:
    """Steps that make files of ours what they should be.

    Args:
        show: whether their text says anything to people.
    """
    steps = []
    for path, content in wanted.items():
        found = _read(path)
        if found != content:
            what = "create" if found is None else "replace"
            steps.append(
                Step(f"{what} {path}", _writing(path, content, mode), _text(content) if show else "", path)
            )
    return steps


def gone(paths: Sequence[Path], folders: Sequence[Path] = ()) -> list[Step]:
    """Steps that remove files of ours, and then folders that are empty; a folder with somebody else's files stays."""
    steps = [Step(f"remove {path}", _removing(path), path=path) for path in paths if os.path.lexists(path)]
    if steps:
        steps[-1] = dataclasses.replace(steps[-1], do=_then(steps[-1].do, _pruning(folders)))
    return steps


def edit(path: Path, change: Callable[[str], str], backups: Path) -> list[Step]:
    """A step that changes a file of somebody else's, through its links, keeping its mode and every byte that is not ours. What
    it was before is kept in `backups`; a file that was not there is made, and `restored` takes it away again.

    Raises:
        StepFailed: it cannot be read or written; the message says why.
    """
    real = Path(os.path.realpath(path))
    before = _read(real)
    try:
        text = (before or b"").decode()
    except UnicodeDecodeError:
        raise StepFailed(f"{path} is not UTF-8 text", hint="mend the file, then run this again") from None
    try:
        after = change(text)
    except CemsError as error:
        raise StepFailed(f"{path}: {error}", hint=error.hint) from None
    if after == text and before is not None:
        return []
    if before is not None and not real.stat().st_mode & stat.S_IWUSR:
        raise StepFailed(f"{path} is read-only", hint=f"chmod u+w '{real}', then run this again")
    lines = difflib.unified_diff(text.splitlines(), after.splitlines(), "before", "after", lineterm="", n=2)
    mode = stat.S_IMODE(real.stat().st_mode) if before is not None else 0o600

    def do() -> None:
        if _read(real) != before:
            raise StepFailed(f"{path} was changed meanwhile", hint="run this again")
        _writing(_backup(backups, real, after.encode()), before or b"", 0o600)()
        _writing(real, after.encode(), mode)()

    return [Step(f"{'create' if before is None else 'change'} {path}", do, "\n".join(lines), path)]


def restored(path: Path, change: Callable[[str], str], backups: Path) -> list[Step]:
    """A step that takes our changes out of a file again: if it is still as we left it, it becomes what it was before, byte for
    byte; otherwise `change` takes out what is ours.

    Raises:
        StepFailed: as `edit`.
    """
    real = Path(os.path.realpath(path))
    now = _read(real)
    kept = _backup(backups, real, now) if now is not None else None
    if now is None or kept is None or not kept.exists():
        return edit(path, change, backups) if now is not None else []
    before = kept.read_bytes()
    mode = stat.S_IMODE(real.stat().st_mode)

    def do() -> None:
        if _read(real) != now:
            raise StepFailed(f"{path} was changed meanwhile", hint="run this again")
        if before:
            _writing(real, before, mode)()
        else:
            _removing(real)()
        _removing(kept)()

    return [Step(f"{'restore' if before else 'remove'} {path}", do, path=path)]


def _backup(folder: Path, path: Path, written: bytes) -> Path:
    """Where the former content of a file is kept, found again by what we made of it."""
    return folder / f"{path.name}.before-{hashlib.sha256(written).hexdigest()[:16]}"


def command(*argv: str, why: str, may_fail: bool = False) -> Step:
    """A step that runs a program.

    Args:
        may_fail: a failure is none, such as when something is stopped that does not run.
    """

    def do() -> None:
        try:
            done = subprocess.run(
                argv,
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                timeout=COMMAND_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            if not may_fail:
                raise StepFailed(f"`{' '.join(argv)}` failed: {error}") from error
            return
        if done.returncode and not may_fail:
            said = (done.stderr or done.stdout).strip().splitlines()
            raise StepFailed(f"`{' '.join(argv)}` failed: {said[-1] if said else done.returncode}")

    return Step(f"run {' '.join(argv)}  ({why})", do)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StepFailed(f"{path} cannot be read: {error.strerror}") from error


def _writing(path: Path, content: bytes, mode: int) -> Callable[[], None]:
    def do() -> None:
        try:
            write(path, content, mode)
        except OSError as error:
            raise StepFailed(f"{path} cannot be written: {error.strerror}") from error

    return do


def _removing(path: Path) -> Callable[[], None]:
    def do() -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StepFailed(f"{path} cannot be removed: {error.strerror}") from error

    return do


def _pruning(folders: Sequence[Path]) -> Callable[[], None]:
    def do() -> None:
        for folder in folders:
            with contextlib.suppress(OSError):  # it is not there, or not empty
                folder.rmdir()

    return do


def _then(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    def do() -> None:
        first()
        second()

    return do


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace").rstrip("\n")
