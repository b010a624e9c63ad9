"""What stands in the transcripts on disk beyond what the database has, without reading it all: for the estimate of a backfill
and for telling whether the observer keeps up."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path

from cems.settings import Settings
from db.ingest import Cursor
from observer.scan import Found, roots, scan

_LINE_SEARCHED = 1024 * 1024
"""Bytes in which an unread line's end is looked for."""


@dataclasses.dataclass(frozen=True)
class Unread:
    """A transcript with bytes that were not landed."""

    found: Found
    offset: int
    bytes: int


@dataclasses.dataclass(frozen=True)
class Disk:
    """The transcripts on disk, compared with the cursors."""

    files: int
    bytes: int
    newest: dt.datetime | None
    """When a transcript was last written."""
    unread: Sequence[Unread]

    @property
    def unread_bytes(self) -> int:
        """Bytes not landed."""
        return sum(one.bytes for one in self.unread)

    def behind(self, now: dt.datetime) -> float:
        """Seconds for which the oldest whole line has not been landed, as far as its file's time tells; 0: none waits."""
        waiting = [one for one in self.unread if has_whole_line(one)]
        oldest = min((one.found.modified_ns for one in waiting), default=None)
        return max(0.0, now.timestamp() - oldest / 1e9) if oldest is not None else 0.0


def look(settings: Settings, cursors: Mapping[str, Cursor], *, written_since: float = 0.0) -> Disk:
    """Compare what is on disk with the cursors; `written_since` (Unix time) leaves out older files."""
    files, total, newest, unread = 0, 0, 0, []
    for root in roots(settings.claude_dirs()):
        for found in scan(root, lambda _path, _error: None):
            if found.modified_ns < written_since * 1e9:
                continue
            files += 1
            total += found.size
            newest = max(newest, found.modified_ns)
            cursor = cursors.get(found.path)
            offset = cursor.offset if cursor and cursor.offset <= found.size else 0
            # An unfinished last line that was looked at once is not news.
            if found.size > offset and not (
                cursor and cursor.size == found.size and cursor.inode == found.inode
            ):
                unread.append(Unread(found, offset, found.size - offset))
    return Disk(files, total, dt.datetime.fromtimestamp(newest / 1e9, dt.UTC) if newest else None, unread)


def has_whole_line(one: Unread) -> bool:
    """Whether the unread bytes hold a line's end; a line too long to tell counts as one."""
    try:
        with Path(one.found.path).open("rb") as file:
            file.seek(one.offset)
            data = file.read(_LINE_SEARCHED)
    except OSError:
        return False
    return b"\n" in data or len(data) == _LINE_SEARCHED
