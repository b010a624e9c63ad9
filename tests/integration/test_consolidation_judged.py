"""Consolidation with a model: what it is asked, what its word is worth, and what waits when it says nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cems.errors import ProviderUnavailable
from cems.providers import GenerateRequest
from cems.providers.fake import ScriptedGenerator
from cems.settings import Settings
from db.connect import Database
from maintenance import deciding
from tests.conftest import FakeClock
from tests.consolidating import DAY, Said, angle, consolidate, embed, live, row_of, say, titles
from tests.integration.test_changes import everything

Answer = Callable[[GenerateRequest], dict[str, Any]]


def always(verdict: str) -> Answer:
    """One verdict for every pair asked about."""

    def answer(request: GenerateRequest) -> dict[str, Any]:
        number = request.prompt.count(". first: ")
        return {"verdicts": [{"pair": i + 1, "verdict": verdict, "reason": "so"} for i in range(number)]}

    return answer


def test_a_model_joins_what_rules_cannot_and_no_detail_is_lost(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    one, two = say(
        db,
        Said("We store everything in Postgres", "It runs on the build host.\nChanged: db/pool.py"),
        Said("Postgres holds all our data", "Jonas has the password.", day=1),
    )
    model = ScriptedGenerator(default=always("same"))
    job = consolidate(db, settings, clock, model)
    (kept,) = live(db)
    assert kept["id"] == two
    assert kept["body"] == (
        "Jonas has the password.\nWe store everything in Postgres. It runs on the build host.\nChanged: db/pool.py"
    )
    assert row_of(db, one)["superseded_by"] == two
    assert (job.report.changed, job.report.llm_calls, kept["sources"]) == (1, 1, 2)
    before = everything(db)
    assert consolidate(db, settings, clock, model).report.llm_calls == 0
    assert everything(db) == before


@pytest.mark.parametrize("verdict", ["second_supersedes", "contradiction"])
def test_case_M59_a_later_fact_ends_the_one_it_replaces_and_no_other(
    db: Database, settings: Settings, clock: FakeClock, verdict: str
) -> None:
    old, new, other = say(
        db,
        Said("The dev Postgres listens on port 5432", day=0),
        Said("The dev Postgres listens on port 5433 now", "Moved.", day=3),
        Said("The coffee machine is on the second floor", day=4, vector=angle(10)),
    )

    def answer(request: GenerateRequest) -> dict[str, Any]:
        """It would retire anything."""
        return always(verdict)(request)

    assert consolidate(db, settings, clock, ScriptedGenerator(default=answer)).report.changed == 1
    assert {row["id"] for row in live(db)} == {new, other}
    gone = row_of(db, old)
    assert (gone["superseded_by"], gone["superseded_how"]) == (new, "replaced")
    assert gone["valid_to"] == row_of(db, new)["occurred_at"]
    assert row_of(db, new)["body"] == "Moved."


def test_an_earlier_memory_neither_replaces_a_later_one_nor_ends_by_a_verdict_for_it(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    say(db, Said("Dev runs on port 5432"), Said("Dev runs on port 5433", day=3))

    def for_the_earlier(request: GenerateRequest) -> dict[str, Any]:
        first, second = (request.prompt.index(port) for port in ("5432", "5433"))
        return always("first_supersedes" if first < second else "second_supersedes")(request)

    job = consolidate(db, settings, clock, ScriptedGenerator(default=for_the_earlier))
    assert len(live(db)) == 2
    assert job.report.notes == ["kept apart: not the later one 1"]


def test_a_contradiction_replaces_nothing_where_it_is_not_clear_what_differs(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    say(
        db,
        Said("The mobile app still calls the v1 endpoints"),
        Said("v1 endpoints are still in use by the mobile app", day=1),
    )
    job = consolidate(db, settings, clock, ScriptedGenerator(default=always("contradiction")))
    assert len(live(db)) == 2
    assert job.report.notes == ["kept apart: contradict each other 1"]


def test_a_less_trusted_memory_only_contradicts(db: Database, settings: Settings, clock: FakeClock) -> None:
    say(db, Said("Dev runs on port 5432"), Said("Dev runs on port 5433", day=3))
    with db.transaction() as conn:
        conn.execute("update memory set origin = case when title like '%%5433' then 'tool' else 'user' end")
    job = consolidate(db, settings, clock, ScriptedGenerator(default=always("contradiction")))
    assert len(live(db)) == 2
    assert job.report.notes == ["kept apart: contradict each other 1"]


def test_who_said_it_last_counts_not_who_said_it_first(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    """The first memory was said again after the second."""
    first, second = say(db, Said("Dev runs on port 5432"), Said("Dev runs on port 5433", day=3))
    with db.transaction() as conn:
        conn.execute("update memory_source set at = %s where memory_id = %s", (DAY.replace(day=9), first))
    consolidate(db, settings, clock, ScriptedGenerator(default=always("contradiction")))
    assert [row["id"] for row in live(db)] == [first]
    assert row_of(db, second)["valid_to"] == DAY.replace(day=9)


@pytest.mark.parametrize("kept", ["pinned", "hand"])
def test_what_a_person_pinned_or_wrote_is_not_replaced(
    db: Database, settings: Settings, clock: FakeClock, kept: str
) -> None:
    author = "hand" if kept == "hand" else "rules"
    old, _ = say(db, Said("Dev runs on port 5432", author=author), Said("Dev runs on port 5433", day=3))
    if kept == "pinned":
        with db.transaction() as conn:
            conn.execute("update memory set pinned = true where id = %s", (old,))
    job = consolidate(db, settings, clock, ScriptedGenerator(default=always("contradiction")))
    assert len(live(db)) == 2
    assert job.report.notes == ["kept apart: pinned or by hand 1"]


def test_case_M56_a_model_cannot_merge_where_a_guard_speaks(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    say(db, Said("Dev runs on port 5432"), Said("Dev runs on port 5433", day=3))
    job = consolidate(db, settings, clock, ScriptedGenerator(default=always("same")))
    assert (len(live(db)), job.report.changed, job.report.kept_apart) == (2, 0, 1)


def test_case_M61_a_model_that_was_down_is_asked_by_the_next_run(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    """Nothing new follows: what waits is known from the rows."""
    say(
        db,
        Said("We store everything in Postgres"),
        Said("Postgres holds all our data", day=1),
        Said("Builds run on Jenkins", vector=angle(80)),
        Said("Builds run on `Jenkins`", vector=angle(80)),
    )
    job = consolidate(db, settings, clock, ScriptedGenerator([ProviderUnavailable("down")]))
    assert (job.report.changed, job.report.failed, job.report.waiting) == (1, 1, 2), "rules went on"
    paused = consolidate(db, settings, clock, ScriptedGenerator())
    assert (paused.report.changed, paused.report.waiting, paused.report.llm_calls) == (0, 2, 0)
    clock.advance(3600)
    job = consolidate(db, settings, clock, ScriptedGenerator(default=always("same")))
    assert (job.report.changed, job.report.waiting) == (1, 0)
    assert len(live(db)) == 2


def test_an_unusable_answer_leaves_its_pairs_for_the_next_run(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    say(db, Said("We store everything in Postgres"), Said("Postgres holds all our data", day=1))
    job = consolidate(db, settings, clock, ScriptedGenerator([{"verdicts": []}]))
    assert (job.report.changed, job.report.failed, job.report.waiting) == (0, 1, 2)
    assert consolidate(db, settings, clock, ScriptedGenerator(default=always("same"))).report.changed == 1


def test_without_a_model_it_is_said_and_with_one_it_is_done(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    say(db, Said("We store everything in Postgres"), Said("Postgres holds all our data", day=1))
    job = consolidate(db, settings, clock)
    assert (job.report.changed, job.report.waiting, job.report.kept_apart) == (0, 0, 1)
    assert "1 pairs only a model could decide" in job.report.notes
    assert consolidate(db, settings, clock).report.seen == 0
    assert consolidate(db, settings, clock, ScriptedGenerator(default=always("same"))).report.changed == 1
    assert consolidate(db, settings, clock).report.seen == 0, "without it again nothing is new"


def test_many_wordings_at_once_become_one_memory_run_by_run(
    db: Database, settings: Settings, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More pairs than a run may ask about, and every answer is `same`: each run comes nearer, and then it ends."""
    monkeypatch.setattr(deciding, "MOST_JUDGED", 30)
    monkeypatch.setattr(deciding, "MOST_GUARDED", 0)
    words = [
        "lorem",
        "ipsum",
        "dolor",
        "amet",
        "elit",
        "sed",
        "magna",
        "quis",
        "nisi",
        "velit",
        "culpa",
        "anim",
    ]
    say(
        db,
        *(Said(f"We {w} store {w[::-1]} everything in Postgres", day=i) for i, w in enumerate(words)),
    )
    model = ScriptedGenerator(default=always("same"))
    counts = []
    for _ in range(8):
        job = consolidate(db, settings, clock, model)
        assert job.report.llm_calls <= 3
        embed(db)
        clock.advance(3600)
        counts.append(len(live(db)))
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 1, counts
    assert live(db)[0]["sources"] == len(words)
    assert consolidate(db, settings, clock, model).report.seen == 0


def test_a_dry_run_asks_nobody(db: Database, settings: Settings, clock: FakeClock) -> None:
    say(db, Said("We store everything in Postgres"), Said("Postgres holds all our data", day=1))
    model = ScriptedGenerator()
    job = consolidate(db, settings, clock, model, dry_run=True)
    assert (job.planned, model.requests, job.report.waiting) == ([], [], 2)
    assert len(titles(db)) == 2
