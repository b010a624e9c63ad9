"""Consolidation by rule: what is merged, what a merge unites, what stays apart, and that a second run does nothing."""

from __future__ import annotations

import datetime as dt
import threading
import uuid

import psycopg
import pytest

from cems.failpoint import armed
from cems.settings import Settings
from db import lifecycle, runs, undoing
from db.connect import Connection, Database
from tests.conftest import FakeClock
from tests.consolidating import (
    DAY,
    Said,
    angle,
    consolidate,
    embed,
    give,
    live,
    row_of,
    say,
    titles,
)
from tests.integration.test_changes import everything


def test_case_M58_a_merge_keeps_every_detail_source_and_count(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    one, two = say(
        db,
        Said("Use Postgres for storage", "Backups are nightly. Ask Jonas for access.", day=1, files=("b.py", "a.py")),
        Said("Use Postgres for storage.", "Backups are nightly.", day=2, files=("c.py", "a.py"), concepts=("gotcha",),
             confidence=0.9),
    )  # fmt: skip
    with db.transaction() as conn:
        conn.execute(
            "update memory set used_count = 3, shown_count = 4, last_used_at = %s where id = %s", (DAY, two)
        )
        conn.execute("update memory set shown_count = 2, seen_count = 5 where id = %s", (one,))
    job = consolidate(db, settings, clock)
    (kept,) = live(db)
    assert kept["id"] == two, "the one that is used"
    assert kept["body"] == "Backups are nightly.\nAsk Jonas for access."
    assert (kept["sources"], kept["seen_count"], kept["shown_count"], kept["used_count"]) == (2, 6, 6, 3)
    assert (kept["files"], kept["concepts"]) == (["c.py", "a.py", "b.py"], ["gotcha"])
    assert kept["occurred_at"] == DAY + dt.timedelta(days=1)
    assert kept["confidence"] == pytest.approx(0.9)
    assert "jonas" in kept["terms"]
    gone = row_of(db, one)
    assert (gone["superseded_by"], gone["superseded_how"]) == (two, "merged")
    assert (job.report.seen, job.report.changed, job.report.waiting) == (2, 1, 0)
    with db.transaction() as conn:
        vectors = conn.execute("select memory_id from embedding").fetchall()
    assert [row["memory_id"] for row in vectors] == [one], "other words need another vector"


def test_case_M58_five_runs_without_new_input_change_nothing_from_the_second_on(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    say(
        db,
        Said("Use Postgres for storage", "It runs on the build host."),
        Said("Use Postgres for storage."),
        Said("Use Postgres for storage on staging", vector=angle(5)),
        Said("Unlike all of them", vector=angle(80)),
    )
    assert consolidate(db, settings, clock).report.changed == 1
    before = everything(db)
    for again in range(4):
        clock.advance(3600)
        report = consolidate(db, settings, clock).report
        assert (report.seen, report.changed) == (0, 0)
        assert everything(db) == before
        if again == 1:
            embed(db)
            before = everything(db)


def test_case_M58_a_chain_is_not_merged(db: Database, settings: Settings, clock: FakeClock) -> None:
    """A is like B and B like C; A and C are further apart than the threshold."""
    texts = ("Use Postgres for storage", "Use `Postgres` for storage", "Use Postgres, for storage")
    say(db, *(Said(text, vector=angle(20 * i)) for i, text in enumerate(texts)))
    job = consolidate(db, settings, clock)
    assert len(live(db)) == 2
    assert job.report.changed == 1
    assert job.report.kept_apart == 1


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("Postgres listens on port 5432", "Postgres listens on port 5433"),
        ("The client speaks protocol v1.2", "The client speaks protocol v1.3"),
        ("Use feature branches", "Do not use feature branches"),
        ("The staging database is wiped every Sunday", "The prod database is wiped every Sunday"),
        ("We chose Postgres over SQLite", "We chose Postgres over MySQL"),
    ],
)
def test_case_M56_different_facts_of_one_vector_stay_apart(
    db: Database, settings: Settings, clock: FakeClock, one: str, two: str
) -> None:
    say(db, Said(one), Said(two, day=1))
    job = consolidate(db, settings, clock)
    assert titles(db) == sorted((one, two))
    assert (job.report.changed, job.report.kept_apart, job.report.waiting) == (0, 1, 0)
    assert any(note.startswith("kept apart: ") for note in job.report.notes)


def test_case_M57_a_zero_vector_is_refused(db: Database) -> None:
    (memory,) = say(db, Said("Use Postgres", vector=None))
    with pytest.raises(psycopg.errors.CheckViolation), db.transaction() as conn:
        give(conn, db.owner_id, memory, [0.0] * 384)
    with pytest.raises(psycopg.DataError), db.transaction() as conn:
        give(conn, db.owner_id, memory, [float("nan")] * 384)


def test_case_M63_one_decision_in_thirty_sessions_over_thirty_days_is_one_memory(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    """Each day somebody says it in another typing, each night the job runs."""
    verbs = ("We chose", "Chose", "We picked", "We decided on", "Picked")
    for day in range(30):
        database = ("Postgres", "`Postgres`", "postgres")[day % 3]
        say(db, Said(f"{verbs[day % 5]} {database} over SQLite for storage", day=day))
        consolidate(db, settings, clock)
        embed(db)
        clock.advance(86400)
    (kept,) = live(db)
    assert (kept["sources"], kept["seen_count"]) == (30, 30)
    assert kept["occurred_at"] == DAY


def test_case_M65_what_was_forgotten_takes_no_part_and_stays_forgotten(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    one, _ = say(db, Said("Use Postgres for storage", "A."), Said("Use Postgres for storage.", "B."))
    lifecycle.forget(db, one, clock.now())
    consolidate(db, settings, clock)
    consolidate(db, settings, clock, embedder=None)
    assert titles(db) == ["Use Postgres for storage."]
    assert row_of(db, one)["forgotten_at"] is not None
    assert row_of(db, one)["superseded_by"] is None


def test_projects_kinds_and_those_without_a_project_are_not_mixed(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    text = "Use Postgres for storage"
    say(
        db,
        Said(text),
        Said(text, kind="context"),
        Said(text, project=None),
        Said(text, project=uuid.UUID(int=5)),
    )
    assert consolidate(db, settings, clock).report.changed == 0
    assert consolidate(db, settings, clock, embedder=None).report.changed == 0
    assert len(live(db)) == 4
    say(db, Said(f"{text}.", "More.", project=None))
    assert consolidate(db, settings, clock).report.changed == 1


def test_pairs_that_a_person_parted_stay_apart(db: Database, settings: Settings, clock: FakeClock) -> None:
    say(db, Said("Use Postgres for storage", "A."), Said("Use Postgres for storage.", "B."))
    before = everything(db)
    consolidate(db, settings, clock)
    undoing.undo(db, runs.history(db)[0]["id"], clock.now())
    assert everything(db) == before
    clock.advance(60)
    job = consolidate(db, settings, clock)
    assert (job.report.changed, job.report.kept_apart) == (0, 1)
    assert consolidate(db, settings, clock).report.seen == 0, "looked at"
    say(db, Said("Use Postgres for storage!", "C."))
    assert consolidate(db, settings, clock).report.changed == 1
    assert len(live(db)) == 2


def test_without_vectors_the_same_words_merge_and_the_rest_stays_apart(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    say(
        db,
        Said("Use Postgres, for storage", "Ask Jonas.", vector=None),
        Said("Use Postgres for storage", "Ask Jonas!", vector=None),
        Said("Use Postgres for storage of all test results here", "Ask Jonas.", vector=None),
        Said("Use Redis for all queues", "Ask Ina.", vector=None),
    )
    assert consolidate(db, settings, clock, embedder=None).report.changed == 1
    assert len(live(db)) == 3
    assert consolidate(db, settings, clock, embedder=None).report.seen == 0
    embed(db, angle(0))
    assert consolidate(db, settings, clock).report.seen == 3, "with vectors everything is looked at again"


def test_what_has_no_vector_yet_waits(db: Database, settings: Settings, clock: FakeClock) -> None:
    say(db, Said("Use Postgres for storage", "A."), Said("Use Postgres for storage.", "B.", vector=None))
    report = consolidate(db, settings, clock).report
    assert (report.seen, report.changed, report.waiting) == (1, 0, 1)
    assert report.notes == ["1 without a vector yet"]
    embed(db)
    assert consolidate(db, settings, clock).report.changed == 1


def test_a_dry_run_plans_and_leaves_no_trace(db: Database, settings: Settings, clock: FakeClock) -> None:
    one, two = say(db, Said("Use Postgres for storage", "A."), Said("Use Postgres for storage.", "B.", day=1))
    before = everything(db)
    job = consolidate(db, settings, clock, dry_run=True)
    (planned,) = job.planned
    assert (planned.what, planned.into, set(planned.memories)) == ("merged", two, {one, two})
    assert everything(db) == before
    assert consolidate(db, settings, clock).report.changed == 1


def test_a_run_that_is_stopped_is_taken_up_by_the_next(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    say(db, Said("Use Postgres for storage", "A."), Said("Use Postgres for storage.", "B."))
    report = consolidate(db, settings, clock, stopping=lambda: True).report
    assert (report.seen, report.changed, report.waiting) == (0, 0, 2)
    assert consolidate(db, settings, clock).report.changed == 1


def test_pins_and_snoozes_outlive_a_merge(db: Database, settings: Settings, clock: FakeClock) -> None:
    one, two, three, four = say(
        db,
        Said("Use Postgres for storage", "A."),
        Said("Use Postgres for storage.", "B.", day=1),
        Said("Answer in short words", kind="preference"),
        Said("Answer in short words please", kind="preference", day=1),
    )
    until = clock.now() + dt.timedelta(days=30)
    with db.transaction() as conn:
        conn.execute("update memory set pinned = true where id = %s", (one,))
        conn.execute("update memory set snoozed_until = %s where id in (%s, %s)", (until, two, three))
    consolidate(db, settings, clock)
    short, storage = live(db)
    assert (storage["id"], storage["pinned"], storage["snoozed_until"]) == (one, True, None)
    assert (short["id"], short["snoozed_until"], short["origin"]) == (four, until, "user")


def test_two_bodies_that_do_not_fit_into_one_stay_apart(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    long = [" ".join(f"word{part}{i}" for i in range(150)) for part in "ab"]
    say(db, *(Said(f"Use Postgres for storage{'.' * i}", text) for i, text in enumerate(long)))
    report = consolidate(db, settings, clock).report
    assert report.changed == 0
    assert len(live(db)) == 2


def test_writers_and_the_job_at_the_same_time_lose_nothing(
    db: Database, settings: Settings, clock: FakeClock, sql: Connection
) -> None:
    """Sessions say the same things again, and use them, while the job merges them: every source and count is there."""
    end = threading.Event()
    said: list[str] = []

    def write() -> None:
        try:
            for turn in range(60):
                for fact in range(4):
                    text = f"Use {'abcd'[fact] * 3} for storage"
                    now = dt.datetime.now(dt.UTC)
                    detail = f"Detail {'xyz'[turn % 3]}."
                    say(db, Said(text, detail, day=turn % 5, vector=angle(80 * fact), now=now))
                    said.append(text)
        finally:
            end.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not end.is_set():
        consolidate(db, settings, clock)
        clock.advance(1)
    writer.join()
    assert len(said) == 240
    rows = sql.execute("select deadlocks from pg_stat_database where datname = current_database()").fetchone()
    assert rows is not None
    assert rows["deadlocks"] == 0
    assert sum(row["seen_count"] for row in live(db)) == 240
    assert sum(row["sources"] for row in live(db)) == 240


def test_what_sessions_count_while_a_merge_is_being_written_is_kept(
    db: Database, settings: Settings, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A use counts without changing anything else of a memory, here between its being read and its being merged."""
    say(db, Said("Use Postgres for storage"), Said("Use Postgres, for storage", day=1))
    later = clock.now() + dt.timedelta(seconds=5)

    def use() -> None:
        with db.transaction() as conn:
            conn.execute(
                "update memory set used_count = used_count + 1, last_used_at = %s where superseded_by is null",
                (later,),
            )
        armed.clear()

    monkeypatch.setitem(armed, "after_marks", use)
    consolidate(db, settings, clock)
    (kept,) = live(db)
    assert (kept["used_count"], kept["last_used_at"]) == (2, later)
