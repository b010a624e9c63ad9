"""Learning from use: what was shown and used is read from transcripts, counted once, and never learnt again."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from cems.ids import short
from cems.models import Memory
from cems.settings import Settings
from db import lifecycle, memories
from db.connect import Connection, Database, Row
from db.memories import Filter, HandWritten
from observer.start import capture
from recall.block import Section, fence, item
from tests.conftest import FakeClock
from tests.writing import Transcript, observe_all

CWD = "/nowhere/tern"


@pytest.fixture
def memory(db: Database, clock: FakeClock) -> Memory:
    """One memory, which holds everywhere."""
    entry = HandWritten(
        "decision",
        "Checkout queue drains before webhook retries",
        "Stripe duplicates orders otherwise, measured in staging.",
    )
    memories.add_by_hand(db, [entry], clock.now())
    return memories.list_memories(db, Filter())[0]


@pytest.fixture
def transcript(config_dir: Path) -> Transcript:
    return Transcript(config_dir, CWD)


def block(memory: Memory, event: str = "SessionStart") -> str:
    return fence([Section("Here:", [item(memory, None)])], event, tokens=2000)


def counts(sql: Connection) -> Row:
    row = sql.execute(
        "select seen_count, shown_count, used_count, last_shown_at, last_used_at from memory order by id limit 1"
    ).fetchone()
    assert row is not None
    return row


def hook_output(text: str) -> str:
    return json.dumps({"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": text}})


SHOWN: dict[str, Callable[[Transcript, str], object]] = {
    "a hook's context": lambda t, b: t.given(b),
    "a hook's context as one string": lambda t, b: t.attach("hook_additional_context", content=b),
    "a hook's output": lambda t, b: t.attach("hook_success", content="", stdout=hook_output(b) + "\n"),
    "a hook's plain output": lambda t, b: t.attach("hook_success", content=b, stdout=b),
    "a reminder": lambda t, b: t.prompt(
        f"<system-reminder>\nhook context: {b}\n</system-reminder>", isMeta=True
    ),
    "a reminder with a prompt": lambda t, b: t.prompt(f"<system-reminder>{b}</system-reminder>fix the build"),
    "output and context of one hook": lambda t, b: (
        t.attach("hook_success", content="", stdout=hook_output(b)),
        t.given(b),
        t.prompt(f"<system-reminder>{b}</system-reminder>", isMeta=True, timestamp=t.at.isoformat()),
    ),
}
NOT_SHOWN: dict[str, Callable[[Transcript, str], object]] = {
    "a tool's result": lambda t, b: t.result(b),
    "a pasted block": lambda t, b: t.prompt(f"what is this? {b}"),
    "the assistant's words": lambda t, b: t.answer(f"I was given {b}"),
    "a compaction's summary": lambda t, b: t.prompt(
        f"<system-reminder>{b}</system-reminder>", isCompactSummary=True
    ),
    "an attached file": lambda t, b: t.attach("file", content=b),
    "another block's ids": lambda t, b: t.given(b.replace("cems-memory", "other-memory")),
}


@pytest.mark.parametrize("how", SHOWN)
def test_what_recall_gave_is_counted_once_in_every_shape(
    db: Database,
    settings: Settings,
    clock: FakeClock,
    sql: Connection,
    memory: Memory,
    transcript: Transcript,
    how: str,
) -> None:
    SHOWN[how](transcript, block(memory))
    transcript.prompt("go on")
    capture(db, settings, clock).run_pass(once=True)
    found = counts(sql)
    assert (found["shown_count"], found["used_count"]) == (1, 0)
    assert abs((found["last_shown_at"] - transcript.at).total_seconds()) < 600


@pytest.mark.parametrize("how", NOT_SHOWN)
def test_a_block_that_recall_did_not_give_counts_nothing(
    db: Database,
    settings: Settings,
    clock: FakeClock,
    sql: Connection,
    memory: Memory,
    transcript: Transcript,
    how: str,
) -> None:
    transcript.prompt("begin")
    NOT_SHOWN[how](transcript, block(memory))
    capture(db, settings, clock).run_pass(once=True)
    assert counts(sql)["shown_count"] == 0


def test_naming_a_shown_memory_is_use_and_a_turn_counts_once(
    db: Database,
    settings: Settings,
    clock: FakeClock,
    sql: Connection,
    memory: Memory,
    transcript: Transcript,
) -> None:
    capturing = capture(db, settings, clock)
    transcript.given(block(memory))
    transcript.prompt("why does checkout wait?")
    capturing.run_pass(once=True)
    transcript.answer(f"Memory [{short(memory.id)}] says so.")
    transcript.call("Bash", {"command": f"cems memory show {short(memory.id)}"})
    capturing.run_pass(once=True)
    assert counts(sql)["used_count"] == 1
    transcript.prompt("and now?")
    transcript.answer(f"As {short(memory.id)} has it.")
    # Another process: what was shown is known from the database.
    capture(db, settings, clock).run_pass(once=True)
    assert counts(sql)["used_count"] == 2
    assert sql.execute("select how, count(*) as n from memory_use group by how order by how").fetchall() == [
        {"how": "cited", "n": 3},
        {"how": "shown", "n": 1},
    ]


def test_an_id_that_was_not_shown_in_this_session_is_no_use(
    db: Database, settings: Settings, clock: FakeClock, sql: Connection, memory: Memory, config_dir: Path
) -> None:
    shown, other = Transcript(config_dir, CWD), Transcript(config_dir, CWD)
    shown.given(block(memory))
    shown.prompt("go on")
    other.prompt("go on")
    other.answer(f"The commit is {short(memory.id)}.")
    capture(db, settings, clock).run_pass(once=True)
    assert (counts(sql)["shown_count"], counts(sql)["used_count"]) == (1, 0)


ACTED = (
    "So that Stripe makes no duplicates, the checkout queue drains first and webhook retries come after it."
)


def acting(
    transcript: Transcript, memory: Memory, prompt: str, *, result: str = "", between: str = ""
) -> None:
    transcript.prompt(prompt)
    transcript.given(block(memory, "UserPromptSubmit"), "UserPromptSubmit")
    transcript.call("Read", {"file_path": "/nowhere/tern/app.py"})
    transcript.result(result or "def main(): ...")
    if between:
        transcript.prompt(between)
    transcript.answer(ACTED)


@pytest.mark.parametrize(
    ("prompt", "result", "between", "used"),
    [
        ("orders come twice, what now?", "", "", 1),
        ("does the checkout queue drain before webhook retries?", "", "", 0),
        ("what now?", "queue.drains() before webhook retries in checkout", "", 0),
        ("what now?", "", "something else", 0),
    ],
    ids=["of its own accord", "the question said it", "a file said it", "a later turn"],
)
def test_acting_upon_a_memory_is_use_where_nothing_else_explains_the_words(
    db: Database,
    settings: Settings,
    clock: FakeClock,
    sql: Connection,
    memory: Memory,
    transcript: Transcript,
    prompt: str,
    result: str,
    between: str,
    used: int,
) -> None:
    acting(transcript, memory, prompt, result=result, between=between)
    capture(db, settings, clock).run_pass(once=True)
    assert (counts(sql)["shown_count"], counts(sql)["used_count"]) == (1, used)


def test_a_restart_inside_a_turn_judges_nothing_it_did_not_see(
    db: Database,
    settings: Settings,
    clock: FakeClock,
    sql: Connection,
    memory: Memory,
    transcript: Transcript,
) -> None:
    transcript.prompt("what now?")
    transcript.given(block(memory))
    capture(db, settings, clock).run_pass(once=True)
    transcript.answer(ACTED)
    capture(db, settings, clock).run_pass(once=True)
    assert counts(sql)["used_count"] == 0


def test_a_transcript_read_again_or_copied_counts_nothing_twice(
    db: Database,
    settings: Settings,
    clock: FakeClock,
    sql: Connection,
    memory: Memory,
    transcript: Transcript,
    config_dir: Path,
) -> None:
    acting(transcript, memory, "what now?")
    transcript.answer(f"See {short(memory.id)}.")
    capturing = capture(db, settings, clock)
    capturing.run_pass(once=True)
    before = counts(sql)
    assert (before["shown_count"], before["used_count"]) == (1, 1)
    content = transcript.path.read_bytes()
    transcript.path.write_bytes(
        b'{"type":"mode","mode":"normal"}\n' + content
    )  # rewritten: read again from the start
    fork, copy = Transcript(config_dir, CWD), Transcript(config_dir, CWD)
    fork.path.write_bytes(content.replace(transcript.session.encode(), fork.session.encode()))
    records = [
        json.loads(line) | {"uuid": str(uuid.uuid4()), "sessionId": copy.session}
        for line in content.splitlines()
    ]
    copy.path.write_text("".join(json.dumps(r) + "\n" for r in records))
    capturing.run_pass(once=True)
    assert capturing.report.rewound == 1
    assert counts(sql) == before


def test_excluded_projects_and_other_tools_teach_nothing(
    db: Database, settings: Settings, clock: FakeClock, sql: Connection, memory: Memory, config_dir: Path
) -> None:
    foreign = Transcript(config_dir, CWD)
    foreign.given(block(memory))
    foreign.prompt("You are a summariser. Summarise the session below.", entrypoint="sdk-py")
    excluded = Transcript(config_dir, "/nowhere/client/app")
    excluded.given(block(memory))
    excluded.prompt("hello there")
    import dataclasses

    closed = dataclasses.replace(settings, observer_exclude_projects=("/nowhere/client/*",))
    capture(db, closed, clock).run_pass(once=True)
    shown = sql.execute("select session_id from memory_use").fetchall()
    assert uuid.UUID(excluded.session) not in {row["session_id"] for row in shown}


def test_an_erased_memory_leaves_no_trace_of_its_use(
    db: Database,
    settings: Settings,
    clock: FakeClock,
    sql: Connection,
    memory: Memory,
    transcript: Transcript,
) -> None:
    acting(transcript, memory, "what now?")
    capture(db, settings, clock).run_pass(once=True)
    assert sql.execute("select 1 from memory_use").fetchone()
    lifecycle.erase(db, memory.id, clock.now())
    assert not sql.execute("select 1 from memory_use").fetchone()


def test_the_short_id_of_the_database_is_the_one_that_is_shown(sql: Connection, memory: Memory) -> None:
    assert sql.execute("select short_id from memory").fetchone() == {"short_id": short(memory.id)}


def test_case_E42_a_memory_that_comes_back_in_transcripts_is_counted_and_not_learnt(
    db: Database, settings: Settings, clock: FakeClock, sql: Connection, config_dir: Path
) -> None:
    first = Transcript(config_dir, CWD)
    first.prompt("From now on always run the linters before each commit in this repository.")
    first.answer(
        "We decided to use uv rather than pip because the lock file is shared with the build machine."
    )
    capturing = capture(db, settings, clock)
    observe_all(db, capturing, clock)
    learnt = memories.list_memories(db, Filter(limit=100))
    assert len(learnt) >= 2
    shapes = [how for name, how in {**SHOWN, **NOT_SHOWN}.items() if name != "another block's ids"]
    for _ in range(5):
        text = fence([Section("Here:", [item(m, None) for m in learnt])], "SessionStart", tokens=2000)
        session = Transcript(config_dir, CWD, at=clock.now())
        session.given(text)
        for shape in shapes:
            session.prompt("carry on with the parser")
            shape(session, text)
            session.answer("Done, the parser is finished and its tests are green.")
        observe_all(db, capturing, clock)
    after = memories.list_memories(db, Filter(limit=100))
    assert [(m.id, m.seen_count) for m in after] == [(m.id, 1) for m in learnt]
    assert all(row["n"] >= 5 for row in sql.execute("select shown_count as n from memory").fetchall())
    lines = sql.execute("select count(*) as n from line where text like '%cems-memory%'").fetchone()
    assert lines == {"n": 0}


def test_what_our_own_tools_gave_back_is_no_news(
    db: Database,
    sql: Connection,
    settings: Settings,
    clock: FakeClock,
    memory: Memory,
    transcript: Transcript,
) -> None:
    transcript.prompt("What do we know of the checkout queue?")
    transcript.call("mcp__cems__search", {"query": "checkout queue"})
    transcript.result(f"one memory\n{block(memory)}\nask `get` for more")
    observe_all(db, capture(db, settings, clock), clock)
    rows = sql.execute("select text from line where kind = 'result'").fetchall()
    assert rows and all(memory.title not in row["text"] and "ask `get`" in row["text"] for row in rows)
