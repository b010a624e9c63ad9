"""The rules on the pair set: no two facts become one, whatever their vectors say."""

from __future__ import annotations

import collections
import dataclasses
import re
import time
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cems.models import KINDS
from maintenance.guards import Statement, same_fact, why_apart
from tests.pairs import DUPLICATES, OTHERS, PAIRS, Pair

COSINES = (0.92, 0.95, 0.986, 1.0)
UNGUARDED = 0.07
"""The share of pairs of different facts that no guard names; the rules keep them apart all the same."""
MERGED = 0.81
"""The share of all true duplicates, near and far, that rules alone recognise at any cosine."""
NUMBER = re.compile(r"(?<![\w./-])\d+(?![\w/-]|\.\d)")
IDENTIFIER = re.compile(r"\b[a-z]+_[a-z_]+[a-z]\b|\b[A-Z]+_[A-Z_]+[A-Z]\b|\b[a-z]+/[a-z./_]+[a-z]\b")
VERB = re.compile(
    r"\b(use|uses|run|runs|is|are|was|were|must|has|have|add|write|listens|lives|owns|keep|commit|reads|takes)\b",
    re.I,
)


def sides(pair: Pair) -> tuple[tuple[Statement, Statement], ...]:
    return (pair.first, pair.second), (pair.second, pair.first)


def test_the_set_is_as_large_as_it_has_to_be() -> None:
    counts = collections.Counter(pair.category for pair in PAIRS)
    assert len(PAIRS) >= 600
    assert len(DUPLICATES) >= 180
    assert counts["values"] >= 50 and counts["negations"] >= 25 and counts["opposites"] >= 40
    assert counts["environments"] >= 15 and counts["supersessions"] >= 20 and counts["places"] >= 10
    assert {p.first.kind for p in PAIRS} == set(KINDS)
    assert sum(p.held_out for p in PAIRS) >= 140


@pytest.mark.parametrize("pair", OTHERS, ids=str)
def test_case_M56_different_facts_never_become_one(pair: Pair) -> None:
    for a, b in sides(pair):
        assert not any(same_fact(a, b, cosine) for cosine in COSINES)


def test_nearly_every_difference_has_a_guard() -> None:
    silent = [pair for pair in OTHERS if not why_apart(pair.first, pair.second)]
    assert len(silent) <= UNGUARDED * len(OTHERS), "\n".join(map(str, silent))


def test_both_ways_round_it_is_the_same() -> None:
    for pair in PAIRS:
        a, b = pair.first, pair.second
        assert why_apart(a, b) == why_apart(b, a), pair
        assert same_fact(a, b, 1.0) == same_fact(b, a, 1.0), pair
        assert not (why_apart(a, b) and same_fact(a, b, 1.0)), pair


def test_case_M63_most_repetitions_are_recognised() -> None:
    found = [pair for pair in DUPLICATES if same_fact(pair.first, pair.second, 1.0)]
    assert len(found) >= MERGED * len(DUPLICATES)


def test_a_statement_is_the_same_as_itself() -> None:
    for pair in PAIRS:
        for statement in (pair.first, pair.second):
            again = dataclasses.replace(statement)
            assert same_fact(statement, again, 0.92), pair


def test_below_the_threshold_nothing_is_the_same() -> None:
    for pair in DUPLICATES:
        for cosine in (0.919, 0.0, -1.0, float("nan")):
            assert not same_fact(pair.first, pair.second, cosine)


def changed(pair: Pair, pattern: re.Pattern[str], change: st.DataObject, new: str) -> Statement | None:
    """The second side with one match of a pattern changed that the first side has as well, or None where there is none."""
    text = f"{pair.second.title}\n{pair.second.body}"
    known = f"{pair.first.title}\n{pair.first.body}".casefold()
    spoken = [
        m for m in pattern.finditer(text) if m[0].casefold() in known and not _surrounds(text, m.start())
    ]
    if not spoken:
        return None
    match = change.draw(st.sampled_from(spoken))
    title, _, body = (text[: match.start()] + match.expand(new) + text[match.end() :]).partition("\n")
    return dataclasses.replace(pair.second, title=title, body=body)


def _surrounds(text: str, at: int) -> bool:
    line = text[text.rfind("\n", 0, at) + 1 :]
    return line.startswith(("Asked:", "Failed first:", "Changed:", "Also:"))


@settings(max_examples=400, deadline=None)
@given(st.data(), st.sampled_from(DUPLICATES), st.integers(0, 9))
def test_another_number_is_another_fact(data: st.DataObject, pair: Pair, digit: int) -> None:
    other = changed(pair, NUMBER, data, rf"{digit + 1}\g<0>")
    if other is not None:
        assert not same_fact(pair.first, other, 1.0), (pair, other)
        assert not same_fact(other, pair.first, 1.0), (pair, other)


@settings(max_examples=400, deadline=None)
@given(st.data(), st.sampled_from(DUPLICATES), st.sampled_from("xyz"))
def test_another_identifier_is_another_fact(data: st.DataObject, pair: Pair, letter: str) -> None:
    other = changed(pair, IDENTIFIER, data, rf"\g<0>{letter}")
    if other is not None:
        assert not same_fact(pair.first, other, 1.0), (pair, other)
        assert not same_fact(other, pair.first, 1.0), (pair, other)


@settings(max_examples=600, deadline=None)
@given(st.data(), st.sampled_from(DUPLICATES), st.sampled_from(("not", "never", "no longer")))
def test_a_denial_makes_another_fact(data: st.DataObject, pair: Pair, denial: str) -> None:
    for new in (rf"\g<0> {denial}", rf"{denial} \g<0>"):
        other = changed(pair, VERB, data, new)
        if other is not None:
            assert not same_fact(pair.first, other, 1.0), (pair, other)
            assert not same_fact(other, pair.first, 1.0), (pair, other)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(PAIRS), st.sampled_from(KINDS), st.booleans())
def test_another_project_or_kind_is_another_fact(pair: Pair, kind: str, everywhere: bool) -> None:
    project = None if everywhere and pair.first.project else uuid.uuid4()
    moved = dataclasses.replace(pair.first, project=project)
    assert why_apart(pair.first, moved) == "project"
    if kind != pair.first.kind:
        turned = Statement(kind, pair.first.project, pair.first.title, pair.first.body)  # type: ignore[arg-type]
        assert why_apart(pair.first, turned) == "kind"


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=300), st.text(max_size=3000), st.text(max_size=300), st.sampled_from(KINDS))
def test_any_text_is_read_without_an_error(title: str, body: str, other: str, kind: str) -> None:
    a, b = Statement(kind, None, title, body), Statement(kind, None, other, body)  # type: ignore[arg-type]
    assert why_apart(a, b) == why_apart(b, a)
    assert same_fact(a, b, 1.0) == same_fact(b, a, 1.0)
    assert why_apart(a, a) is None
    assert same_fact(a, a, 1.0)


@pytest.mark.parametrize(
    "text",
    [
        "not " * 3000,
        "(" * 5000,
        "a/" * 5000,
        "`\"'" * 3000,
        "1" * 9000,
        "-" * 9000,
        "不" * 5000,
        "x_" * 5000,
        "a.b-c:" * 2000,
    ],
    ids=lambda text: text[:6],
)
def test_a_long_text_is_read_quickly(text: str) -> None:
    a, b = Statement("context", None, text, text), Statement("context", None, text + "x", text)
    started = time.process_time()
    why_apart(a, b)
    assert same_fact(a, a, 1.0)
    assert not same_fact(a, b, 1.0)
    assert time.process_time() - started < 1.0


def test_ten_thousand_pairs_take_a_second() -> None:
    # Of one kind and place, so that none is told apart without being read.
    statements = [
        Statement("context", None, side.title, side.body, side.files)
        for pair in PAIRS
        for side in (pair.first, pair.second)
    ]
    compared = [(a, b) for i, a in enumerate(statements) for b in statements[i + 1 : i + 13]][:10_000]
    started = time.process_time()
    for a, b in compared:
        why_apart(a, b)
    assert time.process_time() - started < 1.5
