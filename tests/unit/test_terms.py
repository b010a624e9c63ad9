"""What `cems.terms` promises: both sides of keyword search cut texts alike, and identifiers stay whole and come apart."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cems.terms import AROUND_LIMIT, TERMS_LIMIT, WORDS_LIMIT, around, memory_terms, terms, tokens, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("before_compaction", {"beforecompaction", "compaction"}),
        ("handleError", {"handleerror", "handle", "error"}),
        ("HTTPServer2", {"httpserver2", "http", "server"}),
        ("src/db/search.py", {"srcdbsearchpy", "src", "db", "search", "py"}),
        ("E0432", {"e0432"}),
        ("数据库迁移", {"数据", "据库", "库迁", "迁移"}),
        ("テスト", {"テス", "スト"}),
    ],
)
def test_identifiers_and_scripts_without_spaces_give_whole_and_parts(text: str, expected: set[str]) -> None:
    assert expected <= set(terms(text).split())


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("why does before_compaction fail", ["beforecompaction"]),
        ("handleError", ["handleerror"]),
        ("look at db/queries/search.sql", ["dbqueriessearchsql"]),
        ("error E0432", ["e0432"]),
        ("warum größeÄndern scheitert", ["größeändern"]),
        ("a well-known and/or plain text, e.g. this", []),
    ],
)
def test_what_counts_as_an_identifier_in_a_question(text: str, named: list[str]) -> None:
    assert [word.text for word in words(text) if word.identifier] == named


def test_a_sentence_without_spaces_is_asked_for_by_its_pairs() -> None:
    assert [word.text for word in words("数据库怎么迁移")] == ["数据", "据库", "库怎", "怎么", "么迁", "迁移"]


def test_stop_words_and_remains_of_apostrophes_are_not_asked_for() -> None:
    assert [word.text for word in words("What's the user's first file?")] == ["user", "first", "file"]


def test_a_long_question_keeps_its_identifiers() -> None:
    text = " ".join(f"word{chr(97 + i % 26)}{chr(97 + i // 26)}" for i in range(200)) + " before_compaction"
    found = words(text)
    assert len(found) == WORDS_LIMIT
    assert found[0].text == "beforecompaction"


def test_every_word_of_a_question_finds_the_memory_that_says_the_same() -> None:
    for text in (
        "fix handleError in src/app.ts",
        "ECONNREFUSED 10.0.0.1:5432",
        "価格キャッシュ",
        "naïve façade",
        "größeÄndern in Übersicht.java",
        "cafe\u0301 Ошибка обработатьОшибку",
    ):
        assert {word.text for word in words(text)} <= set(memory_terms(text, "").split()), text


def test_a_memory_is_found_by_its_month_and_its_files() -> None:
    found = memory_terms("Title", "body", ["src/app.py"], dt.datetime(2026, 3, 5, tzinfo=dt.UTC)).split()
    assert {"march", "2026", "app", "srcapppy"} <= set(found)


def test_around_begins_with_what_came_before_and_shares_its_room() -> None:
    assert around("why?\n now", "because") == "why? now\nbecause"
    assert around("", "after") == "\nafter"
    assert around("") == ""
    assert len(around("a" * 5000, "b" * 5000, "c" * 5000)) <= AROUND_LIMIT


@given(st.text(max_size=400))
def test_any_text_gives_storable_terms_within_the_limit(text: str) -> None:
    assert len(terms(text, text * 3)) <= TERMS_LIMIT
    assert "\0" not in terms(text)
    assert len(words(text)) <= WORDS_LIMIT


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("gelöst", ["gelöst"]),
        ("Größe", ["größe"]),
        ("naïve", ["naïve"]),
        ("größeÄndern", ["größeändern", "größe", "ändern"]),
        ("handleError", ["handleerror", "handle", "error"]),
        ("HTTPServer2", ["httpserver2", "http", "server"]),
        ("обработатьОшибку", ["обработатьошибку", "обработать", "ошибку"]),
        ("ΛάθοςΔικτύου", ["λάθοςδικτύου", "λάθος", "δικτύου"]),
        ("été2026", ["été2026", "été", "2026"]),
        ("ÄndereXMLDatei", ["änderexmldatei", "ändere", "xml", "datei"]),
        ("gelo\u0308st", ["gelöst"]),
    ],
)
def test_humps_of_every_alphabet(text: str, found: list[str]) -> None:
    assert tokens(text) == found
