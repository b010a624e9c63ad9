"""Reflection over what the observer really stores, while the observer goes on."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from typing import Any

from cems.providers import GenerateRequest
from cems.providers.fake import ScriptedGenerator
from cems.settings import Settings
from db.connect import Database
from observer.start import capture
from tests.conftest import FakeClock
from tests.rewriting import answering, everything, made, notes, rows, run
from tests.writing import Transcript, observe_all

RULES = (
    "From now on every commit message is written in the imperative mood, please remember that.",
    "From now on every commit message names its ticket first, as in TERN-12, please.",
    "Always run `make lint` before you commit, never after it.",
    "Never touch the folder vendor/ without asking me, it is not ours.",
)
TEXT = (
    "Commit messages are in the imperative mood and name their ticket first, as in TERN-12",
    "",
)


def told(config: Path, *texts: str) -> Transcript:
    transcript = Transcript(config, "/nowhere/tern")
    for text in texts:
        transcript.prompt(text)
        transcript.answer("Understood.")
    return transcript


def condensed(request: GenerateRequest) -> dict[str, Any]:
    return answering({"commit message": TEXT})(request)


def test_case_M14_what_was_learnt_stays_when_its_transcripts_are_deleted(
    db: Database, settings: Settings, config_dir: Path, clock: FakeClock
) -> None:
    transcript = told(config_dir, *RULES)
    capturing = capture(db, settings, clock)
    observe_all(db, capturing, clock)
    few = dataclasses.replace(settings, reflection_observations=4)
    transcript.path.unlink()
    capturing.run_pass(once=True)
    before = everything(db)
    run(db, few, clock, ScriptedGenerator(default=condensed))
    [found] = made(db)
    assert (found["kind"], found["origin"], len(found["stands_on"])) == ("preference", "user", 2)
    after = everything(db)
    assert len(after["memory"]) == len(before["memory"]) + 1
    kept = {r["row"]["id"] for r in after["memory_source"]}
    assert {r["row"]["id"] for r in before["memory_source"]} <= kept, "the evidence of the originals"
    capturing.run_pass(once=True)
    assert everything(db) == after


def test_the_observer_stores_while_a_model_is_thinking(
    db: Database, settings: Settings, config_dir: Path, clock: FakeClock
) -> None:
    told(config_dir, *RULES)
    capturing = capture(db, settings, clock)
    observe_all(db, capturing, clock)
    few = dataclasses.replace(settings, reflection_observations=4)
    later = "From now on I want to see the plan before anything is deployed to production."

    def observing(request: GenerateRequest) -> dict[str, Any]:
        told(config_dir, later, RULES[3])
        thread = threading.Thread(target=observe_all, args=(db, capturing, clock))
        thread.start()
        thread.join(60)
        assert not thread.is_alive(), "no row is held while a model thinks"
        return condensed(request)

    job = run(db, few, clock, ScriptedGenerator(default=observing))
    [found] = made(db)
    live = {r["title"] for r in rows(db).values() if r["superseded_by"] is None}
    assert any("deployed to production" in title for title in live)
    assert job.report.changed == 1 and len(found["stands_on"]) == 2
    again = next(r for r in rows(db).values() if "vendor/" in r["title"])
    assert again["seen_count"] == 2


def test_notes_are_what_the_observer_wrote(
    db: Database, settings: Settings, config_dir: Path, clock: FakeClock
) -> None:
    told(config_dir, *RULES)
    observe_all(db, capture(db, settings, clock), clock)
    generator = ScriptedGenerator(default=condensed)
    run(db, dataclasses.replace(settings, reflection_observations=4), clock, generator)
    shown = " ".join(notes(generator.requests[0]).values())
    assert all(word in shown for word in ("TERN-12", "make lint", "vendor/"))
    assert "Asked:" not in shown
