"""Files that are cut, rewritten or replaced between two looks, or in the middle of one: what is there lands, what landed
before is not landed again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cems.failpoint import armed
from cems.settings import Settings
from db.connect import Connection, Database
from observer import tail
from observer.capture import Capture
from observer.start import capture
from tests.conftest import FakeClock
from tests.fault.sessions import count, landed_uuids, lines, prompt, session_file, uuids, write


@pytest.fixture
def fresh(db: Database, settings: Settings, clock: FakeClock) -> Callable[[], Capture]:
    """An observer's capture as after a restart."""
    return lambda: capture(db, settings, clock)


@pytest.mark.parametrize("kept", [0, 3, 9])
@pytest.mark.parametrize("new", [1, 6, 30])
@pytest.mark.parametrize("replaced", [True, False])
def test_case_C5_rewritten_with_a_partial_line_pending(
    kept: int, new: int, replaced: bool, fresh: Callable[[], Capture], projects: Path, sql: Connection
) -> None:
    old = [prompt(n) for n in range(10)]
    path = write(session_file(projects), *old)
    with path.open("ab") as f:
        f.write(lines(prompt(10))[:50])
    seen = fresh()
    seen.run_pass()
    content = old[:kept] + [prompt(100 + n) for n in range(new)]
    if replaced:
        write(path.with_suffix(".new"), *content).replace(path)
    else:
        write(path, *content)
    seen.run_pass()
    assert sorted(landed_uuids(sql)) == sorted(uuids(old + content[kept:]))
    assert count(sql, 'select "offset" as n from transcript') == path.stat().st_size


def test_case_C5_rewritten_to_the_very_size_it_had(
    fresh: Callable[[], Capture], projects: Path, sql: Connection
) -> None:
    old, new = [prompt(n) for n in range(10, 20)], [prompt(n) for n in range(20, 30)]
    path = write(session_file(projects), *old)
    seen = fresh()
    seen.run_pass()
    size = path.stat().st_size
    write(path, *new)
    assert path.stat().st_size == size
    seen.run_pass()
    assert sorted(landed_uuids(sql)) == sorted(uuids(old + new))


def test_case_C5_a_message_cut_out_between_two_reads_of_one_look(
    fresh: Callable[[], Capture], projects: Path, sql: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second read begins where the first ended; what stands before that place is not what was read."""
    monkeypatch.setattr(tail, "CHUNK", 2048)
    made = [prompt(n) for n in range(30)]
    path = write(session_file(projects), *made)

    def cut_out() -> None:
        armed.clear()
        write(path, made[0], *made[2:], prompt(30))

    armed["after_land_commit"] = cut_out
    try:
        fresh().run_pass()
    finally:
        armed.clear()
    assert set(landed_uuids(sql)) >= set(uuids(made))


def test_case_C5_a_long_unfinished_line_gives_way_to_short_ones(
    fresh: Callable[[], Capture], projects: Path, sql: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How far a line was searched for its end says nothing once something else stands there."""
    monkeypatch.setattr(tail, "CHUNK", 2048)
    monkeypatch.setattr(tail, "LINE_LIMIT", 20_000)
    first = prompt(0)
    path = session_file(projects)
    path.write_bytes(lines(first) + b'{"uuid":"' + b"x" * 15_000)
    seen = fresh()
    seen.run_pass()
    short = [prompt(n) for n in range(1, 20)]
    write(path, first, *short)
    seen.run_pass()
    assert landed_uuids(sql) == uuids([first, *short])
    path.write_bytes(lines(first, *short) + b'{"uuid":"' + b"x" * 25_000)
    seen.run_pass()
    more = [prompt(n) for n in range(20, 120)]
    write(path, first, *short, *more)
    seen.run_pass()
    assert sorted(landed_uuids(sql)) == sorted(uuids([first, *short, *more]))
