"""Reading whole lines after a cursor, and knowing whether the cursor still means what it meant. A transcript may be
truncated, rewritten or replaced between two looks, so its identity is its content: a hash of its first bytes and a hash
of the last bytes before the cursor. Memory is bounded whatever stands in the file."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import stat
from pathlib import Path

from db.ingest import Cursor

CHUNK = 1024 * 1024
"""Bytes read, landed and committed in one go."""
LINE_LIMIT = 32 * 1024 * 1024
"""Bytes of a line; a longer one is counted and skipped. The longest seen in real transcripts is 1.6 MB."""
HEAD = 256
MARKER = 1024
# Histories of appends, truncations and replacements lose nothing with these two lengths; with a marker of 64 bytes they do.


@dataclasses.dataclass(frozen=True)
class Chunk:
    """What one read gave."""

    data: bytes
    """Whole lines, ending in a newline; empty where there is none yet."""
    too_long: int = 0
    """Length of a line over the limit, to be stepped over; `data` is empty then."""
    tail: bytes = b""
    """What stands after the last newline, when the file's end was reached."""
    at_end: bool = False


class TranscriptFile:
    """An open transcript. Opened without following a symlink; only regular files open."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        self.stat = os.fstat(self._fd)
        if not stat.S_ISREG(self.stat.st_mode):
            os.close(self._fd)
            raise OSError(f"not a regular file: {path}")
        self.bytes_read = 0

    def __enter__(self) -> TranscriptFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def still_valid(self, cursor: Cursor) -> bool:
        """Whether the bytes before the cursor are those that were read."""
        if cursor.offset == 0:
            return True
        if os.fstat(self._fd).st_size < cursor.offset:
            return False
        head = self._read(0, cursor.head_length)
        marker = self._read(cursor.offset - cursor.marker_length, cursor.marker_length)
        return _hash(head) == cursor.head and _hash(marker) == cursor.marker

    def read_lines(self, offset: int, searched_to: int = 0) -> tuple[Chunk, int]:
        """Whole lines from `offset` on, one chunk of them, or one line longer than a chunk.

        Args:
            offset: where a line begins.
            searched_to: how far an unfinished long line has been searched for its end before; 0 for not at all.

        Returns:
            The chunk, and how far an unfinished line has been searched now (0 where there is none).
        """
        start = max(offset, searched_to)
        data = self._read(offset, CHUNK) if start == offset else b""
        cut = data.rfind(b"\n") + 1
        if cut:
            at_end = len(data) < CHUNK
            return Chunk(data[:cut], tail=data[cut:] if at_end else b"", at_end=at_end), 0
        if start == offset and len(data) < CHUNK:
            return Chunk(b"", tail=data, at_end=True), 0
        end = self._find_newline(max(start, offset + len(data)))
        if end - offset > LINE_LIMIT and searched_to:
            end = self._find_newline(offset)  # the line may have been rewritten since it was searched
        if end < 0:
            return Chunk(b"", at_end=True), -end
        if end - offset > LINE_LIMIT:
            return Chunk(b"", too_long=end - offset), 0
        data = self._read(offset, end - offset)  # shorter where the file is being truncated
        return Chunk(data[: data.rfind(b"\n") + 1], at_end=not data.endswith(b"\n")), 0

    def _find_newline(self, position: int) -> int:
        """The offset after the next newline, or minus the offset of the file's end."""
        while piece := self._read(position, CHUNK):
            if (found := piece.find(b"\n")) >= 0:
                return position + found + 1
            position += len(piece)
        return -position

    def unfinished(self, offset: int, searched_to: int) -> bytes:
        """An unfinished last line longer than a chunk, up to the limit of a line; empty where there is none."""
        length = searched_to - offset
        return self._read(offset, length) if 0 < length <= LINE_LIMIT else b""

    def last_bytes(self, end: int, length: int) -> bytes:
        """The bytes before `end`; for the marker of a line that is stepped over."""
        return self._read(max(0, end - length), min(end, length))

    def _read(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""
        data = os.pread(self._fd, length, offset)
        self.bytes_read += len(data)
        if len(data) == length or not data:
            return data
        parts = [data]
        done = len(data)
        while done < length and (piece := os.pread(self._fd, length - done, offset + done)):
            parts.append(piece)
            done += len(piece)
            self.bytes_read += len(piece)
        return b"".join(parts)


def advance(cursor: Cursor, start: int, consumed: bytes, length: int, generation: int) -> Cursor:
    """The cursor after `length` bytes from `start`, its hashes taken from the very bytes that were handed on.

    Args:
        consumed: those bytes, or their end where a line was stepped over.
    """
    marker = consumed[-MARKER:]
    head, head_length = cursor.head, cursor.head_length
    if start == 0:
        first = consumed[:HEAD] if len(consumed) == length else b""
        head, head_length = _hash(first), len(first)
    return dataclasses.replace(
        cursor,
        generation=generation,
        offset=start + length,
        head=head,
        head_length=head_length,
        marker=_hash(marker),
        marker_length=len(marker),
    )


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
