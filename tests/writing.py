"""Writes transcripts as Claude Code does, record by record, for tests that need a session of their own."""

from __future__ import annotations

import datetime as dt
import json
import re
import uuid
from pathlib import Path
from typing import Any

from db.connect import Database
from db.ledger import Caps
from observer.batch import close_due
from observer.capture import Capture
from observer.observe import Observing
from observer.rules import RuleExtractor
from tests.conftest import FakeClock

START = dt.datetime(2026, 11, 20, 9, 0, tzinfo=dt.UTC)


class Transcript:
    """One session's file; each method adds one record and returns its uuid."""

    def __init__(
        self, config: Path, cwd: str, *, session: str | None = None, at: dt.datetime = START, folder: str = ""
    ) -> None:
        self.session = session or str(uuid.uuid4())
        self.cwd = cwd
        self.at = at
        self.path = (
            config / "projects" / (folder or re.sub("[^A-Za-z0-9]", "-", cwd)) / f"{self.session}.jsonl"
        )
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def record(self, type_: str, **fields: Any) -> str:
        """Any record; half a second after the one before it."""
        self.at += dt.timedelta(seconds=0.5)
        record = {
            "parentUuid": None,
            "isSidechain": False,
            "type": type_,
            "uuid": str(uuid.uuid4()),
            "timestamp": self.at.isoformat().replace("+00:00", "Z"),
            "cwd": self.cwd,
            "sessionId": self.session,
            "version": "2.1.268",
            "entrypoint": "cli",
        } | fields
        with self.path.open("a") as f:
            f.write(json.dumps(record) + "\n")
        return str(record["uuid"])

    def prompt(self, text: str, **fields: Any) -> str:
        self.at += dt.timedelta(minutes=2)
        return self.record("user", message={"role": "user", "content": text}, **fields)

    def answer(self, text: str) -> str:
        content = [{"type": "text", "text": text}]
        return self.record("assistant", message={"role": "assistant", "model": "m", "content": content})

    def call(self, name: str, given: dict[str, str]) -> str:
        content = [{"type": "tool_use", "id": f"toolu_{uuid.uuid4()}", "name": name, "input": given}]
        return self.record("assistant", message={"role": "assistant", "model": "m", "content": content})

    def result(self, text: str) -> str:
        content = [{"type": "tool_result", "tool_use_id": "toolu_1", "content": text}]
        return self.record("user", message={"role": "user", "content": content})

    def attach(self, type_: str, **fields: Any) -> str:
        return self.record("attachment", attachment={"type": type_, **fields})

    def given(self, block: str, event: str = "SessionStart") -> str:
        """A block as a hook's context."""
        return self.attach("hook_additional_context", content=[block], hookName=event, hookEvent=event)

    def title(self, text: str) -> None:
        with self.path.open("a") as f:
            f.write(json.dumps({"type": "ai-title", "aiTitle": text, "sessionId": self.session}) + "\n")


def observe_all(db: Database, capturing: Capture, clock: FakeClock) -> None:
    """Land what is new, close every batch, and observe them all by rules."""
    capturing.run_pass(once=True)
    clock.advance(600)
    close_due(db, clock.now(), batch_size=1, idle=dt.timedelta(0), once=True)
    observing = Observing(db, RuleExtractor(), (), clock, caps=Caps(0, 0))
    while observing.run_one():
        pass
