"""Killed at any instant, by name of the point and at random: nothing is lost, nothing is doubled; and a write path with the
cursor committed first, which must be found out."""

from __future__ import annotations

from pathlib import Path

import pytest

from db.connect import Connection
from tests.fake_gemini import FakeGemini
from tests.fault.oracle import Verdict, drained, judge
from tests.fault.running import ROOT, arguments, observing, truth_of, writing, written
from tests.waiting import wait_until

pytestmark = pytest.mark.fault
POINTS = (
    "after_read",
    "before_land_commit",
    "after_land_commit",
    "after_claim",
    "after_llm",
    "mid_insert",
    "before_finish_commit",
    "after_finish_commit",
)


def test_every_point_is_in_the_code() -> None:
    source = "".join(p.read_text() for folder in ("db", "observer") for p in (ROOT / folder).glob("*.py"))
    assert [point for point in POINTS if f'failpoint("{point}")' not in source] == []


@pytest.mark.parametrize("point", POINTS)
def test_K1_killed_at_a_point(
    point: str, quick: dict[str, str], projects: Path, tmp_path: Path, sql: Connection
) -> None:
    truth = written(projects, "--seconds", "0.5", "--pace", "0.002", "--damage", "0.05")["files"]
    with observing(quick, tmp_path, "--respawn", "--deaths", "3", "--failpoint", point) as observer:
        wait_until(lambda: observer.deaths >= 3 or observer.process.poll() is not None, 20, "three deaths")
        wait_until(lambda: drained(sql, truth), 20, "all observed after three deaths")
        assert observer.terminate() == 0, observer.tail()
        assert observer.deaths == 3, observer.tail()
    assert (verdict := judge(sql, truth)), verdict


def killed_at_random(
    environment: dict[str, str], projects: Path, folder: Path, sql: Connection, seconds: float, *more: str
) -> tuple[Verdict, int]:
    """The verdict after kills at random times and, less often, at any of the points, while a writer writes."""
    points = arguments(POINTS, 0.02)
    with (
        observing(environment, folder, "--respawn", "--kill-every", "0.25", *points, *more) as observer,
        writing(projects, "--seconds", f"{seconds:g}", "--tombstones", "0.02", "--damage", "0.02") as writer,
    ):
        told = truth_of(writer)
        assert told["removed"] > 5
        observer.harmless()
        wait_until(
            lambda: drained(sql, told["files"]) or observer.process.poll() is not None, 40, "all observed"
        )
        assert observer.terminate() == 0, observer.tail()
        return judge(sql, told["files"]), observer.deaths


def test_K2_killed_at_random(quick: dict[str, str], projects: Path, tmp_path: Path, sql: Connection) -> None:
    verdict, deaths = killed_at_random(quick, projects, tmp_path, sql, 10)
    assert verdict, verdict
    assert deaths > 20


def test_K2_finds_out_a_cursor_that_is_committed_first(
    quick: dict[str, str], projects: Path, tmp_path: Path, sql: Connection, gemini: FakeGemini
) -> None:
    # Between its two commits the broken path dies often enough that it must lose something in this time.
    often = arguments(["before_land_commit"], 0.15)
    verdict, _ = killed_at_random(quick, projects, tmp_path, sql, 5, "--broken", "cursor-first", *often)
    assert verdict.lost, "a test that passes a broken write path proves nothing"
    assert not verdict
