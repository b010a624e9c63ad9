"""Everyday care: logs, completion, and asking for a newer version, which happens only when it is asked for."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from cems import __version__
from tests.program import Program


@pytest.fixture
def program(environment: dict[str, str], tmp_path: Path) -> Program:
    return Program(environment | {"XDG_CONFIG_HOME": str(tmp_path / "config")}, tmp_path)


def test_logs_are_shown_from_where_they_are(program: Program, home: Path) -> None:
    assert "cems up" in program("logs", code=1).err
    (home / "recall").mkdir(mode=0o700)
    (home / "recall" / "service.log").write_text("".join(f"line {n}\n" for n in range(300)))
    assert program("logs", "--part", "recall", "-n", "2").out == "line 298\nline 299\n"


def test_logs_of_units_come_from_the_journal(program: Program, tmp_path: Path) -> None:
    units = tmp_path / "config/systemd/user"
    units.mkdir(parents=True)
    (units / "cems-observer.service").write_text("")
    tool = tmp_path / "bin" / "journalctl"
    tool.parent.mkdir()
    tool.write_text('#!/bin/sh\necho "$@"\n')
    tool.chmod(0o755)
    having = program.having({"PATH": f"{tool.parent}:{program.environment['PATH']}"})
    said = having("logs", "--part", "observer", "-f").out
    assert "--user-unit cems-observer.service" in said and "--follow" in said


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_learns_our_commands(program: Program, shell: str, tmp_path: Path) -> None:
    script = program("completion", shell).out
    assert "_CEMS_COMPLETE" in script
    if shutil.which(shell) and shell != "zsh":
        (tmp_path / "script").write_text(script)
        subprocess.run([shell, "-n", str(tmp_path / "script")], check=True, timeout=20)


class Index(BaseHTTPRequestHandler):
    """A package index that answers with what the test wants."""

    answer: bytes = b""
    asked: int = 0
    promised: int | None = None
    """The length that is announced, where it is."""

    def do_GET(self) -> None:
        type(self).asked += 1
        self.send_response(200 if self.answer else 404)
        if self.promised is not None:
            self.send_header("Content-Length", str(self.promised))
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def index() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Index.asked, Index.promised = 0, None
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"info": {"version": "999.1"}}, 3),
        ({"info": {"version": __version__}}, 0),
        ({"info": {"version": "0.0.1rc2"}}, 0),
        ({"info": {}}, 1),
        ([], 1),
        (None, 1),
    ],
)
def test_a_newer_version_is_told(program: Program, index: str, answer: object, code: int) -> None:
    Index.answer = json.dumps(answer).encode() if answer is not None else b""
    done = program("update-check", "--index", index, code=code)
    assert "Traceback" not in done.err
    assert ("999.1" in done.out) == (code == 3)


def test_no_index_is_a_clear_error(program: Program) -> None:
    assert "did not answer" in program("update-check", "--index", "http://127.0.0.1:9/", code=1).err
    assert "did not answer" in program("update-check", "--index", "http://x:port/", code=1).err
    assert "no address" in program("update-check", "--index", "file:///etc/passwd", code=1).err.replace(
        "not an", "no"
    )


def test_an_answer_that_is_cut_off_is_a_clear_error(program: Program, index: str) -> None:
    Index.answer, Index.promised = b'{"info"', 1000
    done = program("update-check", "--index", index, code=1)
    assert "did not answer" in done.err and "Traceback" not in done.err
