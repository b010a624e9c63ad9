"""Reported cases of capture: what is on disk lands, once, however it came there and whatever else lies beside it."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

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


def test_case_C4_a_reader_whose_cursor_was_moved_writes_nothing(
    fresh: Callable[[], Capture], projects: Path, sql: Connection
) -> None:
    path = write(session_file(projects), prompt(1))
    first, second = fresh(), fresh()
    first.run_pass()
    second.run_pass()
    append(path, prompt(2), b"no json")
    first.run_pass()
    before = sql.execute(b"select * from transcript").fetchall()
    with capture_logs() as logs:
        second.run_pass()
    assert [line["event"] for line in logs] == ["cursor moved by another observer"]
    assert (second.report.lines_landed, second.report.lines_skipped) == (0, {})
    assert sql.execute(b"select * from transcript").fetchall() == before
    append(path, prompt(3))
    assert second.run_pass() == 1


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
