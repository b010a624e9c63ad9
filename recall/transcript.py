"""What the end of a session's transcript tells about the present: which memories it was shown since the last compaction, what
the assistant said last, and what it asked a subagent to do. Reads a bounded stretch from the end, backwards, and decodes
only the lines that can matter. The format is another program's and changes: whatever is not understood is passed over."""

from __future__ import annotations

import dataclasses
import os
import stat
from collections.abc import Iterator
from typing import Any

import msgspec

from recall.block import TAG, shown_ids

TAIL_LIMIT = 4 * 1024 * 1024
"""Bytes from the end that are looked at; what was shown before may be shown again."""
_LINE_LIMIT = 1024 * 1024
_MARK = TAG.encode()
_COMPACTED = (b'"compact_boundary"', b'"isCompactSummary":true')
_ANSWER = b'"type":"assistant"'
_SPAWNERS = ("Task", "Agent")


@dataclasses.dataclass
class Tail:
    """What was found; empty where there was nothing to read."""

    shown: set[str] = dataclasses.field(default_factory=set)
    """Short ids of memories."""
    last_answer: str = ""
    spawned: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    """(agent type, prompt) of the subagents started since the last answer, the latest first."""


def read_tail(path: str | None, limit: int = TAIL_LIMIT) -> Tail:
    """The end of a transcript; a file that is missing, odd or unreadable is an empty one."""
    tail = Tail()
    data = _read(path, limit) if path else b""
    begin = _begin(data)
    for raw in _lines_with(_MARK, data, begin):
        record = _decode(raw)
        # What a tool printed was not given by recall.
        if record is not None and record.get("type") != "assistant" and record.get("toolUseResult") is None:
            for text in _texts(record):
                tail.shown.update(shown_ids(text))
    for raw in _lines_with(_ANSWER, data, begin):
        record = _decode(raw)
        if record is not None and record.get("type") == "assistant":
            _read_answer(record, tail)
        if tail.last_answer:
            break
    return tail


def _read(path: str, limit: int) -> bytes:
    """Whole lines from the end of a file, the last one perhaps without its newline."""
    try:
        # Not blocking: what stands at this path may be a pipe.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError):
        return b""
    try:
        found = os.fstat(fd)
        begin = max(0, found.st_size - limit)
        data = os.pread(fd, limit, begin) if stat.S_ISREG(found.st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(fd)
    return data[data.find(b"\n") + 1 :] if begin else data


def _begin(data: bytes) -> int:
    """Where the last compaction ends."""
    begin = 0
    for mark in _COMPACTED:
        for at, raw in _found(mark, data, begin):
            record = _decode(raw)
            if record is None:
                continue
            if record.get("subtype") == "compact_boundary" or record.get("isCompactSummary") is True:
                begin = max(begin, at + len(raw))
                break
    return begin


def _lines_with(mark: bytes, data: bytes, begin: int) -> Iterator[bytes]:
    return (raw for _, raw in _found(mark, data, begin))


def _found(mark: bytes, data: bytes, begin: int) -> Iterator[tuple[int, bytes]]:
    """(place, line) of each line that holds the mark, from the end backwards. Looks for the mark in the whole, which takes a
    tenth of the time that looking at each line would."""
    end = len(data)
    while (at := data.rfind(mark, begin, end)) >= 0:
        start = data.rfind(b"\n", begin, at) + 1 or begin
        stop = data.find(b"\n", at)
        if (raw := data[start : stop if stop >= 0 else len(data)]) and len(raw) <= _LINE_LIMIT:
            yield start, raw
        end = start


def _decode(raw: bytes) -> dict[str, Any] | None:
    try:
        record = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return record if isinstance(record, dict) and record.get("isSidechain") is not True else None


def _read_answer(record: dict[str, Any], tail: Tail) -> None:
    """The text of one answer, or the subagents it started before it."""
    message = record.get("message")
    blocks = message.get("content") if isinstance(message, dict) else None
    if isinstance(blocks, str):
        blocks = [{"type": "text", "text": blocks}]
    if not isinstance(blocks, list) or tail.last_answer or record.get("isApiErrorMessage") is True:
        return
    for block in blocks:
        if not isinstance(block, dict):
            continue
        given = block.get("input")
        if block.get("type") == "text" and isinstance(block.get("text"), str):
            tail.last_answer = f"{tail.last_answer}\n{block['text']}".strip()
        elif block.get("name") in _SPAWNERS and isinstance(given, dict):
            agent, prompt = given.get("subagent_type"), given.get("prompt")
            if isinstance(prompt, str):
                tail.spawned.append((agent if isinstance(agent, str) else "", prompt))


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    """Every string inside a record."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list) and depth < 8:
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner, depth + 1)
