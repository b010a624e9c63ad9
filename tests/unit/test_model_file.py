"""The local embedder's files are whole and right or not there, whoever gives them and whoever is killed."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cems.errors import EmbedderUnavailable
from cems.providers.model_file import (
    MODEL,
    MODEL_NAME,
    PINNED,
    TOKENIZER,
    PinnedFile,
    Progress,
    SourceFailed,
    ensure_model,
)
from cems.settings import load
from maintenance.job import Report
from maintenance.start import Order, models
from tests.local_model import model_folder


class Shelf:
    """A source that has the files of a folder, or other bytes, or fails; and counts."""

    def __init__(self, name: str, give: Callable[[], dict[PinnedFile, bytes]]) -> None:
        self.name, self.give, self.asked = name, give, 0

    def fetch(self, folder: Path, progress: Progress) -> dict[PinnedFile, bytes]:
        self.asked += 1
        (folder / "half").write_bytes(b"on the way")
        progress(0, None)
        return self.give()


def real() -> dict[PinnedFile, bytes]:
    return {file: file.read(model_folder()) for file in PINNED}


def fails() -> dict[PinnedFile, bytes]:
    raise SourceFailed("closed today")


def is_whole(folder: Path) -> bool:
    return all(file.accepts((folder / file.name).read_bytes()) for file in PINNED)


# ---- The cache


def test_first_source_that_has_them(tmp_path: Path) -> None:
    closed, good, spare = Shelf("closed", fails), Shelf("good", real), Shelf("spare", real)
    seen: list[tuple[int, int | None]] = []
    cache = tmp_path / "deep" / "cache"
    folder = ensure_model(cache, progress=lambda *p: seen.append(p), sources=[closed, good, spare])
    assert is_whole(folder)
    assert (closed.asked, good.asked, spare.asked) == (1, 1, 0)
    assert seen == [(0, None), (0, None)]
    assert {path.name for path in folder.iterdir()} == {MODEL.name, TOKENIZER.name}
    assert [path.name for path in cache.iterdir() if path.name.startswith(".part-")] == []
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in folder.iterdir())


def test_second_call_asks_nobody(tmp_path: Path) -> None:
    ensure_model(tmp_path, sources=[Shelf("good", real)])
    assert ensure_model(tmp_path, sources=[]) == tmp_path / MODEL_NAME


@pytest.mark.parametrize("content", [b"", b"<html>", None])
def test_damaged_cache_is_repaired(tmp_path: Path, content: bytes | None) -> None:
    folder = ensure_model(tmp_path, sources=[Shelf("good", real)])
    if content is None:
        (folder / TOKENIZER.name).unlink()
    else:
        (folder / MODEL.name).write_bytes(content)
    assert is_whole(ensure_model(tmp_path, sources=[Shelf("good", real)]))


def test_wrong_bytes_are_never_kept(tmp_path: Path) -> None:
    def swapped() -> dict[PinnedFile, bytes]:
        return {MODEL: b"\0" * MODEL.size, TOKENIZER: b"{}"}

    with pytest.raises(EmbedderUnavailable) as caught:
        ensure_model(tmp_path, sources=[Shelf("closed", fails), Shelf("liar", swapped), Shelf("bare", dict)])
    assert "closed: closed today" in str(caught.value)
    assert "liar: its tokenizer.json and model.onnx has the wrong SHA-256" in str(caught.value)
    assert caught.value.hint
    assert list((tmp_path / MODEL_NAME).iterdir()) == []


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(EmbedderUnavailable, match="cannot be kept"):
        ensure_model(tmp_path / "file", sources=[Shelf("good", fails)])


def test_many_at_once_fetch_once(tmp_path: Path) -> None:
    shelf = Shelf("good", real)
    with ThreadPoolExecutor(6) as pool:
        folders = list(pool.map(lambda _: ensure_model(tmp_path, sources=[shelf]), range(6)))
    assert set(folders) == {tmp_path / MODEL_NAME}
    assert shelf.asked == 1


def test_maintenance_gives_signs_of_life_while_it_fetches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed() -> dict[PinnedFile, bytes]:
        raise SourceFailed("closed")

    monkeypatch.setattr("cems.providers.model_sources.DEFAULT_SOURCES", (Shelf("closed", closed),))
    told: list[bool] = []
    report = Report()
    found = models(load({"CEMS_HOME": str(tmp_path)}), Order("reindexing"), report, lambda: told.append(True))
    assert found == (None, None) and told == [True]
    assert any(note.startswith("no embedder: ") for note in report.notes)


KILLED = """
import sys, time
from pathlib import Path
from cems.providers.model_file import ensure_model

class Slow:
    name = "slow"
    def fetch(self, folder, progress):
        (folder / "half").write_bytes(b"x" * 100)
        print("fetching", flush=True)
        time.sleep(60)

ensure_model(Path(sys.argv[1]), sources=[Slow()])
"""


def test_killed_in_the_middle_harms_nobody(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "fetching\n"
        os.kill(process.pid, signal.SIGKILL)
    assert list(tmp_path.glob(".part-*")) != []
    assert is_whole(ensure_model(tmp_path, sources=[Shelf("good", real)]))
    assert list(tmp_path.glob(".part-*")) == []
