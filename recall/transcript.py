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
    for raw in reversed(_lines(path, limit)) if path else ():
        compacted = any(mark in raw for mark in _COMPACTED)
        wanted = compacted or _MARK in raw or (not tail.last_answer and b'"assistant"' in raw)
        if not wanted or len(raw) > _LINE_LIMIT:
            continue
        record = _decode(raw)
        if record is None or record.get("isSidechain") is True:
            continue
        if record.get("subtype") == "compact_boundary" or record.get("isCompactSummary") is True:
            break
        if record.get("type") == "assistant":
            _read_answer(record, tail)
        elif (
            _MARK in raw and record.get("toolUseResult") is None
        ):  # what a tool printed was not given by recall
            for text in _texts(record):
                tail.shown.update(shown_ids(text))
    return tail


def _lines(path: str, limit: int) -> list[bytes]:
    try:
        # Not blocking: what stands at this path may be a pipe.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError):
        return []
    try:
        found = os.fstat(fd)
        begin = max(0, found.st_size - limit)
        data = os.pread(fd, limit, begin) if stat.S_ISREG(found.st_mode) else b""
    except OSError:
        return []
    finally:
        os.close(fd)
    lines = data.split(b"\n")
    return lines[1:] if begin else lines


def _decode(raw: bytes) -> dict[str, Any] | None:
    try:
        record = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


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
