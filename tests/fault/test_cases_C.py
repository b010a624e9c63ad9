"""Reported cases of capture: what is on disk lands, once, however it came there and whatever else lies beside it."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from cems.failpoint import armed
from cems.providers.fake import ScriptedGenerator
from cems.settings import Settings
from db import ingest
from db.connect import Connection, Database
from observer import tail
from observer.batch import close_due
from observer.capture import Capture
from observer.llm import LlmExtractor
from observer.start import capture
from tests.conftest import FakeClock
from tests.fault.here import observing
from tests.fault.sessions import (
    answer,
    append,
    count,
    landed,
    landed_uuids,
    lines,
    prompt,
    said,
    session_file,
    uuids,
    write,
)
from tests.fault.writer import encode


@pytest.fixture
def fresh(db: Database, settings: Settings, clock: FakeClock) -> Callable[[], Capture]:
    """An observer's capture as after a restart."""
    return lambda: capture(db, settings, clock)


def test_case_C1_a_line_cut_by_a_kill_lands_whole_after_the_restart(
    fresh: Callable[[], Capture], projects: Path, sql: Connection
) -> None:
    first, second = prompt(1), answer(1, words="é漢😀")
    path = write(session_file(projects), first)
    behind = path.stat().st_size
    data = lines(second)
    for cut in sorted({*range(1, len(data), 29), len(data) - 1}):
        path.write_bytes(lines(first) + data[:cut])
        seen = fresh()
        seen.run_pass()
        seen.run_pass()  # and again, when it is quiet
        assert count(sql, 'select "offset" as n from transcript') == behind
        assert count(sql, "select count(*) as n from set_aside") == 0
    append(path.with_suffix(".other"))
    path.write_bytes(lines(first, second))
    fresh().run_pass()
    assert landed_uuids(sql) == uuids([first, second])
    assert count(sql, 'select "offset" as n from transcript') == path.stat().st_size


def test_case_C3_a_line_that_is_no_json_is_kept_once_and_stops_nothing(
    fresh: Callable[[], Capture], projects: Path, sql: Connection
) -> None:
    before, after = prompt(1), prompt(2)
    path = write(session_file(projects), before, b'{"type":"user","uuid":"x","mess', after)
    seen = fresh()
    seen.run_pass()
    assert seen.report.lines_skipped == {"not_json": 1}
    path.write_bytes(lines(prompt(3)) + path.read_bytes())  # read again from the start
    fresh().run_pass()
    assert uuids([before, after]) == landed_uuids(sql)[:2]
    rows = sql.execute(b"select reason, excerpt from set_aside").fetchall()
    assert [(r["reason"], r["excerpt"]) for r in rows] == [("not_json", '{"type":"user","uuid":"x","mess')]


def test_case_C4_three_looks_at_one_growing_file(
    fresh: Callable[[], Capture], projects: Path, sql: Connection
) -> None:
    path = session_file(projects)
    made = [prompt(n) for n in range(120)]
    seen = [fresh() for _ in range(3)]
    stop = threading.Event()
    failures: list[BaseException] = []

    def look(one: Capture) -> None:
        try:
            while not stop.is_set():
                one.run_pass()
        except BaseException as error:  # noqa: BLE001 - shown in the test's thread
            failures.append(error)

    threads = [threading.Thread(target=look, args=(one,)) for one in seen]
    for thread in threads:
        thread.start()
    for record in made:
        append(path, record)
    stop.set()
    for thread in threads:
        thread.join(20)
    seen[0].run_pass()
    assert failures == []
    assert sorted(landed_uuids(sql)) == sorted(uuids(made))
    assert sum(one.report.lines_landed for one in seen) == len(made)


@pytest.mark.parametrize("kept", [0, 3, 9])
@pytest.mark.parametrize("new", [1, 6, 30])
@pytest.mark.parametrize("replaced", [True, False])
def test_case_C5_rewritten_with_a_partial_line_pending(
    kept: int, new: int, replaced: bool, fresh: Callable[[], Capture], projects: Path, sql: Connection
) -> None:
    old = [prompt(n) for n in range(10)]
    path = write(session_file(projects), *old)
    with path.open("ab") as f:
        f.write(lines(prompt(10))[:50])
    seen = fresh()
    seen.run_pass()
    content = old[:kept] + [prompt(100 + n) for n in range(new)]
    if replaced:
        write(path.with_suffix(".new"), *content).replace(path)
    else:
        write(path, *content)
    seen.run_pass()
    assert sorted(landed_uuids(sql)) == sorted(uuids(old + content[kept:]))
    assert count(sql, 'select "offset" as n from transcript') == path.stat().st_size


def test_case_C5_rewritten_to_the_very_size_it_had(
    fresh: Callable[[], Capture], projects: Path, sql: Connection
) -> None:
    old, new = [prompt(n) for n in range(10, 20)], [prompt(n) for n in range(20, 30)]
    path = write(session_file(projects), *old)
    seen = fresh()
    seen.run_pass()
    size = path.stat().st_size
    write(path, *new)
    assert path.stat().st_size == size
    seen.run_pass()
    assert sorted(landed_uuids(sql)) == sorted(uuids(old + new))


def test_case_C5_a_message_cut_out_between_two_reads_of_one_look(
    fresh: Callable[[], Capture], projects: Path, sql: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second read begins where the first ended; what stands before that place is not what was read."""
    monkeypatch.setattr(tail, "CHUNK", 2048)
    made = [prompt(n) for n in range(30)]
    path = write(session_file(projects), *made)

    def cut_out() -> None:
        armed.clear()
        write(path, made[0], *made[2:], prompt(30))

    armed["after_land_commit"] = cut_out
    try:
        fresh().run_pass()
    finally:
        armed.clear()
    assert set(landed_uuids(sql)) >= set(uuids(made))


def test_case_C5_a_long_unfinished_line_gives_way_to_short_ones(
    fresh: Callable[[], Capture], projects: Path, sql: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How far a line was searched for its end says nothing once something else stands there."""
    monkeypatch.setattr(tail, "CHUNK", 2048)
    monkeypatch.setattr(tail, "LINE_LIMIT", 20_000)
    first = prompt(0)
    path = session_file(projects)
    path.write_bytes(lines(first) + b'{"uuid":"' + b"x" * 15_000)
    seen = fresh()
    seen.run_pass()
    short = [prompt(n) for n in range(1, 20)]
    write(path, first, *short)
    seen.run_pass()
    assert landed_uuids(sql) == uuids([first, *short])
    path.write_bytes(lines(first, *short) + b'{"uuid":"' + b"x" * 15_000)
    seen.run_pass()
    more = [prompt(n) for n in range(20, 90)]
    write(path, first, *short, *more)
    seen.run_pass()
    assert sorted(landed_uuids(sql)) == sorted(uuids([first, *short, *more]))


def test_case_C13_a_vanished_transcript_takes_nothing_back(
    fresh: Callable[[], Capture], db: Database, projects: Path, sql: Connection, clock: FakeClock
) -> None:
    path = write(session_file(projects), prompt(1), answer(1))
    fresh().run_pass()
    path.unlink()
    path.parent.rmdir()
    fresh().run_pass()
    fresh().run_pass(once=True)
    assert count(sql, "select count(*) as n from line") == 2
    close_due(db, clock.now(), batch_size=50_000, idle=dt.timedelta(0), once=True)
    model = ScriptedGenerator([{"observations": []}])
    assert observing(db, LlmExtractor(model), clock).run_one()
    assert "module 1" in model.requests[0].prompt
    assert count(sql, "select count(*) as n from batch where status = 'observed'") == 1


def test_case_C15_another_tools_sessions_are_counted_and_left_alone(
    fresh: Callable[[], Capture], projects: Path, sql: Connection
) -> None:
    mine = [prompt(1), answer(1)]
    write(session_file(projects), *mine)
    job = "Summarize the following session.\n<transcript>user: always use uv</transcript>"
    for number in range(5):
        write(session_file(projects, f"other{number}"), said(job, entrypoint="sdk-py"), answer(number))
    write(session_file(projects, "placed"), prompt(7) | {"cwd": "/home/me/.claude-mem/observer"}, answer(7))
    seen = fresh()
    seen.run_pass()
    assert landed_uuids(sql) == uuids(mine)
    assert seen.report.lines_skipped == {"foreign_session": 12}
    append(session_file(projects, "other0"), answer(9))
    again = fresh()  # and it is remembered, when its first prompt is not in what is read
    again.run_pass()
    assert again.report.lines_skipped == {"foreign_session": 1}


def test_case_C16_only_transcripts_are_read(
    fresh: Callable[[], Capture], projects: Path, sql: Connection
) -> None:
    session = session_file(projects)
    folder = session.with_suffix("")
    wanted = [
        write(session, prompt(1)),
        *_written(
            2,
            folder / "subagents" / "agent-a1.jsonl",
            session.parent / "agent-b2.jsonl",
            folder / "subagents" / "workflows" / "run1" / "agent-c3.jsonl",
        ),
    ]
    _written(
        10,
        folder / "subagents" / "workflows" / "run1" / "journal.jsonl",
        folder / "tool-results" / "x.jsonl",
        folder / "tool-results" / "agent-x.jsonl",
        session.parent / "memory" / "notes.jsonl",
        session.parent / "sessions.jsonl.bak",
        folder / "subagents" / "agent-acompact-1.jsonl",
        session.parent / "agent-acompact-2.jsonl",
        projects / "loose.jsonl",
        session.parent / "history.jsonl",
        session.parent / "notes.json",
    )
    fresh().run_pass()
    assert {row["path"] for row in landed(sql)} == {str(path) for path in wanted}


def _written(number: int, *paths: Path) -> list[Path]:
    for index, path in enumerate(paths):
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, prompt(number + index))
    return list(paths)


def test_case_C17_reading_costs_what_is_appended(
    fresh: Callable[[], Capture], projects: Path, sql: Connection
) -> None:
    path = session_file(projects)
    path.write_bytes(b"".join(encode(prompt(n, words="word " * 200)) + b"\n" for n in range(3000)))
    seen = fresh()
    seen.run_pass()
    size, read = path.stat().st_size, seen.report.bytes_read
    assert size > 3_000_000
    assert read < size * 1.1
    for number in range(3000, 3100):
        append(path, prompt(number))
        seen.run_pass()
    appended = path.stat().st_size - size
    assert seen.report.bytes_read - read < appended + 100 * (tail.HEAD + tail.MARKER)
    assert count(sql, "select count(*) as n from line") == 3100


def test_case_C29_an_answer_is_never_shown_without_its_question(
    fresh: Callable[[], Capture], db: Database, projects: Path, sql: Connection, clock: FakeClock
) -> None:
    model = ScriptedGenerator(default={"observations": []})
    observe = observing(db, LlmExtractor(model), clock)
    idle = dt.timedelta(seconds=60)
    times = (clock.now() + dt.timedelta(seconds=s) for s in (0, 1, 2, 200))
    path = write(
        session_file(projects),
        prompt(1, at=next(times)),
        answer(1, at=next(times)),
        prompt(2, at=next(times)),
    )
    seen = fresh()
    seen.run_pass()
    assert close_due(db, clock.now(), batch_size=100, idle=idle) == 1  # the first turn; the open one is held
    assert observe.run_one()
    assert "module 2" not in model.requests[-1].prompt
    clock.advance(100)
    assert close_due(db, clock.now(), batch_size=100, idle=idle) == 1  # nothing came: the question goes alone
    observe.run_one()
    append(path, answer(2, words="because of the tests it must stay " * 10, at=next(times)))
    seen.run_pass()
    clock.advance(300)
    assert close_due(db, clock.now(), batch_size=100, idle=idle) == 1
    assert observe.run_one()
    shown = model.requests[-1].prompt
    assert shown.index("module 2") < shown.index("Done with 2")
    assert ingest.next_due(db) is None
