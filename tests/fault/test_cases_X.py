"""Secrets and private passages, from a transcript through a whole observer: they are nowhere afterwards, neither in the
database's files nor in what was sent, logged or set aside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cems.settings import Settings
from db import embedded
from db.connect import Connection, Database
from observer.start import capture
from tests.canaries import needles, planted_secrets
from tests.conftest import FakeClock
from tests.fake_gemini import FakeGemini, error
from tests.fault.oracle import drained
from tests.fault.running import observing
from tests.fault.sessions import call, count, landed, prompt, replied, result, said, session_file, write
from tests.fault.test_processes import Own, own
from tests.fault.writer import encode
from tests.waiting import wait_until

__all__ = ["own"]


def carriers(number: int, text: str) -> list[Any]:
    """Records that hold this text, one for each place a record has for words."""
    name = f"toolu_{number}"
    return [
        said(f"note p{number}: always keep this: {text}"),
        replied(f"I decided to keep it because of the tests: {text}"),
        replied({"type": "thinking", "thinking": f"We must use {text}", "signature": "x"}),
        replied(call("Bash", f"{name}b", command=f"make test && echo '{text}'", description=text)),
        result(f"The output was:\n{text}", f"{name}b"),
        result(f"Traceback: failed with {text}", f"{name}b", error=True),
        replied(call("Write", f"{name}w", file_path="/w/a.py", content=f"x = 1\n{text}\n")),
        result(
            [{"type": "text", "text": text}],
            f"{name}w",
            toolUseResult={"stdout": text, "file": {"filePath": "/w/a.py", "content": text}},
        ),
        replied(call("Task", f"{name}t", description="d", prompt=text)),
        prompt(0)
        | {
            "type": "attachment",
            "message": None,
            "attachment": {"type": "queued_command", "prompt": f"and also {text}", "commandMode": "prompt"},
        },
        {"type": "custom-title", "customTitle": text, "sessionId": "s"},
        b'{"type":"user","message":"cut ' + json.dumps(text)[1:-1].encode(),
        b"plain words " + text.replace("\n", " ").encode(),
    ]


@pytest.mark.fault
def test_case_X92_planted_secrets_are_nowhere_afterwards(
    own: Own, projects: Path, tmp_path: Path, gemini: FakeGemini
) -> None:
    secrets = planted_secrets(7)
    for number, text in enumerate(secrets.values()):
        write(session_file(projects, f"s{number:03d}"), *carriers(number, text))
    refused = error(400, "INVALID_ARGUMENT", "the request was: " + next(iter(needles(7).values())))
    gemini.script(refused)
    environment = own.environment | {
        "CEMS_LOG_LEVEL": "debug",
        "CEMS_EMBEDDER": "gemini",
        "CEMS_OBSERVER_BATCH_SIZE": "50000",
    }
    with observing(environment, tmp_path) as observer:
        observer.wait_ready(30)
        with own.connection() as sql:
            wait_until(
                lambda: sql.execute(b"update llm_call set resume_at = now()") and drained(sql, {}),
                40,
                "all observed",
            )
            wait_until(
                lambda: (
                    count(sql, "select (select count(*) from memory) - (select count(*) from embedding) as n")
                    == 0
                ),
                20,
            )
            assert count(sql, "select count(*) as n from memory") > len(secrets) // 2
            assert count(sql, "select count(*) as n from set_aside") >= len(secrets)
            found = tables(sql)
        assert observer.terminate() == 0
        found["log"] = observer.log.read_text() + observer.out.read_text()
    found["requests"] = json.dumps(
        [[asked.body, asked.headers] for asked in gemini.requests], ensure_ascii=False
    )
    assert "note p1" in found["requests"]
    embedded.stop(own.home)
    files = {str(p.relative_to(own.home)): p.read_bytes() for p in own.home.rglob("*") if p.is_file()}
    assert any(b"note p1" in data for data in files.values()), "the database's files are read as they are"
    leaks = [
        (kind, where)
        for kind, needle in needles(7).items()
        for where, text in found.items()
        if needle in text
    ]
    leaks += [
        (kind, where)
        for kind, needle in needles(7).items()
        for where, data in files.items()
        if needle.encode() in data
    ]
    assert leaks == []


def tables(sql: Connection) -> dict[str, str]:
    """Every row of every table, as text."""
    names = [
        row["t"]
        for row in sql.execute(b"select tablename as t from pg_tables where schemaname = 'cems'").fetchall()
    ]
    return {
        n: "\n".join(str(r["x"]) for r in sql.execute(f"select x::text from {n} x".encode()).fetchall())
        for n in names
    }


PRIVATE = "the merger with Hooli"


@pytest.mark.parametrize(
    "text",
    [
        f"always <private>{PRIVATE}</private> keep it",
        f"always keep it <private>{PRIVATE}",
        f"always keep it <PRIVATE >{PRIVATE}</ private>",
        f"always keep it <private>a <private>b</private> {PRIVATE}</private>",
    ],
)
def test_case_X93_private_passages_never_land(
    text: str, db: Database, settings: Settings, projects: Path, clock: FakeClock, sql: Connection
) -> None:
    attachment = {"type": "queued_command", "prompt": text, "commandMode": "prompt"}
    queued = prompt(0, at=clock.now()) | {"type": "attachment", "attachment": attachment}
    write(
        session_file(projects),
        said(text),
        replied(text),
        queued,
        replied(call("Bash", command=f"echo '{text}'")),
        result(text),
        encode(said(text))[:-3],
    )
    capture(db, settings, clock).run_pass()
    assert len(landed(sql)) == 5
    assert "always" in landed(sql)[0]["text"]
    assert not [name for name, rows in tables(sql).items() if "Hooli" in rows]


def test_case_X93_a_passage_split_over_blocks_takes_what_is_between(
    db: Database, settings: Settings, projects: Path, clock: FakeClock, sql: Connection
) -> None:
    def blocks(*texts: str) -> dict[str, Any]:
        return said("") | {
            "message": {"role": "user", "content": [{"type": "text", "text": t} for t in texts]}
        }

    write(
        session_file(projects),
        blocks("always keep <private>this", PRIVATE, "and that</private> but tell them"),
        blocks("always keep <private>this", PRIVATE),
        prompt(1),
    )
    capture(db, settings, clock).run_pass()
    texts = [row["text"] for row in landed(sql)]
    assert [t.split() for t in texts[:2]] == [["always", "keep", "but", "tell", "them"], ["always", "keep"]]
    assert "module 1" in texts[2], "and the next message is whole again"
    assert not [name for name, rows in tables(sql).items() if "Hooli" in rows]
