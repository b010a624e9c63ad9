"""What the end of a transcript tells: bounded, tolerant."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from recall.transcript import TAIL_LIMIT, Tails, read_tail
from tests.hooking import answer_record, compacted_record, injected_record, transcript

BLOCK = '<cems-memory event="UserPromptSubmit">\nNotes\n- [{}] decision · 2026-11-30: x\n</cems-memory>'
A, B = "aaaaaaaaaa", "bbbbbbbbbb"


def test_shown_memories_and_the_last_answer_are_found(tmp_path: Path) -> None:
    path = transcript(
        tmp_path / "s",
        injected_record(BLOCK.format(A)),
        answer_record("first"),
        injected_record(BLOCK.format(B)),
        answer_record("last"),
    )
    tail = read_tail(path)
    assert (tail.shown, tail.last_answer) == ({A, B}, "last")


@pytest.mark.parametrize(
    "mark",
    [
        compacted_record(),
        {"type": "user", "isCompactSummary": True, "message": {"content": "This session …"}},
    ],
)
def test_a_compaction_ends_what_is_looked_at(tmp_path: Path, mark: dict[str, Any]) -> None:
    path = transcript(
        tmp_path / "s",
        injected_record(BLOCK.format(A)),
        answer_record("old"),
        mark,
        injected_record(BLOCK.format(B)),
    )
    assert read_tail(path).shown == {B}
    quoted = {"type": "user", "message": {"content": json.dumps(compacted_record())}}
    assert read_tail(transcript(tmp_path / "q", injected_record(BLOCK.format(A)), quoted)).shown == {A}


def test_subagents_and_tools_do_not_count(tmp_path: Path) -> None:
    sidechain = injected_record(BLOCK.format(A)) | {"isSidechain": True}
    printed = {"type": "user", "toolUseResult": BLOCK.format(B), "message": {"content": BLOCK.format(B)}}
    said = answer_record("inside") | {"isSidechain": True}
    tail = read_tail(transcript(tmp_path / "s", answer_record("outside"), sidechain, printed, said))
    assert (tail.shown, tail.last_answer) == (set(), "outside")


def test_only_the_end_of_a_large_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "s"
    filler = json.dumps({"type": "user", "message": {"content": "x" * 900_000}}) + "\n"
    with path.open("w") as file:
        file.write(json.dumps(injected_record(BLOCK.format(A))) + "\n")
        for _ in range(60):
            file.write(filler)
        file.write(json.dumps(injected_record(BLOCK.format(B))) + "\n")
    assert path.stat().st_size > 10 * TAIL_LIMIT
    began = time.process_time()
    assert read_tail(str(path)).shown == {B}
    assert time.process_time() - began < 0.3


def test_of_a_known_transcript_what_was_added_is_enough(tmp_path: Path) -> None:
    path, tails = tmp_path / "s", Tails()
    added = [
        injected_record(BLOCK.format(A)),
        answer_record("one"),
        injected_record(BLOCK.format(B)),
        answer_record("two"),
    ]
    added += [compacted_record(), injected_record(BLOCK.format(B)), answer_record("three")]
    written = Path(transcript(tmp_path / "whole", *added)).read_bytes()
    for end in (*range(0, len(written), 37), len(written)):
        path.write_bytes(written[:end])
        assert tails.read(str(path)) == read_tail(str(path)), end
    assert tails.read(str(path)).last_answer == "three"


def test_a_transcript_that_was_written_anew_is_read_anew(tmp_path: Path) -> None:
    path, tails = tmp_path / "s", Tails()
    for text, block in (("one", A), ("another one, which is longer", B), ("short", A)):
        transcript(path, injected_record(BLOCK.format(block)), answer_record(text))
        found = tails.read(str(path))
        assert (found.shown, found.last_answer) == ({block}, text)


@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * 5000, b"{", b"[]\n", b'{"type":"assistant"}\n',
     b'{"type":"assistant","message":{"content":[1,null,{"type":"text"}]}}\n',
     b'\xff{"type":"assistant"}\n', b'{"a":' * 5000 + b'"<cems-memory"'],
)  # fmt: skip
def test_a_damaged_file_is_an_empty_one(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "s"
    path.write_bytes(data)
    tail = read_tail(str(path))
    assert (tail.shown, tail.last_answer) == (set(), "")


def test_what_is_no_file_is_an_empty_one_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (
        None,
        "",
        str(tmp_path),
        str(pipe),
        "/dev/zero",
        "/nowhere",
        "a\0b",
        str(tmp_path / ("x" * 300)),
    ):
        assert read_tail(path).last_answer == ""
