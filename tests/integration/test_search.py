"""Search: what is found, what is never found, in which order, and that no question makes it fail."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from collections.abc import Sequence
from typing import Any

import pytest
from pgvector import Vector

from cems.ids import uuid7
from cems.models import Kind
from cems.terms import memory_terms
from db import lifecycle, memories
from db.connect import Database
from db.search import Question, explain, search

MODEL = "bge-small-en-v1.5-int8@384"
NOW = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)
HERE, THERE = uuid.UUID(int=1), uuid.UUID(int=2)


def direction(angle: float) -> list[float]:
    """A unit vector; those of two angles (in degrees) have the cosine of their difference."""
    return [math.cos(math.radians(angle)), math.sin(math.radians(angle))] + [0.0] * 382


def add(
    db: Database,
    title: str,
    body: str = "",
    *,
    project: uuid.UUID | None = HERE,
    kind: Kind = "decision",
    at: dt.datetime = NOW - dt.timedelta(days=1),
    angle: float | None = None,
    files: Sequence[str] = (),
    around: str = "",
    **more: Any,
) -> uuid.UUID:
    """Store a memory; `more` are columns."""
    memory = uuid7()
    row: dict[str, Any] = {
        "owner_id": db.owner_id,
        "id": memory,
        "layer": "observation",
        "kind": kind,
        "project_id": project,
        "title": title,
        "body": body,
        "terms": memory_terms(title, body, files, at),
        "around": around,
        "files": list(files),
        "confidence": 0.8,
        "origin": "user",
        "author": "rules",
        "content_hash": memory.bytes,
        "occurred_at": at,
        "recorded_at": at,
        "changed_at": at,
    } | more
    with db.transaction() as conn:
        if project is not None:
            name = f"project-{project.int}"
            conn.execute(
                "insert into project values (%s, %s, %s, %s, '/', %s) on conflict do nothing",
                (db.owner_id, project, name, name, NOW),
            )
        columns, values = ", ".join(row), ", ".join(f"%({name})s" for name in row)
        conn.execute(f"insert into memory ({columns}) values ({values})".encode(), row)
        if angle is not None:
            conn.execute(
                "insert into embedding values (%s, %s, %s, %s, 'x', %s)",
                (db.owner_id, memory, MODEL, Vector(direction(angle)), NOW),
            )
    return memory


def titles(db: Database, text: str, **more: Any) -> list[str]:
    """Titles found, best first."""
    return [hit.memory.title for hit in search(db, Question(text, **more), NOW)]


# ---- words


@pytest.mark.parametrize(
    "question",
    [
        "before_compaction",
        "why is `before_compaction()` called twice?",
        "handleError",
        "handle error",
        "src/hooks/run.py",
        "run.py",
        "E0432",
        "ECONNREFUSED",
        "10.0.0.1:5432",
        "価格キャッシュはどこ",
        "数据库",
        "compactions",
        "COMPACTION",
    ],
)
def test_words_identifiers_and_scripts_without_spaces_are_found(
    db: Database, reader: Database, question: str
) -> None:
    add(
        db,
        "before_compaction calls handleError twice",
        "src/hooks/run.py failed with E0432 and ECONNREFUSED at 10.0.0.1:5432. 価格キャッシュは数据库に移した",
    )
    add(db, "Something else entirely")
    assert titles(reader, question)[:1] == ["before_compaction calls handleError twice"]


def test_a_memory_answers_what_was_asked_around_it(db: Database, reader: Database) -> None:
    add(db, "We took the second one", around="Which hashing library is fastest for large files?")
    assert titles(reader, "hashing library for large files") == ["We took the second one"]


def test_rare_words_weigh_more_than_common_ones(db: Database, reader: Database) -> None:
    for number in range(30):
        add(db, f"The cache of service {number} is warm", "cache service")
    add(db, "Zstandard for archives")
    found = titles(reader, "zstandard cache service")
    assert found[0] == "Zstandard for archives"


# ---- filters


def test_filters_are_kept(db: Database, reader: Database) -> None:
    add(
        db,
        "cache a",
        kind="decision",
        concepts=["gotcha"],
        files=["src/db/cache.py"],
        at=NOW - dt.timedelta(days=40),
    )
    add(db, "cache b", kind="bugfix", project=THERE, files=["src/db/other_cache.py"])
    add(db, "cache c", kind="preference", project=None)
    add(db, "cache d", kind="pattern", layer="reflection")
    everything = {"cache a", "cache b", "cache c", "cache d"}
    assert set(titles(reader, "cache")) == everything
    assert set(titles(reader, "cache", projects=[HERE])) == everything - {"cache b"}
    assert set(titles(reader, "cache", projects=[THERE])) == {"cache b", "cache c"}
    assert set(titles(reader, "cache", projects=[])) == {"cache c"}
    assert titles(reader, "cache", kind="bugfix") == ["cache b"]
    assert titles(reader, "cache", layer="reflection") == ["cache d"]
    assert titles(reader, "cache", concept="gotcha") == ["cache a"]
    assert titles(reader, "cache", file="cache.py") == ["cache a"]
    assert titles(reader, "cache", file="src/db/other_cache.py") == ["cache b"]
    assert titles(reader, "cache", file="src/db/%") == []
    assert titles(reader, "cache", file="otherXcache.py") == []
    assert set(titles(reader, "cache", since=NOW - dt.timedelta(days=30))) == everything - {"cache a"}
    assert titles(reader, "cache", until=NOW - dt.timedelta(days=30)) == ["cache a"]
    assert len(titles(reader, "cache", limit=2)) == 2


def test_case_R70_only_the_successor_of_a_superseded_memory_is_found(db: Database, reader: Database) -> None:
    new = add(db, "The cache is in Postgres", angle=0)
    add(db, "The cache is in SQLite", angle=0, superseded_by=new)
    assert titles(reader, "where is the cache", vector=direction(0), model_id=MODEL) == [
        "The cache is in Postgres"
    ]


@pytest.mark.parametrize(
    "hidden",
    [
        {"forgotten_at": NOW},
        {"archived_at": NOW},
        {"snoozed_until": NOW + dt.timedelta(days=1)},
    ],
)
@pytest.mark.parametrize("role", ["db", "reader"])
def test_what_is_hidden_is_not_found(
    db: Database, role: str, hidden: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    add(db, "The cache is in SQLite", angle=0, **hidden)
    add(db, "The cache was snoozed once", snoozed_until=NOW - dt.timedelta(days=1))
    asking: Database = request.getfixturevalue(role)
    assert titles(asking, "cache SQLite", vector=direction(0), model_id=MODEL) == [
        "The cache was snoozed once"
    ]


def test_case_R71_every_hit_can_be_opened(db: Database, reader: Database) -> None:
    gone = add(db, "The cache is in SQLite", angle=0)
    add(db, "The cache is in Postgres", angle=1)
    lifecycle.erase(db, gone, NOW)
    hits = search(reader, Question("cache", direction(0), MODEL), NOW)
    assert [memories.show(db, hit.memory.id)[0].title for hit in hits] == ["The cache is in Postgres"]


# ---- meaning


def test_meaning_finds_what_shares_no_word(db: Database, reader: Database) -> None:
    add(db, "Retries back off exponentially", angle=30)
    add(db, "Unrelated", angle=85)
    hits = search(reader, Question("flaky uploads", direction(0), MODEL), NOW)
    assert [hit.memory.title for hit in hits] == ["Retries back off exponentially"]
    assert hits[0].words_rank is None
    assert hits[0].meaning_score == pytest.approx(math.cos(math.radians(30)), abs=1e-4)


def test_a_model_without_an_index_is_compared_exactly(db: Database, reader: Database) -> None:
    memory = add(db, "Retries back off exponentially")
    with db.transaction() as conn:
        conn.execute(
            "insert into embedding values (%s, %s, 'another@2', %s, 'x', %s)",
            (db.owner_id, memory, Vector([1.0, 0.0]), NOW),
        )
    assert titles(reader, "?", vector=[0.8, 0.6], model_id="another@2") == ["Retries back off exponentially"]


def test_a_memory_without_a_vector_is_found_by_words_and_keeps_its_place(
    db: Database, reader: Database
) -> None:
    add(db, "Uploads retry three times")
    add(db, "Downloads retry once", angle=60)
    assert titles(reader, "uploads retry", vector=direction(0), model_id=MODEL) == [
        "Uploads retry three times",
        "Downloads retry once",
    ]


# ---- order


def test_relevance_comes_before_everything_else(db: Database, reader: Database) -> None:
    add(db, "Postgres keeps the price cache warm", at=NOW - dt.timedelta(days=900), confidence=0.1)
    add(db, "Something about a cache", pinned=True, used_count=50, confidence=1.0, at=NOW)
    assert titles(reader, "postgres price cache warm")[0] == "Postgres keeps the price cache warm"


@pytest.mark.parametrize(
    "better",
    [{"pinned": True}, {"used_count": 9}, {"confidence": 1.0}, {"at": NOW}],
    ids=lambda better: next(iter(better)),
)
def test_near_ties_are_broken_by_what_is_known_of_them(
    db: Database, reader: Database, better: dict[str, Any]
) -> None:
    plain: dict[str, Any] = {"at": NOW - dt.timedelta(days=100), "kind": "bugfix", "confidence": 0.5}
    add(db, "Uploads retry alpha", **(plain | better))
    add(db, "Uploads retry omega", **(plain | {"at": NOW - dt.timedelta(days=99)}))
    add(db, "Uploads retry gamma", **plain)
    assert titles(reader, "uploads retry")[0] == "Uploads retry alpha"


def test_preferences_and_dead_ends_do_not_age(db: Database, reader: Database) -> None:
    old = NOW - dt.timedelta(days=2000)
    add(db, "Uploads retry alpha", kind="deadend", at=old)
    add(db, "Uploads retry omega", kind="bugfix", at=NOW - dt.timedelta(days=200))
    hits = search(reader, Question("uploads retry"), NOW)
    assert [hit.memory.kind for hit in hits] == ["deadend", "bugfix"]
    assert hits[0].factors.recency == 1.0
    assert hits[1].factors.recency == pytest.approx(0.5 ** (200 / 60))


@pytest.mark.parametrize("asked", ["latest", "most recent", "current"])
def test_a_question_for_the_latest_is_answered_by_time(db: Database, reader: Database, asked: str) -> None:
    add(db, "Proxy decision: the proxy is Caddy", at=NOW - dt.timedelta(days=50))
    add(db, "Proxy decision: the proxy is Envoy now", at=NOW - dt.timedelta(days=5))
    add(db, "Backups run at night", at=NOW)
    assert (
        titles(reader, f"what is the {asked} proxy decision?")[0] == "Proxy decision: the proxy is Envoy now"
    )


def test_near_copies_go_down_with_and_without_vectors(db: Database, reader: Database) -> None:
    for angle in (0, 0.1, 0.2):
        add(db, f"Uploads retry three times {angle}", angle=angle)
    add(db, "Uploads retry with a delay that grows", angle=25)
    vector = {"vector": direction(5), "model_id": MODEL}
    assert titles(reader, "uploads retry", **vector).index("Uploads retry with a delay that grows") == 1
    with db.transaction() as conn:
        conn.execute("delete from embedding")
    hits = search(reader, Question("uploads retry"), NOW)
    assert hits[1].memory.title == "Uploads retry with a delay that grows"
    assert [hit.factors.copy > 0 for hit in hits] == [False, False, True, True]


def test_explain_shows_each_leg_each_factor_and_the_order_before_and_after(
    db: Database, reader: Database
) -> None:
    add(db, "Uploads retry alpha", angle=10, pinned=True, used_count=3)
    add(db, "Uploads retry omega", angle=10.1)
    answer = explain(
        reader, Question("latest uploads since 2026-11-01?", direction(0), MODEL, zone=dt.UTC), NOW
    )
    assert answer.words == ["uploads"]
    assert answer.since == dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
    assert answer.latest
    first = answer.hits[0]
    assert (first.words_rank, first.meaning_rank) == (1, 1)
    assert first.coverage == pytest.approx(1.0)
    assert (first.factors.after, first.factors.tied, first.factors.pinned, first.factors.used) == (
        1,
        2,
        True,
        3,
    )
    assert {hit.factors.before for hit in answer.hits} == {1, 2}
    assert first.factors.worth > answer.hits[1].factors.worth


# ---- dates


def test_dates_in_a_question_filter(db: Database, reader: Database) -> None:
    add(db, "Uploads were broken in March", at=dt.datetime(2026, 3, 10, tzinfo=dt.UTC))
    add(db, "Uploads were broken last week", at=NOW - dt.timedelta(days=4))
    assert titles(reader, "why were uploads broken in March 2026?", zone=dt.UTC) == [
        "Uploads were broken in March"
    ]
    asked = "why were uploads broken last week?"
    assert titles(reader, asked, zone=dt.UTC) == ["Uploads were broken last week"]
    assert len(titles(reader, asked, zone=dt.UTC, dates=False)) == 2
    assert len(titles(reader, asked, zone=dt.UTC, since=NOW - dt.timedelta(days=400))) == 2


def test_a_question_of_nothing_but_a_time_lists_what_there_is_newest_first(
    db: Database, reader: Database
) -> None:
    for days in (9, 5, 3, 1):
        add(db, f"{days} days ago", at=NOW - dt.timedelta(days=days), angle=days * 20)
    vector = {"vector": direction(0), "model_id": MODEL, "zone": dt.UTC}
    assert titles(reader, "what did we do last week?", **vector) == ["1 days ago", "3 days ago", "5 days ago"]
    assert titles(reader, "what did we do in 2024?", **vector) == []


# ---- nothing makes it fail


HOSTILE = (
    "",
    " ",
    "?!.,;:()[]{}",
    "'",
    "''",
    "\\",
    "\\'",
    "a\\'b",
    "'; drop table memory; --",
    "a & b | !c",
    "foo:*",
    "foo <-> bar",
    "<2>",
    "!!",
    "cache:ABCD",
    "%s %(text)s %%",
    "\0",
    "a\0b",
    "cut \ud83d here",
    "' | ''",
    "the of and",
    "p/",
    "p/00000000-0000-0000-0000-000000000001",
    "🦊 ünïcödé ﷽",
    "\u202e\u200b",
    "1 22 333 1e5 -7 0x1F 1.2.3.4",
    "-- /*::halfvec*/",
)


@pytest.mark.parametrize("text", HOSTILE, ids=repr)
def test_no_question_makes_it_fail(db: Database, reader: Database, text: str) -> None:
    add(db, "The cache is in Postgres", angle=0)
    for vector in (None, direction(90)):
        for projects in (None, [HERE]):
            search(reader, Question(text, vector, MODEL, projects), NOW)
    search(reader, Question("cache", file=text, concept=text, kind=text, layer=text), NOW)


def test_a_megabyte_is_searched_by_its_beginning(db: Database, reader: Database) -> None:
    add(db, "The cache is in Postgres")
    assert titles(reader, "cache " + "lorem ipsum' \\ :* " * 60_000) == []
    assert titles(reader, "cache " + " " * 1_000_000) == ["The cache is in Postgres"]
