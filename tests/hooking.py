"""The hook as Claude Code runs it, a recall service beside it, and memories for both to find."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import json
import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cems.models import Kind, Origin
from cems.project import Project
from db.connect import Connection, Database
from db.memories import HandWritten, add_by_hand
from recall.client import health
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parent.parent
HOOK = ROOT / "recall" / "hook.py"
EVENTS = ("UserPromptSubmit", "SessionStart", "SubagentStart")
NOW = dt.datetime(2026, 11, 30, 12, 0, tzinfo=dt.UTC)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What one run of the hook did."""

    code: int
    stdout: bytes
    stderr: bytes
    seconds: float

    @property
    def context(self) -> str:
        """The text for the session; fails unless standard output is one document of nothing else than that."""
        assert self.code == 0
        assert self.stderr == b""
        document = json.loads(self.stdout)
        assert list(document) == ["hookSpecificOutput"]
        assert set(document["hookSpecificOutput"]) == {"hookEventName", "additionalContext"}
        text = document["hookSpecificOutput"]["additionalContext"]
        assert isinstance(text, str)
        return text

    @property
    def event(self) -> str:
        """The event the document is for."""
        return str(json.loads(self.stdout)["hookSpecificOutput"]["hookEventName"])


def payload(event: str, cwd: str | Path, **fields: Any) -> dict[str, Any]:
    """Standard input as the agent writes it."""
    common = {
        "session_id": "8a7f2f5e-6d0a-4b6e-9f38-1f3f7c2f9d10",
        "transcript_path": "/nowhere/session.jsonl",
        "cwd": str(cwd),
        "permission_mode": "default",
        "hook_event_name": event,
    }
    own: dict[str, dict[str, Any]] = {
        "UserPromptSubmit": {"prompt": ""},
        "SessionStart": {"source": "startup", "model": "claude-sonnet-5"},
        "SubagentStart": {"agent_id": "a1b2c3d4", "agent_type": "Explore"},
    }
    return common | own.get(event, {}) | fields


def run_hook(
    environment: Mapping[str, str],
    event: str,
    given: Mapping[str, Any] | bytes,
    *,
    cwd: Path | None = None,
    program: Sequence[str] = (sys.executable, "-I", "-S", str(HOOK)),
) -> Outcome:
    """One run of the real hook."""
    data = given if isinstance(given, bytes) else json.dumps(given).encode()
    began = time.monotonic()
    done = subprocess.run(
        [*program, event], input=data, capture_output=True, env=dict(environment), cwd=cwd, timeout=20
    )
    return Outcome(done.returncode, done.stdout, done.stderr, time.monotonic() - began)


def ask(environment: Mapping[str, str], cwd: str | Path, prompt: str, **fields: Any) -> str:
    """What a prompt in a folder gets."""
    return run_hook(
        environment, "UserPromptSubmit", payload("UserPromptSubmit", cwd, prompt=prompt, **fields)
    ).context


@contextlib.contextmanager
def serving(
    environment: Mapping[str, str], *options: str, ready: bool = True
) -> Iterator[subprocess.Popen[bytes]]:
    """A recall service for the time of the block."""
    home = Path(environment["CEMS_HOME"])
    home.mkdir(parents=True, exist_ok=True)
    log = home / f"recall-{time.monotonic_ns()}.log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-I", "-m", "cems", "recall", *options],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
        )
    try:
        if ready:
            wait_until(
                lambda: is_well(home, process.pid) or process.poll() is not None, 30, "a recall service"
            )
            assert process.poll() is None, log.read_text()
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, 18)  # SIGCONT: it may have been stopped
            process.terminate()
        try:
            process.wait(10)
        finally:
            process.kill()


def is_well(home: Path, pid: int) -> bool:
    """Whether this process answers and reaches the database."""
    found = health(home, 1.0)
    return found is not None and found.get("pid") == pid and found.get("ok") is True


def remember(
    db: Database,
    sql: Connection | None,
    title: str,
    *,
    body: str = "",
    kind: Kind = "decision",
    project: Project | None = None,
    origin: Origin = "user",
    confidence: float = 1.0,
    at: dt.datetime = NOW,
) -> uuid.UUID:
    """A memory as somebody's sessions brought it."""
    stored = add_by_hand(db, [HandWritten(kind, title, body, project=project)], at)
    if sql is not None:
        sql.execute(
            "update memory set origin = %s, confidence = %s, author = 'rules' where id = %s",
            (origin, confidence, stored.ids[0]),
        )
    return stored.ids[0]


def transcript(path: Path, *records: Mapping[str, Any]) -> str:
    """A session file with these records; returns its path."""
    path.write_text("".join(json.dumps(r, separators=(",", ":")) + "\n" for r in records))
    return str(path)


def bind_in(listener: socket.socket, folder: Path) -> None:
    """Bind a socket by its short name in a folder, whose path may be too long for an address."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        listener.bind("recall.sock")
    finally:
        os.chdir(before)


def answer_record(text: str) -> dict[str, Any]:
    """What the assistant said."""
    return {
        "type": "assistant",
        "uuid": str(uuid.uuid4()),
        "message": {"role": "assistant", "content": [{"type": "text", "text": text}]},
    }


def injected_record(block: str, event: str = "UserPromptSubmit") -> dict[str, Any]:
    """How the agent writes down what a hook gave it."""
    return {
        "type": "attachment",
        "uuid": str(uuid.uuid4()),
        "attachment": {
            "type": "hook_additional_context",
            "content": [block],
            "hookName": event,
            "hookEvent": event,
        },
    }


def compacted_record() -> dict[str, Any]:
    """The mark of a compaction."""
    return {"type": "system", "subtype": "compact_boundary", "uuid": str(uuid.uuid4()), "compactMetadata": {}}
