"""What the end of a session's transcript tells about the present: which memories it was shown since the last compaction, what
the assistant said last, and what it asked a subagent to do. Reads a bounded stretch from the end, backwards, and decodes
only the lines that can matter; of a transcript that it knows, only what was added. The format is another program's and
changes: whatever is not understood is passed over."""

from __future__ import annotations

import collections
import dataclasses
import os
import stat
import threading
from collections.abc import Iterator
from typing import Any

import msgspec

from recall.block import TAG, shown_ids

TAIL_LIMIT = 4 * 1024 * 1024
"""Bytes from the end that are looked at; what was shown before may be shown again."""
_LINE_LIMIT = 1024 * 1024
_KNOWN = 64
"""Transcripts that are remembered."""
_SEAM = 256
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


class Tails:
    """The transcripts that were looked at last, so that of each only what was added is read again. Safe to share between
    threads."""

    def __init__(self, limit: int = TAIL_LIMIT) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._known: collections.OrderedDict[str, _Read] = collections.OrderedDict()

    def read(self, path: str | None) -> Tail:
        """The end of a transcript; a file that is missing, odd or unreadable is an empty one."""
        if not path:
            return Tail()
        with self._lock:
            known = self._known.get(path)
        data, before = _read(path, self._limit, known)
        whole = data.rfind(b"\n") + 1
        tail = _look(data[:whole] if whole < len(data) else data, before.tail)
        with self._lock:
            self._known[path] = before.further(data[:whole], tail)
            self._known.move_to_end(path)
            if len(self._known) > _KNOWN:
                self._known.popitem(last=False)
        return _look(data[whole:], tail) if whole < len(data) else tail


def read_tail(path: str | None, limit: int = TAIL_LIMIT) -> Tail:
    """The end of a transcript that is looked at once."""
    return Tails(limit).read(path)


@dataclasses.dataclass(frozen=True)
class _Read:
    """How far a transcript was read, and what was found."""

    file: tuple[int, int] = (0, 0)
    """Device and number: another file has others."""
    end: int = 0
    """Bytes; a line ends here."""
    seam: bytes = b""
    """The last bytes before: a file that was written anew has others."""
    tail: Tail = dataclasses.field(default_factory=Tail)

    def further(self, data: bytes, tail: Tail) -> _Read:
        """After whole lines more."""
        seam = data[-_SEAM:] if len(data) >= _SEAM else (self.seam + data)[-_SEAM:]
        return _Read(self.file, self.end + len(data), seam, tail)


def _read(path: str, limit: int, known: _Read | None) -> tuple[bytes, _Read]:
    """Whole lines, the last one perhaps without its newline, and what they continue: what is known of this file, or nothing,
    and then they are those of its end."""
    nothing = b"", _Read()
    try:
        # Not blocking: what stands at this path may be a pipe.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError):
        return nothing
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return nothing
        file = found.st_dev, found.st_ino
        if known and known.file == file and known.end <= found.st_size <= known.end + limit:
            seam = len(known.seam)
            data = os.pread(fd, limit + seam, known.end - seam)
            if data[:seam] == known.seam:
                return data[seam:], known
        begin = max(0, found.st_size - limit)
        data = os.pread(fd, limit, begin)
    except OSError:
        return nothing
    finally:
        os.close(fd)
    skipped = data.find(b"\n") + 1 if begin else 0
    return data[skipped:], _Read(file, begin + skipped)


def _look(data: bytes, before: Tail) -> Tail:
    """What lines add to what was found before them; after a compaction that is nothing."""
    begin = _begin(data)
    tail = Tail() if begin else Tail(set(before.shown))
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
    if not begin and not tail.last_answer:
        tail.last_answer = before.last_answer
        tail.spawned += before.spawned
    return tail


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
