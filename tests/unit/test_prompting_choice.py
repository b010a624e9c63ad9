"""Which hits are shown with a prompt."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from typing import Any

import pytest

from cems.ids import short
from cems.models import Memory
from db.search import Hit
from db.search_order import Factors
from recall.relevance import choose

NOW = dt.datetime(2026, 11, 30, tzinfo=dt.UTC)


def hit(title: str, *, meaning: float | None = None, coverage: float = 0.0, **fields: Any) -> Hit:
    """A hit as search gives it."""
    values: dict[str, Any] = {
        "id": uuid.uuid4(), "layer": "observation", "kind": "decision", "title": title, "body": "", "concepts": (), "files": (),
        "project": "p", "confidence": 0.9, "origin": "user", "author": "rules", "occurred_at": NOW, "recorded_at": NOW,
        "seen_count": 1, "state": "active",
    }  # fmt: skip
    neutral: dict[str, Any] = {field.name: 1.0 for field in dataclasses.fields(Factors)}
    factors = Factors(**neutral)
    return Hit(Memory(**values | fields), 1.0, 1, 0.1, 1, meaning, coverage, factors)


def refused(one: Hit, text: str, **options: Any) -> dict[str, int]:
    """Why one hit is not shown; empty: it is."""
    given: dict[str, Any] = {"shown": (), "asks": False}
    return choose([one], text, **(given | options)).refused


def test_two_rare_words_are_enough() -> None:
    assert refused(hit("Uploads retry with backoff", coverage=0.5), "do uploads use backoff?") == {}


def test_words_that_every_session_has_are_not() -> None:
    assert refused(hit("Fix the tests and run them", coverage=0.9), "run the tests and fix what fails") == {
        "weak": 1
    }


def test_one_shared_word_of_many_is_not() -> None:
    text = "move the captions of the gallery below the images and centre the uploads"
    assert refused(hit("Uploads retry with backoff", coverage=0.2), text) == {"weak": 1}


@pytest.mark.parametrize("name", ["handleError", "db/search.py", "before_compaction", "E0432"])
def test_the_name_of_a_thing_is_enough_by_itself(name: str) -> None:
    assert (
        refused(hit(f"It breaks in {name} at night", coverage=0.1), f"please look at {name} and say why")
        == {}
    )


@pytest.mark.parametrize(("meaning", "shown"), [(0.55, False), (0.65, False), (0.72, True)])
def test_meaning_alone_must_be_near(meaning: float, shown: bool) -> None:
    assert (refused(hit("Canvas only", meaning=meaning), "which chart renderer?") == {}) is shown


def test_less_will_do_for_who_asks_for_memory() -> None:
    weak = hit("Uploads retry with backoff", coverage=0.1)
    text = "do you remember the long evening with the uploads and the printers?"
    assert refused(weak, text) == {"weak": 1}
    assert refused(weak, text, asks=True) == {}


def test_an_unsure_memory_needs_a_strong_hit() -> None:
    assert refused(
        hit("Uploads retry with backoff", coverage=0.4, confidence=0.4), "uploads backoff images"
    ) == {"unsure": 1}
    assert refused(hit("Uploads retry with backoff", coverage=0.9, confidence=0.4), "uploads backoff") == {}


def test_case_X94_what_a_tool_printed_is_never_given_however_near() -> None:
    near = hit("Uploads retry with backoff", meaning=0.99, coverage=1.0, origin="tool")
    assert refused(near, "uploads retry with backoff", asks=True) == {"tool": 1}


def test_case_I80_what_was_shown_is_not_shown_again_and_the_best_are_kept() -> None:
    hits = [hit(f"Uploads retry with backoff {n}", coverage=0.9) for n in range(10)]
    chosen = choose(hits, "uploads backoff", shown={short(hits[0].memory.id)}, asks=False, limit=3)
    assert [m.title for m in chosen.memories] == [h.memory.title for h in hits[1:4]]
    assert chosen.refused == {"shown": 1}
