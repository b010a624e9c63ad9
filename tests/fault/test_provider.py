"""A provider that is slow, away, out of quota or talks nonsense: every batch waits its turn, none is lost, none is observed
twice, and what concerns one batch does not touch its neighbours."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cems.errors import LlmPaused
from cems.providers import GenerateRequest
from cems.providers.fake import ScriptedGenerator
from cems.providers.gemini import GeminiGenerator
from cems.settings import Settings
from db import ingest, ledger
from db.connect import Connection, Database
from observer.batch import close_due
from observer.llm import LlmExtractor
from observer.observe import Observing
from observer.start import capture
from tests.conftest import FakeClock
from tests.fake_gemini import (
    Asked,
    Behaviour,
    FakeGemini,
    blocked,
    empty,
    error,
    hang,
    html,
    huge,
    ok,
    quota_of_day,
    rate_limited,
    reset,
    text,
    truncated,
)
from tests.fault.answers import notes_in, observation, observe
from tests.fault.here import CAPS, observing
from tests.fault.oracle import drained, judge
from tests.fault.running import observing as observer_process
from tests.fault.running import written
from tests.fault.sessions import answer, count, prompt, session_file, write
from tests.waiting import wait_until

BATCHES = "select count(*) as n from batch where status = "


def batches(
    db: Database, settings: Settings, clock: FakeClock, projects: Path, number: int, turns: int = 1
) -> list[str]:
    """Land sessions that make so many batches; returns the names of their notes."""
    numbers = range(number * turns)
    for index in range(number):
        own = numbers[index * turns : (index + 1) * turns]
        write(session_file(projects, f"s{index}"), *(r for n in own for r in (prompt(n), answer(n))))
    capture(db, settings, clock).run_pass()
    assert close_due(db, clock.now(), batch_size=10**6, idle=dt.timedelta(0), once=True) == number
    return [f"n{n}" for n in numbers]


def asking(db: Database, gemini: FakeGemini, clock: FakeClock, **more: Any) -> Observing:
    generator = GeminiGenerator("gemini-test", "test-key", gemini.base_url, 1, first_pause=0.01)
    return observing(db, LlmExtractor(generator, timeout=more.pop("timeout", 5.0)), clock, **more)


def drain(observe_: Observing, clock: FakeClock, steps: int = 200) -> None:
    """Observe until nothing is left, letting the time pass that something waits for."""
    for _ in range(steps):
        try:
            while observe_.run_one():
                pass
        except LlmPaused as paused:
            clock.advance((paused.until - clock.now()).total_seconds() + 1)
        else:
            return
    raise AssertionError("never drained")


def remembered(sql: Connection) -> list[str]:
    return sorted(
        str(row["title"]).removeprefix("note ") for row in sql.execute(b"select title from memory").fetchall()
    )


FAILURES: dict[str, tuple[Behaviour, float, float]] = {  # behaviour, and how long it makes everything wait
    "429 with a time": (rate_limited(7), 7, 7),
    "429 without one": (rate_limited(), 1, 120),
    "quota of the day": (quota_of_day(), 3000, 90_000),
    "500": (error(500, "INTERNAL"), 1, 120),
    "503 page": (html(503), 1, 120),
    "reset": (reset(), 1, 120),
    "hang": (hang(), 1, 120),
}


@pytest.mark.parametrize(("behaviour", "least", "most"), FAILURES.values(), ids=FAILURES)
def test_L1_everything_waits_as_told_and_no_attempt_is_burnt(
    behaviour: Behaviour,
    least: float,
    most: float,
    db: Database,
    settings: Settings,
    projects: Path,
    clock: FakeClock,
    sql: Connection,
    gemini: FakeGemini,
) -> None:
    names = batches(db, settings, clock, projects, 3)
    gemini.script(behaviour)
    asking_ = asking(db, gemini, clock, timeout=0.5 if behaviour == hang() else 5.0)
    asking_.run_one()
    with pytest.raises(LlmPaused) as paused:
        asking_.run_one()
    assert least <= (paused.value.until - clock.now()).total_seconds() <= most
    assert len(gemini.requests) == 1, "nobody asks while everything waits"
    assert count(sql, "select sum(attempts) as n from batch") == 0
    told = ledger.today(db, CAPS, clock.now())
    assert told[0]["waits_until"] == paused.value.until
    assert told[0]["why"]
    drain(asking_, clock)
    assert remembered(sql) == names


def test_case_E32_a_day_without_quota(
    db: Database, settings: Settings, projects: Path, clock: FakeClock, sql: Connection, gemini: FakeGemini
) -> None:
    names = batches(db, settings, clock, projects, 8)
    began = clock.now()

    def out_of_quota(asked: Asked) -> Behaviour:
        return quota_of_day() if clock.now() - began < dt.timedelta(days=1) else observe(asked)

    gemini.defaults["generate"] = out_of_quota
    asking_ = asking(db, gemini, clock)
    drain(asking_, clock)
    assert remembered(sql) == names
    assert len(gemini.requests) < 8 + 10, "and the provider was not asked again and again"
    assert count(sql, "select count(*) as n from batch where status <> 'observed' or attempts > 1") == 0


NONSENSE: dict[str, Behaviour] = {
    "prose": text("I'm sorry, I can't do that."),
    "{}": text("{}"),
    "fenced nonsense": text("```json\n[1, 2]\n```"),
    "wrong keys": ok({"memories": []}),
    "wrong shape": ok({"observations": [{"title": "x"}]}),
    "wrong kind": ok({"observations": [observation("x", 1, "note n0: always") | {"kind": "rumour"}]}),
    "no such line": ok({"observations": [observation("x", 99, "nobody ever said this sentence")]}),
    "truncated": truncated(),
    "truncated to nothing": truncated(""),
    "empty": empty(),
    "blocked": blocked(),
    "ten megabytes": huge(10),
}


@pytest.mark.parametrize("behaviour", NONSENSE.values(), ids=NONSENSE)
def test_L2_case_E31_E33_nonsense_sets_one_turn_aside_and_no_more(
    behaviour: Behaviour,
    db: Database,
    settings: Settings,
    projects: Path,
    clock: FakeClock,
    sql: Connection,
    gemini: FakeGemini,
) -> None:
    """Four turns in each of two batches; whatever shows the third turn gets nonsense."""
    names = batches(db, settings, clock, projects, 2, turns=4)
    gemini.defaults["generate"] = lambda asked: (
        behaviour if "n2" in notes_in(asked.prompt) else observe(asked)
    )
    drain(asking(db, gemini, clock, attempts=3), clock)
    assert remembered(sql) == sorted(set(names) - {"n2"})
    assert count(sql, BATCHES + "'set_aside'") == 1
    assert count(sql, BATCHES + "'pending'") == 0
    row = sql.execute(b"select last_error, lines from batch where status = 'set_aside'").fetchone()
    assert row and row["last_error"] and row["lines"] == 2
    assert count(sql, "select count(*) as n from memory_source") == len(names) - 1


def test_case_E31_an_empty_answer_that_says_so_consumes_its_batch(
    db: Database, settings: Settings, projects: Path, clock: FakeClock, sql: Connection, gemini: FakeGemini
) -> None:
    batches(db, settings, clock, projects, 1)
    gemini.script(ok({"observations": []}))
    asking_ = asking(db, gemini, clock)
    assert asking_.run_one()
    assert not asking_.run_one()
    assert count(sql, BATCHES + "'observed'") == 1


def test_case_E34_a_truncated_answer_gets_a_larger_budget_then_half_the_batch(
    db: Database, settings: Settings, projects: Path, clock: FakeClock, sql: Connection, gemini: FakeGemini
) -> None:
    names = batches(db, settings, clock, projects, 1, turns=4)
    gemini.defaults["generate"] = lambda asked: (
        truncated() if len(notes_in(asked.prompt)) > 2 else observe(asked)
    )
    drain(asking(db, gemini, clock), clock)
    assert remembered(sql) == names
    budgets = [asked.body["generationConfig"]["maxOutputTokens"] for asked in gemini.requests]
    assert budgets[1] == budgets[0] * 2
    assert [len(notes_in(asked.prompt)) for asked in gemini.requests] == [4, 4, 2, 2]
    assert not sql.execute(b"select 1 from memory where title like 'half%'").fetchall()


def test_case_E36_E37_what_passes_is_waited_out_within_one_batch(
    db: Database, settings: Settings, projects: Path, clock: FakeClock, sql: Connection, gemini: FakeGemini
) -> None:
    names = batches(db, settings, clock, projects, 1)
    gemini.script(html(503), html(503), empty())
    generator = GeminiGenerator("gemini-test", "test-key", gemini.base_url, 4, first_pause=0.01)
    assert observing(db, LlmExtractor(generator), clock).run_one()
    assert remembered(sql) == names
    assert count(sql, "select attempts as n from batch") == 1


def test_case_E37_a_mute_provider_never_stops_the_tailer(
    quick: dict[str, str], projects: Path, tmp_path: Path, sql: Connection, gemini: FakeGemini
) -> None:
    gemini.defaults["generate"] = hang()
    with observer_process(quick, tmp_path) as observer:
        write(session_file(projects, "first"), prompt(1), answer(1))
        gemini.wait_for(1, 20)
        truth = written(projects, "--seconds", "0.5")["files"]
        wait_until(
            lambda: count(sql, "select count(*) as n from line") == sum(map(len, truth.values())) + 2, 10
        )
        assert observer.process.poll() is None


@pytest.mark.fault
def test_L4_provider_away_and_transcripts_deleted(
    quick: dict[str, str], projects: Path, tmp_path: Path, sql: Connection, gemini: FakeGemini
) -> None:
    gemini.defaults["generate"] = reset()
    with observer_process(quick | {"CEMS_LLM_TIMEOUT": "0.5"}, tmp_path) as observer:
        truth = written(projects, "--seconds", "1.5", "--tombstones", "0.02")["files"]
        wait_until(
            lambda: count(sql, "select count(*) as n from batch") > 5 and _all_landed(sql, truth),
            20,
            "all landed",
        )
        for path in truth:
            os.unlink(path)  # noqa: PTH108 - a text
        gemini.defaults["generate"] = observe

        def observed() -> bool:
            sql.execute(b"update llm_call set resume_at = now()")  # the pause is over
            return drained(sql, truth)

        wait_until(observed, 30, "all observed", every=0.2)
        assert observer.terminate() == 0, observer.tail()
    assert (verdict := judge(sql, truth)), verdict


def _all_landed(sql: Connection, truth: dict[str, Sequence[str]]) -> bool:
    return not judge(sql, truth).lost


def test_L5_an_answer_that_comes_after_another_took_the_batch(
    db: Database, settings: Settings, projects: Path, clock: FakeClock, sql: Connection
) -> None:
    batches(db, settings, clock, projects, 1)

    def answers(request: GenerateRequest) -> dict[str, Any]:
        return {"observations": [observation(n, *found) for n, found in notes_in(request.prompt).items()]}

    quick_one = observing(db, LlmExtractor(ScriptedGenerator([answers])), clock)

    def late(request: GenerateRequest) -> dict[str, Any]:
        clock.advance(301)  # the lease is over
        assert quick_one.run_one()
        return answers(request)

    slow_one = observing(db, LlmExtractor(ScriptedGenerator([late])), clock)
    assert slow_one.run_one()
    assert (quick_one.report.batches, slow_one.report.batches) == (1, 0)
    assert count(sql, "select sum(seen_count) as n from memory") == 1
    assert count(sql, "select count(*) as n from memory_source") == 1
    assert ingest.next_due(db) is None
