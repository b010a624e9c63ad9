"""Summarization: what is put away, what never is, and that it can be found and brought back."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from cems.errors import ProviderUnavailable
from cems.failpoint import armed
from cems.providers import GenerateRequest
from cems.providers.fake import ScriptedGenerator
from cems.settings import Settings
from db import changes, lifecycle, undoing
from db.connect import Connection, Database, Row
from maintenance.job import Job
from tests.conftest import FakeClock
from tests.rewriting import (
    Died,
    answering,
    dying,
    everything,
    gist,
    left,
    made,
    notes,
    project,
    remember,
    rows,
)  # fmt: skip
from tests.rewriting import run as run_job

OLD = -200
"""Days after the day of the tests: long ago."""
PADDING = "That was looked at for quite a while, by all of us, and talked about more than once, and it was not easy to see."
TITLES = (
    "Went back from the queue cache in Redis",
    "The queue cache in SQLite was given up",
    "A queue cache in shared memory did not work",
    "The queue cache as a file was too slow",
    "The queue cache with no limit was a mistake",
)
SUMMARY = (
    "How the queue cache came to live in Postgres, after four other places",
    "Went back from the queue cache in Redis: it lost 41 keys. The queue cache in SQLite was given up after 42 locks. A queue"
    " cache in shared memory did not work on 43 hosts. The queue cache as a file was too slow, 44 ms. The queue cache with no"
    " limit was a mistake of 45 GB.",
)
ANSWER = answering({"queue cache": SUMMARY}, "summaries")


def run(db: Database, settings: Settings, clock: FakeClock, generator: Any = None, **how: Any) -> Job:
    return run_job(db, settings, clock, generator, name="summarization", **how)


def topic(db: Database, *, of: str = "alpha", kind: str = "deadend", **fields: Any) -> list[uuid.UUID]:
    """Five memories on one topic, long ago."""
    told = ("it lost 41 keys", "42 locks", "43 hosts", "44 ms", "45 GB")
    return [
        remember(
            db,
            title,
            f"{PADDING} It was because of {why}. {PADDING}",
            of=of,
            kind=kind,
            days=OLD + n,
            **fields,
        )
        for n, (title, why) in enumerate(zip(TITLES, told, strict=True))
    ]


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    armed.clear()


def live(db: Database) -> list[Row]:
    return [r for r in rows(db).values() if r["archived_at"] is None]


def test_old_memories_of_one_topic_become_one_summary(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    old = topic(db)
    new = remember(db, "The queue cache lives in Postgres now", PADDING, kind="deadend", days=-10)
    job = run(db, settings, clock, ScriptedGenerator(default=ANSWER, model="some-model"))
    [summary] = made(db, "summary")
    assert (summary["title"], summary["body"], summary["author"]) == (*SUMMARY, "some-model")
    assert set(summary["stands_on"]) == set(old)
    assert {r["title"] for r in live(db)} == {SUMMARY[0], "The queue cache lives in Postgres now"}
    assert all(rows(db)[i]["superseded_by"] is None for i in old), "archived, and can be restored"
    assert rows(db)[new]["archived_at"] is None
    assert (job.report.changed, job.report.seen, job.report.waiting) == (1, 5, 0)
    assert job.run is not None
    assert {c["what"] for c in changes.of_run(db, job.run.id)} == {"summarized"}


@pytest.mark.parametrize("model", [True, False])
def test_five_runs_without_anything_new_change_nothing_after_the_first(
    db: Database, settings: Settings, clock: FakeClock, model: bool
) -> None:
    topic(db)
    topic(db, of="beta", kind="context")
    remember(db, "A lonely thought", kind="deadend", days=OLD)
    generator = ScriptedGenerator(default=ANSWER) if model else None
    assert run(db, settings, clock, generator).report.changed == 2
    after = everything(db)
    for _ in range(4):
        job = run(db, settings, clock, generator)
        assert (job.report.changed, job.report.llm_calls) == (0, 0)
        assert everything(db) == after


def test_an_undone_run_gives_back_every_byte_and_is_not_done_again(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    topic(db)
    remember(db, "It ended", days=OLD, valid_to=clock.now() - dt.timedelta(days=150))
    before = everything(db)
    job = run(db, settings, clock, ScriptedGenerator(default=ANSWER))
    assert job.report.changed == 2 and job.run is not None
    undoing.undo(db, job.run.id, clock.now())
    assert everything(db) == before
    assert run(db, settings, clock, ScriptedGenerator(default=ANSWER)).report.changed == 0
    assert everything(db) == before


def test_without_a_model_the_sentences_that_cannot_be_missed_are_kept(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    topic(db)
    run(db, settings, clock)
    [summary] = made(db, "summary")
    assert summary["author"] == "rules"
    assert summary["title"].startswith("Older dead ends about") and "2026-05" in summary["title"]
    assert all(title in summary["body"] for title in TITLES)
    assert all(value in summary["body"] for value in ("41 keys", "42 locks", "43 hosts", "44 ms", "45 GB"))
    assert PADDING not in summary["body"]
    assert len(live(db)) == 1


def test_without_a_model_what_would_hardly_be_shorter_is_left_for_one(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    for number in range(4):
        remember(
            db, f"The queue cache of host {number + 40} is off", kind="context", days=OLD, confidence=0.9
        )
    before = everything(db)
    job = run(db, settings, clock)
    assert everything(db) == before and job.report.kept_apart == 1
    assert run(db, settings, clock).report.kept_apart == 0, "looked at"
    text = ("The queue cache is off on hosts 40, 41, 42 and 43", "")
    generator = ScriptedGenerator(default=answering({"queue cache": text}, "summaries"))
    assert run(db, settings, clock, generator).report.changed == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"pinned": True},
        {"author": "hand"},
        {"last_used_at": dt.datetime(2026, 11, 1, tzinfo=dt.UTC), "used_count": 1},
        {"snoozed_until": dt.datetime(2027, 1, 1, tzinfo=dt.UTC)},
        {"kind": "preference"},
    ],
)
def test_what_is_held_on_to_is_never_put_away(
    db: Database, settings: Settings, clock: FakeClock, fields: dict[str, Any]
) -> None:
    topic(db, **fields)
    before = everything(db)
    assert run(db, settings, clock, ScriptedGenerator()).report.llm_calls == 0
    run(db, settings, clock)
    assert everything(db) == before


def test_what_was_said_again_lately_is_not_old_and_what_was_only_shown_is(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    old = topic(db, shown_count=9, last_shown_at=clock.now())
    with db.transaction() as conn:
        conn.execute(
            "insert into memory_source (owner_id, id, memory_id, quote, origin, at, recorded_at)"
            " select owner_id, gen_random_uuid(), id, 'again', 'user', %(now)s, %(now)s from memory where id = %(id)s",
            {"now": clock.now(), "id": old[0]},
        )
    text = (SUMMARY[0], SUMMARY[1].replace(f"{TITLES[0]}: it lost 41 keys. ", ""))
    run(db, settings, clock, ScriptedGenerator(default=answering({"queue cache": text}, "summaries")))
    assert {i for i in old if rows(db)[i]["archived_at"] is None} == {old[0]}
    [summary] = made(db, "summary")
    assert summary["shown_count"] == 36


@pytest.mark.parametrize("lost", ["45 GB", TITLES[2], "41"])
def test_a_memory_whose_detail_or_title_is_missing_is_not_put_away(
    db: Database, settings: Settings, clock: FakeClock, lost: str
) -> None:
    old = topic(db)
    text = (SUMMARY[0], SUMMARY[1].replace(lost, "something"))
    generator = ScriptedGenerator(default=answering({"queue cache": text}, "summaries"))
    run(db, settings, clock, generator)
    assert len(generator.requests) == 2
    [summary] = made(db, "summary")
    assert len(summary["stands_on"]) == 5
    kept = [r for i, r in rows(db).items() if i in old and r["archived_at"] is None]
    assert len(kept) == 1 and lost in f"{kept[0]['title']} {kept[0]['body']}"


def test_a_summary_that_takes_back_what_it_tells_is_not_written(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    topic(db)
    before = everything(db)
    text = ("The following on the queue cache was revoked and is wrong", SUMMARY[1])
    generator = ScriptedGenerator(default=answering({"queue cache": text}, "summaries"))
    assert run(db, settings, clock, generator).report.changed == 0
    assert everything(db) == before
    assert "was revoked and is wrong" in generator.requests[1].prompt


def test_a_model_may_keep_some_or_all_and_is_not_asked_again(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    old = topic(db)

    def keeping(request: GenerateRequest) -> dict[str, Any]:
        return {"summaries": [], "kept": list(notes(request))}

    job = run(db, settings, clock, ScriptedGenerator(default=keeping))
    assert (job.report.changed, job.report.kept_apart) == (0, 5)
    assert run(db, settings, clock, ScriptedGenerator()).report.llm_calls == 0
    assert run(db, settings, clock).report.changed == 0, "nor by rule"
    with db.transaction() as conn:
        conn.execute("update memory set changed_at = %s where id = any(%s)", (clock.now(), old))
    assert run(db, settings, clock, ScriptedGenerator(default=ANSWER)).report.changed == 1


def test_two_summaries_of_one_topic_or_notes_named_twice_are_refused(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    topic(db)

    def twice(request: GenerateRequest) -> dict[str, Any]:
        numbers = list(notes(request))
        halves = [numbers[:2], numbers[2:]]
        return {"summaries": [{"from": h, "title": "T", "body": "B"} for h in halves], "kept": []}

    before = everything(db)
    job = run(db, settings, clock, ScriptedGenerator(default=twice))
    assert everything(db) == before
    assert (job.report.failed, job.report.waiting) == (1, 1)
    assert run(db, settings, clock, ScriptedGenerator(default=ANSWER)).report.changed == 1


def test_a_model_that_is_down_or_capped_leaves_all_waiting(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    topic(db)
    topic(db, of="beta")
    before = everything(db)
    job = run(db, settings, clock, ScriptedGenerator(default=ProviderUnavailable("down")))
    assert (job.report.failed, job.report.waiting, job.report.llm_calls) == (1, 2, 1)
    capped = dataclasses.replace(settings, llm_daily_calls=0)
    assert run(db, capped, clock, ScriptedGenerator()).report.waiting == 2
    assert run(db, settings, clock, ScriptedGenerator(), dry=True).report.waiting == 2
    assert run(db, settings, clock, ScriptedGenerator(), stopping=lambda: True).report.waiting == 2
    assert everything(db) == before
    job = run(db, settings, clock, ScriptedGenerator(default=ANSWER), of=project(db, "beta"))
    assert [r["project_id"] for r in made(db, "summary")] == [project(db, "beta")]


def test_a_dry_run_without_a_model_says_what_it_would_do(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    topic(db)
    before = everything(db)
    job = run(db, settings, clock, dry=True)
    assert everything(db) == before
    assert [(p.what, len(p.memories)) for p in job.planned] == [("summarized", 5)]


@pytest.mark.parametrize(
    ("fields", "gone"),
    [
        ({"valid_to": dt.datetime(2026, 6, 1, tzinfo=dt.UTC)}, True),
        ({"valid_to": dt.datetime(2026, 11, 1, tzinfo=dt.UTC)}, False),
        ({"valid_to": dt.datetime(2026, 6, 1, tzinfo=dt.UTC), "pinned": True}, False),
        ({"snoozed_until": dt.datetime(2026, 6, 1, tzinfo=dt.UTC)}, True),
        (
            {
                "snoozed_until": dt.datetime(2026, 6, 1, tzinfo=dt.UTC),
                "last_used_at": dt.datetime(2026, 7, 1, tzinfo=dt.UTC),
            },
            False,
        ),
        ({"valid_to": dt.datetime(2026, 6, 1, tzinfo=dt.UTC), "author": "hand"}, False),
        ({"kind": "context", "confidence": 0.3}, False),  # re-indexing puts away what nobody uses
        ({"kind": "preference", "valid_to": dt.datetime(2026, 6, 1, tzinfo=dt.UTC)}, False),
    ],
)
def test_what_is_over_is_archived_until_a_person_brings_it_back(
    db: Database, settings: Settings, clock: FakeClock, fields: dict[str, Any], gone: bool
) -> None:
    memory = remember(db, "It was so once", days=OLD, **fields)
    job = run(db, settings, clock)
    assert (rows(db)[memory]["archived_at"] is not None) == gone
    assert job.report.changed == gone
    if gone:
        lifecycle.restore(db, memory, clock.now())
        for days in (0, 400):
            clock.advance(days * 86400)
            assert run(db, settings, clock).report.changed == 0
        assert rows(db)[memory]["archived_at"] is None


def test_a_summarised_memory_that_a_person_brings_back_stays(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    old = topic(db)
    run(db, settings, clock)
    for memory in old:
        lifecycle.restore(db, memory, clock.now())
    clock.advance(400 * 86400)
    run(db, settings, clock)
    assert all(rows(db)[i]["archived_at"] is None for i in old)


@pytest.mark.parametrize("point", ["mid_summarization", "after_summarization"])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_run_that_dies_and_is_run_again_comes_to_the_same_memories(
    db: Database, sql: Connection, settings: Settings, clock: FakeClock, point: str, nth: int
) -> None:
    remember(db, "It ended", days=OLD, valid_to=clock.now() - dt.timedelta(days=150))
    topic(db)
    topic(db, of="beta", kind="context")
    generator = ScriptedGenerator(default=ANSWER)
    whole = run(db, settings, clock, generator)
    expected = gist(db)
    assert whole.report.changed == 3 and whole.run is not None
    undoing.undo(db, whole.run.id, clock.now())
    for table in ("job_change", "job_run", "job_mark"):
        sql.execute(f"delete from {table}".encode())
    armed[point] = dying(nth)
    with pytest.raises(Died):
        run(db, settings, clock, generator)
    armed.clear()
    run(db, settings, clock, generator)
    assert gist(db) == expected


def test_a_memory_that_changes_meanwhile_is_not_put_away(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    old = topic(db)

    def observing(request: GenerateRequest) -> dict[str, Any]:
        with db.transaction() as conn:
            conn.execute(
                "update memory set seen_count = 2, changed_at = %s where id = %s", (clock.now(), old[0])
            )
        return ANSWER(request)

    job = run(db, settings, clock, ScriptedGenerator(default=observing))
    assert (made(db, "summary"), job.report.waiting, job.report.changed) == ([], 1, 0)
    assert run(db, settings, clock, ScriptedGenerator(default=ANSWER)).report.changed == 1


def test_what_only_a_tools_output_says_is_put_away_apart(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    topic(db)
    topic(db, of="alpha", kind="context", origin="tool", confidence=0.9)

    def mixing(request: GenerateRequest) -> dict[str, Any]:
        written = [{"from": list(notes(request)), "title": SUMMARY[0], "body": SUMMARY[1]}]
        return {"summaries": written, "kept": left(notes(request), written)}

    assert run(db, settings, clock, ScriptedGenerator(default=mixing)).report.changed == 0
    run(db, settings, clock, ScriptedGenerator(default=lambda r: _by_section(r)))
    assert {(r["kind"], r["origin"]) for r in made(db, "summary")} == {
        ("deadend", "assistant"),
        ("context", "tool"),
    }


def _by_section(request: GenerateRequest) -> dict[str, Any]:
    found = list(notes(request))
    halves = [found[:5], found[5:]]
    return {"summaries": [{"from": h, "title": SUMMARY[0], "body": SUMMARY[1]} for h in halves], "kept": []}
