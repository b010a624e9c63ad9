"""What a merge unites, who survives it, and which pairs make a group."""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
import random
import uuid

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cems.models import BODY_LIMIT, LIST_LIMIT
from db.candidates import Member
from maintenance import candidates, linkage, shared_words
from maintenance.candidates import Pair
from maintenance.merge import merge, replace, survivor_first, unite

NOW = dt.datetime(2026, 11, 30, 3, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
FIRST = Member(
    id=uuid.UUID(int=1), project_id=None, layer="observation", kind="decision", title="Use Postgres", body="", around="",
    concepts=[], files=[], confidence=0.5, origin="assistant", author="rules", occurred_at=NOW - 9 * DAY,
    changed_at=NOW - 9 * DAY, seen_count=1, shown_count=0, used_count=0, last_shown_at=None, last_used_at=None, pinned=False,
    snoozed_until=None, valid_from=None, said_at=NOW - 9 * DAY,
)  # fmt: skip


def member(number: int, **values: object) -> Member:
    return dataclasses.replace(FIRST, id=uuid.UUID(int=number), **values)  # type: ignore[arg-type]


def test_the_survivor_is_pinned_else_by_hand_else_used_else_new() -> None:
    pinned, hand, used = member(2, pinned=True), member(3, author="hand"), member(4, used_count=1)
    new, old = member(6, occurred_at=NOW), member(5)
    for order in itertools.permutations((pinned, hand, used, new, old)):
        assert survivor_first(order) == [pinned, hand, used, new, old]


@pytest.mark.parametrize(
    ("body", "title", "other", "united"),
    [
        ("", "Use Postgres.", "", ""),
        ("Runs on port 5433.", "Use Postgres", "Runs on port 5433", "Runs on port 5433."),
        ("Backups are nightly.", "Use Postgres", "Ask Jonas.", "Backups are nightly.\nAsk Jonas."),
        ("A is preferred over B.", "Use Postgres", "B is preferred over A.", "A is preferred over B.\nB is preferred over A."),
        ("", "Use Postgres", "Not on port 5432. See db/pool.py", "Not on port 5432. See db/pool.py."),
        ("Why: cheap.", "Use Postgres", "Asked: which one?\nChanged: a.py", "Why: cheap.\nAsked: which one?\nChanged: a.py"),
        ("Asked: which?", "Use Postgres", "Asked: what then?\nFast.", "Asked: which?\nFast."),
        ("", "Use Postgres", "✅ " + "x" * 300, "✅ " + "x" * 300 + "."),
        ("Use C++ for scans.", "Use Postgres", "Use C for scans", "Use C++ for scans.\nUse C for scans."),
        ("Lint warnings rarely block a merge.", "Use Postgres", "Lint warnings block a merge",
         "Lint warnings rarely block a merge.\nLint warnings block a merge."),
        ("数据库用 Postgres。", "Use Postgres", "数据库用 Postgres。备份每天做。", "数据库用 Postgres。\n备份每天做。"),
    ],
)  # fmt: skip
def test_a_body_gets_what_it_does_not_say_yet(body: str, title: str, other: str, united: str) -> None:
    assert unite("Use Postgres", body, member(2, title=title, body=other)) == united


@given(st.lists(st.text("ab .\n!", max_size=40), min_size=2, max_size=5))
def test_no_sentence_is_lost_and_uniting_again_adds_nothing(bodies: list[str]) -> None:
    body = bodies[0]
    for other in bodies[1:]:
        united = unite("Use Postgres", body, member(2, body=other))
        assert united is not None
        assert united.startswith(body)
        body = united
    for other in bodies[1:]:
        assert unite("Use Postgres", body, member(2, body=other)) == body


def test_what_does_not_fit_is_left_out_and_the_rest_is_merged() -> None:
    long = " ".join(f"w{i}" for i in range(400))
    members = [
        member(1, used_count=9, body="Short."),
        member(2, body=long[:1500]),
        member(3, body=long[-1500:]),
    ]
    found = merge(members, "same", NOW)
    assert found is not None
    assert [m.id.int for m in found.together] == [1, 2]
    assert [m.id.int for m in found.left] == [3]
    assert len(found.change.updates[members[0].id]["body"]) <= BODY_LIMIT
    assert merge([member(1, body="a" * 1999), member(2, body="b" * 1999)], "same", NOW) is None


def test_lists_keep_the_survivors_own_first_and_origins_the_most_trusted() -> None:
    one = member(
        1, used_count=1, files=[f"a{i}" for i in range(15)], around="before\nmore", snoozed_until=NOW
    )
    two = member(
        2,
        files=["a3", *(f"b{i}" for i in range(15))],
        origin="user",
        around="before\nelse",
        concepts=["gotcha"],
    )
    found = merge([one, two], "same", NOW)
    assert found is not None
    values = found.change.updates[one.id]
    assert values["files"] == [*one.files, *(f"b{i}" for i in range(LIST_LIMIT - 15))]
    assert (values["origin"], values["around"], values["concepts"]) == (
        "user",
        "before\nmore\nelse",
        ["gotcha"],
    )
    assert values["snoozed_until"] == NOW
    assert values["occurred_at"] == min(one.occurred_at, two.occurred_at)


def test_a_merge_has_a_time_of_its_own_even_where_the_clock_stands_still() -> None:
    found = merge([member(1, changed_at=NOW), member(2, changed_at=NOW)], "same", NOW)
    assert found is not None
    assert found.result.changed_at > NOW


def test_a_replaced_memory_ends_where_the_later_one_began() -> None:
    old, new = member(1, occurred_at=NOW - DAY), member(2, occurred_at=NOW)
    change = replace(old, new)
    assert set(change.updates) == {old.id}
    assert change.updates[old.id] == {"superseded_by": new.id, "superseded_how": "replaced", "valid_to": NOW}


def pairs_of(edges: list[tuple[int, int]]) -> dict[frozenset[uuid.UUID], float]:
    return {frozenset((uuid.UUID(int=a), uuid.UUID(int=b))): 0.99 for a, b in edges}


def numbers(found: list[list[uuid.UUID]]) -> list[list[int]]:
    return [[m.int for m in group] for group in found]


def test_case_M58_a_chain_makes_no_group_of_three() -> None:
    assert numbers(linkage.groups(pairs_of([(1, 2), (2, 3)]))) == [[1, 2]]
    assert numbers(linkage.groups(pairs_of([(1, 2), (2, 3), (1, 3)]))) == [[1, 2, 3]]


@given(st.sets(st.tuples(st.integers(1, 8), st.integers(1, 8)).filter(lambda e: e[0] < e[1])), st.randoms())
def test_every_pair_of_a_group_is_the_same_fact_whatever_the_order(
    edges: set[tuple[int, int]], chance: random.Random
) -> None:
    ordered = sorted(edges)
    groups = numbers(linkage.groups(pairs_of(ordered)))
    assert all(pair in edges for group in groups for pair in itertools.combinations(group, 2))
    chance.shuffle(ordered)
    assert numbers(linkage.groups(pairs_of(ordered))) == groups


def test_pairs_that_touch_come_together_in_the_order_of_their_ids() -> None:
    pairs = [Pair(uuid.UUID(int=a), uuid.UUID(int=b), 0.99) for a, b in [(7, 8), (2, 4), (1, 9), (4, 9)]]
    assert [[(p.first.int, p.second.int) for p in t] for t in linkage.touching(pairs)] == [
        [(2, 4), (1, 9), (4, 9)],
        [(7, 8)],
    ]


def test_case_M57_a_cosine_that_is_no_number_is_near_to_nothing() -> None:
    pairs = candidates._Pairs(0.92)
    product = np.array([[np.nan, 0.95], [0.5, np.inf]], np.float32)
    pairs.add(product, np.array([0, 1]), np.array([2, 3]))
    assert [(first, second) for first, second, _ in pairs.all()] == [(0, 3), (1, 3)]


def test_of_too_many_pairs_the_nearest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "MOST_PAIRS", 10)
    pairs = candidates._Pairs(0.5)
    chance = np.random.default_rng(1)
    every = chance.uniform(0, 1, (40, 7)).astype(np.float32)
    for i in range(0, 40, 4):
        pairs.add(every[i : i + 4], np.arange(i, i + 4), np.arange(100, 107))
    assert sorted(cosine for _, _, cosine in pairs.all()) == sorted(np.sort(every.ravel())[-10:].tolist())
    assert pairs.cut


@given(st.lists(st.lists(st.sampled_from("abcdefg"), max_size=7), max_size=12), st.data())
def test_texts_that_share_most_of_their_words_are_all_found(
    words: list[list[str]], data: st.DataObject
) -> None:
    texts = [tuple(w) for w in words]
    wanted = {i for i in range(len(texts)) if data.draw(st.booleans())}
    found = {frozenset((a, b)) for a, b, _ in filter(None, shared_words._overlapping(texts, wanted))}
    truth = {
        frozenset((a, b))
        for a, b in itertools.combinations(range(len(texts)), 2)
        if texts[a] and texts[b] and {a, b} & wanted
        and len({*texts[a]} & {*texts[b]}) >= 0.8 * len({*texts[a]} | {*texts[b]}) - 1e-9
    }  # fmt: skip
    assert found == truth
