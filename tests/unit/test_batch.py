"""Where a session's waiting lines are cut."""

from __future__ import annotations

import uuid

from db.connect import Row
from observer.batch import cut

SIZE = 1000


def lines(*kinds: str, size: int = 100) -> list[Row]:
    """Rows of these kinds; `boundary:clear` is a boundary."""
    found = []
    for kind in kinds:
        kind, _, boundary = kind.partition(":")
        found.append({"uuid": uuid.uuid4(), "kind": kind, "bytes": size, "boundary": boundary or None})
    return found


TURN = ("prompt", "call", "result", "answer")


def test_case_C29_the_open_turn_is_held_back() -> None:
    rows = lines(*TURN * 3, "prompt")
    parts = cut(rows, None, SIZE, None)
    assert [len(p.lines) for p in parts] == [12] and parts[0].closed_by == "size"
    assert cut(lines("prompt"), None, SIZE, None) == []


def test_case_C29_an_answer_is_never_without_its_question() -> None:
    rows = lines("prompt", *("call", "result") * 50)
    parts = cut(rows, None, SIZE, "idle")
    assert len(parts) > 1
    assert parts[0].question is None
    assert all(p.question == rows[0]["uuid"] for p in parts[1:])
    assert all(p.lines[0]["kind"] != "result" for p in parts)
    assert [r for p in parts for r in p.lines] == rows


def test_the_question_of_an_earlier_batch_is_shown_again() -> None:
    asked = uuid.uuid4()
    parts = cut(lines("answer", "prompt", "answer"), asked, SIZE, "end")
    assert [p.question for p in parts] == [asked]
    assert cut(lines("prompt", "answer"), asked, SIZE, "end")[0].question is None


def test_boundaries_close_what_stands_before_them() -> None:
    rows = lines(*TURN, "boundary:compaction", "answer", *TURN, "boundary:clear", "prompt")
    parts = cut(rows, None, SIZE, None)
    assert [p.closed_by for p in parts] == ["compaction", "clear"]
    assert parts[1].question == rows[0]["uuid"]
    assert sum(len(p.lines) for p in parts) == len(rows) - 1


def test_small_turns_gather_up_to_the_size() -> None:
    rows = lines(*TURN * 7)
    parts = cut(rows, None, SIZE, "idle")
    assert [len(p.lines) for p in parts] == [12, 12, 4]
    assert [p.closed_by for p in parts] == ["size", "size", "idle"]


def test_nothing_waiting_gives_nothing() -> None:
    assert cut([], None, SIZE, "once") == []
