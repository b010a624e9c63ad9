"""The rules on the pair set with the real local embedder's cosines: how many true duplicates come near enough to be looked at,
and how many of those the rules merge. What was reached may not get worse: of 183 duplicates 19 % lie below the threshold; rules
merge 91 % of the rest, and 96 % where the two share a sentence."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

import pytest

from cems.providers.local import LocalEmbedder
from db.embeddings import embedded_text
from maintenance.guards import THRESHOLD, Statement, same_fact
from tests.local_model import model_folder
from tests.pairs import DUPLICATES, OTHERS, PAIRS, Pair

LATER = ("small_words", "afterwards")
"""Categories that were written when the rules stood."""
SENTENCE = "same_sentence"
"""Duplicates that share no sentence; to connect them is the judge's part."""


@dataclasses.dataclass(frozen=True)
class Figures:
    """Of some true duplicates."""

    near: float
    """The share at or above the threshold."""
    merged: float
    """Of those, the share that rules alone merge."""


FLOORS = {
    # Of 101, 49, 33, 159 and 183 duplicates. Before anybody looked at them the held-out ones reached .838; three ways to put
    # things that they showed ("stop using", "rolled it back", "before every commit run") were then taken in.
    "tuned": Figures(0.79, 0.9),
    "held out": Figures(0.75, 0.91),
    "afterwards": Figures(0.96, 0.9),
    "all that share a sentence": Figures(0.88, 0.95),
    "all": Figures(0.81, 0.9),
}
CHOSEN: dict[str, Callable[[Pair], bool]] = {
    "tuned": lambda p: not p.held_out and p.category not in LATER,
    "held out": lambda p: p.held_out,
    "afterwards": lambda p: p.category in LATER,
    "all that share a sentence": lambda p: p.category != SENTENCE,
    "all": lambda p: True,
}


@functools.cache
def _measured() -> dict[int, float]:
    """The cosine of each pair by its place."""
    embedder = LocalEmbedder(model_folder())
    sides = [s for pair in PAIRS for s in (pair.first, pair.second)]
    vectors = embedder.embed_documents([_text(s) for s in sides])
    return {
        number: sum(x * y for x, y in zip(vectors[2 * number], vectors[2 * number + 1], strict=True))
        for number in range(len(PAIRS))
    }


def _text(statement: Statement) -> str:
    return embedded_text({"title": statement.title, "body": statement.body})


def measured(pairs: Sequence[Pair]) -> list[tuple[Pair, float]]:
    near = _measured()
    return [(pair, near[PAIRS.index(pair)]) for pair in pairs]


def figures(pairs: Sequence[Pair]) -> Figures:
    near = [(pair, cosine) for pair, cosine in measured(pairs) if cosine >= THRESHOLD]
    merged = [pair for pair, cosine in near if same_fact(pair.first, pair.second, cosine)]
    return Figures(len(near) / len(pairs), len(merged) / len(near))


@pytest.mark.parametrize("name", CHOSEN)
def test_duplicates_are_found_and_merged_as_well_as_promised(name: str) -> None:
    reached, floor = figures([pair for pair in DUPLICATES if CHOSEN[name](pair)]), FLOORS[name]
    assert reached.near >= floor.near, reached
    assert reached.merged >= floor.merged, reached


def test_case_M56_nearness_alone_would_merge_different_facts_and_rules_do_not() -> None:
    others = measured(OTHERS)
    assert sum(cosine >= THRESHOLD for _, cosine in others) > len(OTHERS) / 2
    wrong = [pair for pair, cosine in others if same_fact(pair.first, pair.second, cosine)]
    assert not wrong, wrong
