"""Preferences that were said in several projects become one that holds everywhere."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from cems.providers import GenerateRequest
from cems.providers.fake import ScriptedGenerator
from cems.settings import Settings
from db import changes, lifecycle, undoing
from db.connect import Database
from tests.conftest import FakeClock
from tests.rewriting import everything, made, notes, project, remember, rows, run

RULE = "No comments that repeat the code"


def prefer(db: Database, of: str, title: str = RULE, body: str = "", **fields: Any) -> uuid.UUID:
    return remember(db, title, body, of=of, kind="preference", **fields)


def test_the_same_sentence_in_two_projects_holds_everywhere(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    one = prefer(db, "alpha", confidence=0.9)
    two = prefer(db, "beta", "no comments that  repeat the code.", "Asked: fix the parser of beta", days=3)
    prefer(db, "beta", "Always use uv")
    prefer(db, "alpha", "Never use uv")
    job = run(db, settings, clock)
    [found] = made(db)
    assert (found["project_id"], found["kind"], found["origin"], found["author"]) == (
        None,
        "preference",
        "user",
        "rules",
    )
    assert (found["title"], found["body"]) == ("no comments that  repeat the code.".replace("  ", " "), "")
    assert (set(found["stands_on"]), found["seen_count"], found["files"]) == ({one, two}, 2, [])
    assert {rows(db)[i]["superseded_by"] for i in (one, two)} == {found["id"]}
    assert job.run is not None
    assert {c["what"] for c in changes.of_run(db, job.run.id)} == {"promoted"}


def test_it_happens_once_can_be_undone_and_stays_undone(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    prefer(db, "alpha")
    prefer(db, "beta")
    before = everything(db)
    job = run(db, settings, clock)
    after = everything(db)
    for _ in range(4):
        assert run(db, settings, clock).report.changed == 0
        assert everything(db) == after
    assert job.run is not None
    undoing.undo(db, job.run.id, clock.now())
    assert everything(db) == before
    assert run(db, settings, clock).report.changed == 0
    assert run(db, settings, clock, of=project(db, "alpha")).report.changed == 0
    assert everything(db) == before


def test_a_third_project_joins_what_holds_everywhere(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    prefer(db, "alpha")
    prefer(db, "beta")
    run(db, settings, clock)
    third = prefer(db, "gamma", days=9)
    run(db, settings, clock)
    [found] = made(db)
    assert rows(db)[third]["superseded_by"] == found["id"] and third in found["stands_on"]


def test_what_names_something_of_a_project_stays_there(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    plain = prefer(db, "alpha", body="They only grow old and then they lie.")
    named = prefer(db, "beta", body="Jonas at Acme has to read `billing.py` aloud.")
    run(db, settings, clock)
    [found] = made(db)
    assert found["body"] == "They only grow old and then they lie."
    assert rows(db)[plain]["superseded_by"] == found["id"]
    assert rows(db)[named]["superseded_by"] is None and named in found["stands_on"]


def test_only_the_users_own_preferences_of_two_projects_are_promoted(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    remember(db, RULE, of="alpha", kind="pattern", origin="tool")
    remember(db, RULE, of="beta", kind="pattern", origin="tool")
    remember(db, "Another", of="alpha", kind="decision")
    remember(db, "Another", of="beta", kind="decision")
    prefer(db, "alpha", "Only here")
    prefer(db, "beta", "Not only here")
    assert run(db, settings, clock).report.changed == 0


@pytest.mark.parametrize("fields", [{"pinned": True}, {"author": "hand"}])
def test_a_pinned_or_handwritten_preference_stays_where_it_is(
    db: Database, settings: Settings, clock: FakeClock, fields: dict[str, Any]
) -> None:
    kept, other = prefer(db, "alpha", **fields), prefer(db, "beta")
    before = rows(db)[kept]
    run(db, settings, clock)
    [found] = made(db)
    assert rows(db)[kept] == before and set(found["stands_on"]) == {kept, other}
    assert rows(db)[other]["superseded_by"] == found["id"]


def test_a_rule_for_all_that_a_person_forgot_does_not_come_back(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    prefer(db, "alpha")
    prefer(db, "beta")
    run(db, settings, clock)
    lifecycle.forget(db, made(db)[0]["id"], clock.now())
    prefer(db, "gamma", days=9)
    prefer(db, "delta", days=9)
    run(db, settings, clock)
    assert [r for r in made(db) if r["forgotten_at"] is None] == []


@pytest.mark.parametrize("forgotten", [RULE, "Please no comments that repeat the code"])
def test_what_a_person_forgot_in_one_project_does_not_come_back_from_the_others(
    db: Database, settings: Settings, clock: FakeClock, forgotten: str
) -> None:
    gone = prefer(db, "alpha", forgotten)
    prefer(db, "beta")
    prefer(db, "gamma")
    lifecycle.forget(db, gone, clock.now())
    job = run(db, settings, clock)
    assert (made(db), job.report.kept_apart) == ([], 1)
    if forgotten == RULE:
        lifecycle.restore(db, gone, clock.now())
        run(db, settings, clock)
        assert [r["project_id"] for r in made(db)] == [None], "it is wanted again"


def test_a_paraphrase_of_what_was_forgotten_is_not_promoted_by_a_model(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    gone = prefer(db, "alpha", "Use uv and never pip")
    prefer(db, "beta", "Use uv and never pip")
    prefer(db, "gamma", "Please always use uv, never pip", days=1)
    lifecycle.forget(db, gone, clock.now())
    run(db, settings, clock, ScriptedGenerator(default=same("uv")))
    assert made(db) == []


def same(*words: str) -> Any:
    """A model that takes the rules with one of some words for the same."""

    def answer(request: GenerateRequest) -> dict[str, Any]:
        if not request.prompt.startswith("<rules>"):
            return {"reflections": [], "kept": list(notes(request))}
        found = notes(request)
        return {"same": [[n for n, t in found.items() if word in t] for word in words]}

    return answer


def test_a_paraphrase_is_promoted_where_a_model_says_so(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    one = prefer(db, "alpha", "Use uv and never pip")
    two = prefer(db, "beta", "Please always use uv, never pip", days=1)
    generator = ScriptedGenerator(default=same("uv"))
    job = run(db, settings, clock, generator)
    [found] = made(db)
    assert (found["title"], found["project_id"]) == ("Please always use uv, never pip", None)
    assert set(found["stands_on"]) == {one, two} and found["author"] == "scripted"
    assert "(P1)" in generator.requests[0].prompt and "alpha" not in generator.requests[0].prompt
    assert job.report.changed == 1
    assert run(db, settings, clock, generator).report.llm_calls == 0


def test_a_model_cannot_make_one_rule_of_two(db: Database, settings: Settings, clock: FakeClock) -> None:
    prefer(db, "alpha", "Wait at most 30 seconds for the tests")
    prefer(db, "beta", "Wait at most 60 seconds for the tests")
    prefer(db, "alpha", "Use tabs and not spaces in every file")
    prefer(db, "beta", "Use spaces and not tabs in every file")
    job = run(db, settings, clock, ScriptedGenerator(default=same("seconds", "tabs")))
    assert made(db) == [] and job.report.changed == 0


def test_an_answer_with_wrong_numbers_promotes_nothing(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    prefer(db, "alpha", "Use uv and never pip")
    prefer(db, "beta", "Please always use uv, never pip", days=1)
    job = run(db, settings, clock, ScriptedGenerator(default={"same": [[1, 9]]}))
    assert (job.report.failed, job.report.waiting, job.report.changed) == (1, 1, 0)
    assert run(db, settings, clock, ScriptedGenerator(default=same("uv"))).report.changed == 1


def test_a_run_for_one_project_compares_its_preferences_with_all_others_once(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    prefer(db, "alpha", "Use uv and never pip")
    prefer(db, "beta", "Please always use uv, never pip", days=1)
    prefer(db, "beta", "Tests come before the code, for every change")
    prefer(db, "gamma", "Tests come before code, for every change", days=1)
    apart = ScriptedGenerator(default={"same": []})
    for calls in (1, 0):
        job = run(db, settings, clock, apart, of=project(db, "alpha"))
        assert (job.report.llm_calls, job.report.changed) == (calls, 0)
    assert "Tests" not in apart.requests[0].prompt
    run(db, settings, clock, ScriptedGenerator(default=same("Tests")))
    assert [r["title"] for r in made(db)] == ["Tests come before code, for every change"]
