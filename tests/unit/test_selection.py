"""What a session's start chooses, in which order, and how its sections share the room; and what counts as said already."""

from __future__ import annotations

import dataclasses
import datetime as dt
import os
import random
import uuid
from pathlib import Path

import pytest

from cems.models import Kind, Memory
from db.context import Candidate
from db.usage import acted
from recall import selection
from recall.block import Section, fence
from recall.selection import Words
from recall.session_neighbours import Place, lines

DAY = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
PLAIN = Memory(
    id=uuid.UUID(int=0),
    layer="observation",
    kind="decision",
    title="",
    body="",
    concepts=(),
    files=(),
    project="app",
    confidence=0.9,
    origin="user",
    author="rules",
    occurred_at=DAY,
    recorded_at=DAY,
    seen_count=1,
    state="active",
)


def candidate(
    number: int,
    title: str,
    *,
    day: int = 0,
    used: int = 0,
    seen: int = 1,
    pinned: bool = False,
    kind: Kind = "decision",
    confidence: float = 0.9,
) -> Candidate:
    memory = dataclasses.replace(
        PLAIN,
        id=uuid.UUID(int=number),
        title=title,
        kind=kind,
        occurred_at=DAY + dt.timedelta(days=day),
        seen_count=seen,
        confidence=confidence,
    )
    return Candidate(memory, used, pinned)


def titles(candidates: list[Candidate]) -> list[str]:
    return [c.memory.title for c in candidates]


@pytest.mark.parametrize(
    ("line", "title", "same"),
    [
        ("- Always use uv for Python packages, never pip.", "Always use uv, never pip", True),
        ("Run the tests before each commit", "run test before commits", True),
        ("Do not use tabs here", "Use tabs here", False),
        ("Use tabs here", "Don't use tabs here", False),
        ("The port is 5432", "The port is 5433", False),
        (
            "Deploy on Tuesdays from the release branch with two reviews",
            "Deploy Tuesdays release branch reviews today",
            True,
        ),
        ("The port of the staging server is 8080", "Port of the staging server is 8081 since May", False),
        ("Use uv", "Use ruff", False),
        ("", "Use ruff", False),
        ("anything", "", False),
    ],
)
def test_a_line_says_a_title_when_its_words_are_there(line: str, title: str, same: bool) -> None:
    assert Words.of(line).says(Words.of(title)) is same
    kept = selection.unsaid([candidate(1, title or "-")], [Words.of("other words"), Words.of(line)])
    assert bool(kept) is not same or not title


def test_newest_first_where_nothing_was_used() -> None:
    several = [candidate(i, f"alpha{i} beta{i}", day=i) for i in range(5)]
    assert titles(selection.ranked(several)) == [f"alpha{i} beta{i}" for i in (4, 3, 2, 1, 0)]


def test_what_was_used_rises_and_what_is_pinned_leads() -> None:
    several = [candidate(i, f"alpha{i} beta{i}", day=i) for i in range(30)]
    several[2] = candidate(2, "used one", day=2, used=4)
    several[5] = candidate(5, "pinned one", day=5, pinned=True)
    several[8] = candidate(8, "often said", day=8, seen=5)
    found = titles(selection.ranked(several))
    assert found[0] == "pinned one"
    assert found.index("used one") < 5 and found.index("often said") < 8


def test_the_order_does_not_depend_on_the_order_of_the_candidates() -> None:
    several = [candidate(i, f"alpha{i} beta{i}", day=i // 3, used=i % 4) for i in range(40)]
    wanted = titles(selection.ranked(several))
    for seed in range(5):
        random.Random(seed).shuffle(several)
        assert titles(selection.ranked(several)) == wanted


def test_a_memory_that_only_repeats_a_better_one_is_left_out() -> None:
    several = [
        candidate(1, "Use uv for packages in this repository", day=3),
        candidate(2, "Use uv for packages", day=2),
        candidate(3, "Use uv for packages", day=1, kind="deadend"),
        candidate(4, "Never use uv for packages", day=0),
    ]
    assert [c.memory.id.int for c in selection.ranked(several)] == [1, 3, 4]


@pytest.mark.parametrize(
    ("everywhere", "project", "limit", "wanted"),
    [
        (50, 50, 30, (10, 20)),
        (2, 50, 30, (2, 28)),
        (50, 5, 30, (25, 5)),
        (3, 3, 0, (0, 0)),
        (9, 9, 1, (1, 0)),
    ],
)
def test_places_are_shared_between_what_holds_everywhere_and_here(
    everywhere: int, project: int, limit: int, wanted: tuple[int, int]
) -> None:
    assert selection.shares(everywhere, project, limit) == wanted


def test_each_section_gets_its_share_and_the_rest_is_used() -> None:
    long, short = Section("long", ["x" * 99] * 50), Section("short", ["y" * 99] * 2)
    found = selection.fit([(long, 3.0), (short, 1.0)], 2000)
    assert [s.heading for s in found] == ["long", "short"]
    assert len(found[1].items) == 2 and len(found[0].items) == 17
    assert selection.fit([(long, 1.0), (short, 1.0)], 50) == []


@pytest.mark.parametrize("seed", range(20))
def test_what_fits_is_what_the_fence_writes(seed: int) -> None:
    dice = random.Random(seed)
    sections = [
        (
            Section(
                "<h>" * dice.randint(0, 10),
                ["- " + dice.choice("x日é") * dice.randint(1, 500) for _ in range(dice.randint(0, 40))],
            ),
            1.0 + i,
        )
        for i in range(4)
    ]
    tokens = dice.randint(100, 3000)
    room = min(9000, int(tokens * 3.5)) - len(fence([], "SessionStart", tokens=tokens))
    found = selection.fit(sections, room)
    text = fence(found, "SessionStart", tokens=tokens)
    assert len(text) <= max(min(9000, tokens * 3.5), len(fence([], "SessionStart", tokens=tokens)))
    assert text.count("\n- ") == sum(len(s.items) for s in found)
    for section in found:
        whole = next(s for s, _ in sections if s.items[: len(section.items)] == section.items)
        assert section.items == whole.items[: len(section.items)]


def said(tmp_path: Path, cwd: Path, title: str, **more: str) -> bool:
    place = Place(str(cwd), str(cwd), config_dirs=(tmp_path / "config",), **more)
    return not selection.unsaid([candidate(1, title)], lines(place))


def test_every_file_that_claude_code_reads_is_looked_at(tmp_path: Path) -> None:
    cwd = tmp_path / "repo" / "sub"
    cwd.mkdir(parents=True)
    name = "".join(c if c.isascii() and c.isalnum() else "-" for c in str(cwd))
    places = {
        "one": cwd / "CLAUDE.md",
        "two": tmp_path / "repo" / "CLAUDE.md",
        "three": tmp_path / "repo" / ".claude" / "CLAUDE.md",
        "four": tmp_path / "repo" / "CLAUDE.local.md",
        "five": cwd / ".claude" / "rules" / "style" / "python.md",
        "six": tmp_path / "config" / "CLAUDE.md",
        "seven": tmp_path / "config" / "projects" / name / "memory" / "MEMORY.md",
        "eight": tmp_path / "repo" / "docs" / "imported.md",
        "nine": tmp_path / "transcripts" / "memory" / "notes.md",
    }
    for word, path in places.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Heading\n\n- Prefer {word} spaces\n")
    with places["two"].open("a") as f:
        f.write("See @docs/imported.md and `@nothing.md`.\n")
    transcript = str(tmp_path / "transcripts" / "s.jsonl")
    for word in places:
        assert said(tmp_path, cwd, f"Prefer {word} spaces", transcript_path=transcript), word
    assert not said(tmp_path, cwd, "Prefer ten spaces", transcript_path=transcript)


def test_a_sentence_that_runs_over_two_lines_counts_and_two_items_do_not(tmp_path: Path) -> None:
    (tmp_path / "CLAUDE.md").write_text(
        "- Releases are made by the\n  pipeline alone\n- Use gamma\n- and delta\n"
    )
    assert said(tmp_path, tmp_path, "Releases are made by pipeline alone")
    assert not said(tmp_path, tmp_path, "Use gamma and delta")


def test_odd_files_neither_block_nor_fail(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "CLAUDE.md")
    (tmp_path / "CLAUDE.local.md").mkdir()
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "CLAUDE.md").write_bytes(
        b"\xff\0@CLAUDE.md @/dev/zero @~/nothing\n" + b"x" * 200_000
    )
    assert lines(Place(str(tmp_path), "", "relative.jsonl")) and lines(Place("C:\\work", "")) is not None


@pytest.mark.parametrize(
    ("said_words", "is_use"),
    [
        ("the checkout queue drains before webhook retries", True),
        ("the checkout queue", False),
        ("queue drains before retries", False),
        ("unrelated words entirely about something different", False),
    ],
)
def test_acting_upon_a_memory_needs_most_of_its_title_and_more(said_words: str, is_use: bool) -> None:
    title = {"checkout", "queue", "drains"}
    distinctive = title | {"webhook", "retries", "stripe"}
    assert acted(title, distinctive, frozenset(said_words.split())) is is_use
