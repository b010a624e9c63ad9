"""What `cems.dates` reads out of questions, and what it leaves alone."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cems.dates import read

ZONE = ZoneInfo("Europe/Berlin")
NOW = dt.datetime(2026, 11, 30, 12, 0, tzinfo=dt.UTC)  # a Monday


def day(text: str | None) -> dt.datetime | None:
    return dt.datetime.fromisoformat(text).replace(tzinfo=ZONE) if text else None


@pytest.mark.parametrize(
    ("question", "since", "until"),
    [
        ("what broke last week?", "2026-11-23", "2026-11-30"),
        ("what did we do yesterday", "2026-11-29", "2026-11-30"),
        ("what happened the day before yesterday", "2026-11-28", "2026-11-29"),
        ("what have we done today?", "2026-11-30", "2026-12-01"),
        ("what did we decide in March 2026?", "2026-03-01", "2026-04-01"),
        ("what did we decide in December?", "2025-12-01", "2026-01-01"),
        ("what happened since 2026-11-01?", "2026-11-01", None),
        ("what happened after 2026-11-01?", "2026-11-02", None),
        ("what did we know before 2025?", None, "2025-01-01"),
        ("what was decided until March 5?", None, "2026-03-06"),
        ("which bug was it two weeks ago?", "2026-11-13", "2026-11-20"),
        ("which bug was it a couple of days ago?", "2026-11-28", "2026-11-29"),
        ("what changed a month ago?", "2026-10-01", "2026-11-01"),
        ("what changed last month?", "2026-10-01", "2026-11-01"),
        ("what changed this year?", "2026-01-01", "2027-01-01"),
        ("what broke last Monday?", "2026-11-23", "2026-11-24"),
        ("what broke on friday?", "2026-11-27", "2026-11-28"),
        ("what changed between March and May 2026?", "2026-03-01", "2026-06-01"),
        ("what changed from 2026-11-01 to 2026-11-05?", "2026-11-01", "2026-11-06"),
        ("what did we do on March 5th, 2025?", "2025-03-05", "2025-03-06"),
        ("what did we do on 5 March?", "2026-03-05", "2026-03-06"),
        ("what did we do the week before August 11, 2026?", "2026-07-28", "2026-08-12"),
        ("what was new last Friday, on 23 January 2026?", "2026-01-23", "2026-01-24"),
        ("was haben wir letzte Woche gemacht?", "2026-11-23", "2026-11-30"),
        ("was war vor zwei Wochen?", "2026-11-13", "2026-11-20"),
        ("was haben wir im März 2026 entschieden?", "2026-03-01", "2026-04-01"),
        ("was ist seit gestern neu?", "2026-11-29", None),
        ("was war am 05.03.2026?", "2026-03-05", "2026-03-06"),
    ],
)
def test_dates_in_questions(question: str, since: str | None, until: str | None) -> None:
    found = read(question, NOW, ZONE)
    assert (found.since, found.until) == (day(since), day(until))


@pytest.mark.parametrize(
    "text",
    [
        "add a test today",
        "since the refactoring, rename the module",
        "why may it fail?",
        "how do we march on?",
        "how is port 2020 used?",
        "is 3 may fail a bug?",
        "what happened on 2026-02-30?",
        "what is in week.py?",
        "what broke? " + "x" * 500 + " yesterday",
    ],
)
def test_what_is_no_date_or_no_question_is_left_alone(text: str) -> None:
    found = read(text, NOW, ZONE)
    assert (found.text, found.since, found.until) == (text, None, None)


def test_the_words_of_the_date_leave_the_text() -> None:
    assert read("why did uploads fail last week?", NOW, ZONE).text.split() == [
        "why",
        "did",
        "uploads",
        "fail",
        "?",
    ]


@pytest.mark.parametrize(
    ("question", "latest"),
    [
        ("what is the latest decision on caching?", True),
        ("what is the most recent migration?", True),
        ("which proxy do we use now?", True),
        ("what is the current version?", True),
        ("was haben wir zuletzt entschieden?", True),
        ("now add a test", False),
        ("why did it fail?", False),
    ],
)
def test_questions_for_the_latest(question: str, latest: bool) -> None:
    assert read(question, NOW, ZONE).latest is latest


def test_a_day_is_the_day_of_the_one_who_asks() -> None:
    late = dt.datetime(2026, 11, 30, 23, 30, tzinfo=dt.UTC)
    found = read("what did we do yesterday?", late, ZONE)
    assert found.since == dt.datetime(2026, 11, 29, 23, 0, tzinfo=dt.UTC)


@pytest.mark.parametrize(("month", "first"), [("2026-03-31", "2026-02-01"), ("2024-12-31", "2024-11-01")])
def test_months_of_other_lengths(month: str, first: str) -> None:
    now = dt.datetime.fromisoformat(month).replace(tzinfo=ZONE)
    assert read("what changed last month?", now, ZONE).since == day(first)


@given(
    st.text(max_size=300),
    st.sampled_from(["what {} last week?", "since {}", "between {} and {}", "vor {} Tagen?"]),
)
def test_nothing_makes_it_fail(text: str, frame: str) -> None:
    found = read(frame.replace("{}", text), NOW, ZONE)
    assert found.since is None or found.until is None or found.since < found.until
