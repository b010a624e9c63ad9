"""Gemini's HTTP interface for tests: a real server on 127.0.0.1 that answers by script and remembers what it
was asked.

In a test: `with FakeGemini() as gemini: gemini.script(html(503), ok({...})); … base_url=gemini.base_url`.
For other processes: `python -m tests.fake_gemini --port 0 --script FILE` prints its port; `POST /_script`
with `{"generate": [behaviour, …], "embed": […], "default": …, "default_embed": …, "clear": true}` changes the
script, `GET /_requests` tells what was asked. A behaviour is a mapping with a `kind`, as the functions below
make them, or (in Python, or as `{"kind": "call", "target": "module:function"}`) a function from what was
asked to a behaviour."""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import hashlib
import importlib
import json
import math
import re
import socket
import struct
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.gemini_script import (
    Asked,
    Behaviour,
    blocked,
    empty,
    error,
    hang,
    html,
    huge,
    ok,
    prompt_blocked,
    quota_of_day,
    rate_limited,
    raw,
    reset,
    text,
    trickle,
    truncated,
    vectors,
)

__all__ = [
    "Asked",
    "Behaviour",
    "FakeGemini",
    "blocked",
    "empty",
    "error",
    "hang",
    "html",
    "huge",
    "ok",
    "prompt_blocked",
    "quota_of_day",
    "rate_limited",
    "raw",
    "reset",
    "text",
    "trickle",
    "truncated",
    "vectors",
]

PATH = re.compile(r"/(?P<version>v1|v1beta)/models/(?P<model>[^:/]+):(?P<method>\w+)")
GENERATE, EMBED = "generate", "embed"
QUEUES = {"generateContent": GENERATE, "batchEmbedContents": EMBED, "embedContent": EMBED}


class FakeGemini:
    """The server, as a context manager or by `start` and `stop`. All of it may be used from any thread."""

    def __init__(self, port: int = 0) -> None:
        self.requests: list[Asked] = []
        self.defaults: dict[str, Behaviour] = {GENERATE: ok({}), EMBED: vectors()}
        self._queues: dict[str, collections.deque[Behaviour]] = {
            GENERATE: collections.deque(),
            EMBED: collections.deque(),
        }
        self._lock = threading.Condition()
        self.closing = threading.Event()
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.gemini = self

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def script(self, *behaviours: Behaviour) -> None:
        """What the next generateContent requests get, after what is scripted already."""
        self._queues[GENERATE].extend(behaviours)

    def script_embed(self, *behaviours: Behaviour) -> None:
        """What the next embedding requests get."""
        self._queues[EMBED].extend(behaviours)

    def clear(self) -> None:
        """Forget the script and the requests; defaults stay."""
        with self._lock:
            self.requests.clear()
            for queue in self._queues.values():
                queue.clear()

    def apply(self, change: Mapping[str, Any]) -> None:
        """Change the script as `POST /_script` does."""
        if change.get("clear"):
            self.clear()
        self.script(*change.get("generate", ()))
        self.script_embed(*change.get("embed", ()))
        for key, queue in (("default", GENERATE), ("default_embed", EMBED)):
            if key in change:
                self.defaults[queue] = change[key]

    def next_behaviour(self, asked: Asked) -> Mapping[str, Any]:
        """Remember a request and decide on its answer."""
        queue = QUEUES[asked.method]
        with self._lock:
            self.requests.append(asked)
            self._lock.notify_all()
            try:
                behaviour = self._queues[queue].popleft()
            except IndexError:
                behaviour = self.defaults[queue]
        while True:
            if isinstance(behaviour, Mapping) and behaviour["kind"] == "call":
                module, _, name = behaviour["target"].partition(":")
                behaviour = getattr(importlib.import_module(module), name)
            if isinstance(behaviour, Mapping):
                return behaviour
            behaviour = behaviour(asked)

    def wait_for(self, count: int, seconds: float = 10) -> None:
        """Wait until so many requests have come in."""
        with self._lock:
            if not self._lock.wait_for(lambda: len(self.requests) >= count, seconds):
                raise TimeoutError(f"{len(self.requests)} of {count} requests after {seconds} s")

    def start(self) -> FakeGemini:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def stop(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> FakeGemini:
        return self.start()

    def __exit__(self, *error: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.stop()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    gemini: FakeGemini


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        if self.path == "/_requests":
            self._send(200, json.dumps([dataclasses.asdict(asked) for asked in self.server.gemini.requests]))
        else:
            self._send(404, "{}")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        data = json.loads(body or b"{}")
        if self.path == "/_script":
            self.server.gemini.apply(data)
            self._send(200, "{}")
            return
        match = PATH.fullmatch(self.path.split("?")[0])
        if match is None or match["method"] not in QUEUES:
            self._send(404, json.dumps({"error": {"code": 404, "status": "NOT_FOUND", "message": self.path}}))
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        asked = Asked(match["method"], match["model"], match["version"], data, headers)
        behaviour = self.server.gemini.next_behaviour(asked)
        with contextlib.suppress(OSError):  # the client has gone, as clients of a hanging server do
            getattr(self, f"_do_{behaviour['kind']}")(behaviour, asked)

    def _do_text(self, behaviour: Mapping[str, Any], asked: Asked) -> None:
        names = {
            "prompt": "prompt",
            "candidates": "candidates",
            "thoughts": "thoughts",
            "cached": "cachedContent",
        }
        content = behaviour["text"]
        candidate: dict[str, Any] = {"index": 0, "finishReason": behaviour["finish"]}
        if content is not None:
            candidate["content"] = {"role": "model", "parts": [{"text": content}] if content else []}
        answer: dict[str, Any] = {"candidates": [candidate], "modelVersion": asked.model}
        if behaviour["usage"]:
            answer["usageMetadata"] = {
                f"{names.get(k, 'cachedContent')}TokenCount": v for k, v in behaviour["usage"].items()
            }
        self._send(200, json.dumps(answer))

    def _do_huge(self, behaviour: Mapping[str, Any], asked: Asked) -> None:
        answer = text(json.dumps({"x": "y" * (int(behaviour["megabytes"]) * 2**20)}))
        assert isinstance(answer, Mapping)
        self._do_text(answer, asked)

    def _do_raw(self, behaviour: Mapping[str, Any], asked: Asked) -> None:
        headers = {name.replace("_", "-"): value for name, value in behaviour["headers"].items()}
        self._send(behaviour["status"], behaviour["body"], behaviour["content_type"], headers)

    def _do_vectors(self, behaviour: Mapping[str, Any], asked: Asked) -> None:
        size = behaviour["dimensions"] or asked.dimensions
        made = [_vector(content, size, behaviour["value"]) for content in asked.texts]
        if (count := behaviour["count"]) is not None:
            made = (made * count)[:count]
        values = [{"values": vector} for vector in made]
        single = asked.method == "embedContent"
        self._send(200, json.dumps({"embedding": values[0]} if single else {"embeddings": values}))

    def _do_hang(self, behaviour: Mapping[str, Any], asked: Asked) -> None:
        self.close_connection = True
        self.server.gemini.closing.wait()

    def _do_trickle(self, behaviour: Mapping[str, Any], asked: Asked) -> None:
        self.close_connection = True
        self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n")
        self.wfile.write(b"x-slow: " if behaviour["headers"] else b"content-length: 1000000\r\n\r\n")
        while not self.server.gemini.closing.wait(behaviour["seconds"]):
            self.wfile.write(b" ")

    def _do_reset(self, behaviour: Mapping[str, Any], asked: Asked) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.rfile.close()
        self.connection.close()

    def _send(
        self,
        status: int,
        body: str,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        content = body.encode("utf-8", "surrogateescape")
        self.send_response(status)
        for name, value in {
            "content-type": content_type,
            "content-length": str(len(content)),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Tests are quiet."""


def _vector(content: str, size: int, value: float | None) -> list[float]:
    """Deterministic, and not of length one, as Gemini's shortened vectors are not."""
    if value is not None:
        return [value] * size
    digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).digest()
    return [math.sin((digest[i % 32] + 1) * (i + 1)) for i in range(size)]


def main() -> None:
    parser = argparse.ArgumentParser(description="A stand-in for the Gemini API on 127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", type=Path, help="a JSON file, as for POST /_script")
    options = parser.parse_args()
    gemini = FakeGemini(options.port)
    if options.script:
        gemini.apply(json.loads(options.script.read_text(encoding="utf-8")))
    sys.stdout.write(f"{gemini.port}\n")
    sys.stdout.flush()
    gemini.start()
    with contextlib.suppress(KeyboardInterrupt):
        gemini.closing.wait()


if __name__ == "__main__":
    main()
