"""Capture: look at every transcript, read what is new, land it. One `Capture` is one observer's view of its machine: the
cursors, what each file looked like last time, and which files cannot be read. The database's cursor is the truth; after
any doubt it is read again."""

from __future__ import annotations

import collections
import dataclasses
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import structlog

from cems.clock import Clock
from cems.errors import LostRace
from cems.failpoint import failpoint
from cems.ids import derived
from cems.redact import Redactor
from db import ingest
from db.connect import REFUSALS, Database
from db.ingest import Cursor, Landing, SetAside
from observer import tail
from observer.land import Lines, Projects, Session, State
from observer.records import decode
from observer.scan import Found, as_text, scan
from observer.tail import Chunk, TranscriptFile

log = structlog.get_logger()
_STATES = 512
"""Transcripts whose recent tool calls are kept in memory; older ones ask the database."""


@dataclasses.dataclass
class Report:
    """What passes over the transcripts brought."""

    transcripts: int = 0
    """Transcripts seen on disk by the last pass."""
    lines_landed: int = 0
    lines_skipped: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    bytes: int = 0
    """Bytes of transcript consumed."""
    bytes_read: int = 0
    """Bytes read from disk, checks of identity included."""
    unreadable: int = 0
    rewound: int = 0
    set_aside: int = 0


@dataclasses.dataclass
class _Seen:
    """What a file looked like when it was last dealt with."""

    cursor: Cursor
    size: int = -1
    modified_ns: int = -1
    inode: int = -1
    searched_to: int = 0
    tail_size: int = -1
    """Size at which the unfinished last line was landed or looked at."""

    def unchanged(self, found: Found) -> bool:
        return (self.size, self.modified_ns, self.inode) == (found.size, found.modified_ns, found.inode)


class Capture:
    """Lands what is new in the transcripts below some roots."""

    def __init__(
        self,
        db: Database,
        machine: uuid.UUID,
        transcript_roots: list[Path],
        redactor: Redactor,
        clock: Clock,
        *,
        excluded: Callable[[str], bool] | None = None,
        written_since: float = 0.0,
    ) -> None:
        """Args:
        excluded: whether sessions in a folder are never read.
        written_since: transcripts last written before this Unix time are left out.
        """
        self.report = Report()
        self._db = db
        self._machine = machine
        self._roots = transcript_roots
        self._redactor = redactor
        self._clock = clock
        self._written_since_ns = int(written_since * 1e9)
        self._projects = Projects(machine, excluded)
        self._seen: dict[str, _Seen] | None = None
        self._states: collections.OrderedDict[str, Lines] = collections.OrderedDict()
        self._complained: set[str] = set()

    def run_pass(
        self,
        *,
        once: bool = False,
        stop: threading.Event | None = None,
        progress: Callable[[int], None] = lambda _bytes: None,
    ) -> int:
        """One look at every transcript; returns how many lines landed.

        Args:
            once: land an unfinished last line at first sight when it is a whole record.
            stop: ends the pass between two chunks.
            progress: told the bytes consumed since the last call.

        Raises:
            psycopg.OperationalError and the like (see db.connect.OUTAGES): nothing is lost, run again.
        """
        if self._seen is None:
            self._seen = {
                path: _Seen(c, c.size, c.modified_ns, c.inode)
                for path, c in ingest.cursors(self._db, self._machine).items()
            }
        self._projects.look_again()
        before = self.report.lines_landed
        present = 0
        for root in self._roots:
            for found in self._scan(root):
                present += 1
                if stop is not None and stop.is_set():
                    break
                self._one(found, once, progress)
        self.report.transcripts = present
        return self.report.lines_landed - before

    def pending_bytes(self) -> int:
        """Bytes on disk beyond the cursors, without reading them."""
        seen = self._seen or {path: _Seen(c) for path, c in ingest.cursors(self._db, self._machine).items()}
        total = 0
        for root in self._roots:
            for found in self._scan(root):
                known = seen.get(found.name)
                total += max(0, found.size - (known.cursor.offset if known else 0))
        return total

    def forget_cursors(self) -> None:
        """Read the cursors anew at the next pass; after another process may have moved them."""
        self._seen = None
        self._states.clear()

    def _scan(self, root: Path) -> Iterator[Found]:
        return (f for f in scan(root, self._complain) if f.modified_ns >= self._written_since_ns)

    # ---- one transcript

    def _one(self, found: Found, once: bool, progress: Callable[[int], None]) -> None:
        assert self._seen is not None
        seen = self._seen.get(found.name)
        if seen is None:
            seen = self._seen[found.name] = _Seen(self._new_cursor(found))
        if seen.unchanged(found) and (seen.cursor.offset == found.size or seen.tail_size == found.size):
            return
        try:
            with TranscriptFile(Path(found.path)) as file:
                try:
                    self._read(file, found, seen, once, progress)
                finally:
                    self.report.bytes_read += file.bytes_read
        except LostRace:
            log.warning("cursor moved by another observer", transcript=str(seen.cursor.id))
            self._reload(found, seen)
        except OSError as error:
            self._complain(found.path, error)
        else:
            self._complained.discard(found.path)

    def _read(
        self, file: TranscriptFile, found: Found, seen: _Seen, once: bool, progress: Callable[[int], None]
    ) -> None:
        start = seen.cursor.offset
        quiet = seen.unchanged(found)
        if not quiet and found.size <= seen.searched_to:
            seen.searched_to = 0  # it did not grow: what was searched is something else by now
        while True:
            chunk, searched_to = file.read_lines(start, seen.searched_to)
            failpoint("after_read")
            # Looked at after each read, not once before all of them: a rewrite between two chunks would otherwise pass for
            # what was read, with all that the new content has before this place unseen.
            if start and not file.still_valid(seen.cursor):
                self._rewind(found, seen)
                start = 0
                continue
            seen.searched_to = searched_to
            length = chunk.too_long or len(chunk.data)
            if not length:
                break
            consumed = chunk.data or file.last_bytes(start + length, tail.MARKER)
            after = tail.advance(seen.cursor, start, consumed, length, seen.cursor.generation)
            self._land(found, seen, after, chunk, start)
            start = after.offset
            self.report.bytes += length
            progress(length)
            if chunk.at_end:
                break
        if (once or quiet) and seen.tail_size != found.size:
            if unfinished := chunk.tail or file.unfinished(start, seen.searched_to):
                self._land_tail(found, seen, unfinished, start)
            seen.tail_size = found.size
        seen.size, seen.modified_ns, seen.inode = found.size, found.modified_ns, found.inode

    def _land(self, found: Found, seen: _Seen, after: Cursor, chunk: Chunk, start: int) -> None:
        lines = self._lines(found, seen.cursor)
        landing = Landing(seen.cursor, after)
        if chunk.too_long:
            skipped = collections.Counter(too_long=1)
            landing.set_aside = [SetAside(start, chunk.too_long, after.marker, "too_long", "")]
        else:
            skipped = lines.take(chunk.data, start, landing, self._clock.now())
        try:
            self._commit(found, seen, landing, skipped, lines)
        except REFUSALS as error:
            if chunk.too_long:
                raise
            self._land_in_parts(found, seen, chunk.data, start, after.generation, type(error).__name__)

    def _land_in_parts(
        self, found: Found, seen: _Seen, data: bytes, start: int, generation: int, reason: str
    ) -> None:
        """Lines among which one holds what the database refuses: the others land, that one is set aside."""
        self._states.pop(found.path, None)
        cut = data.find(b"\n", len(data) // 2, len(data) - 1) + 1 or data.rfind(b"\n", 0, len(data) // 2) + 1
        if cut:
            for part, offset in ((data[:cut], start), (data[cut:], start + cut)):
                after = tail.advance(seen.cursor, offset, part, len(part), generation)
                self._land(found, seen, after, Chunk(part), offset)
            return
        log.warning("line set aside", transcript=str(seen.cursor.id), offset=start, reason=reason)
        after = tail.advance(seen.cursor, start, data, len(data), generation)
        lines = self._lines(found, seen.cursor)
        aside = lines.refused(data, start)
        landing = Landing(seen.cursor, after, set_aside=[aside])
        self._commit(found, seen, landing, collections.Counter({aside.reason: 1}), lines)

    def _rewind(self, found: Found, seen: _Seen) -> None:
        """Begin a new generation of a transcript that is no longer what was read: committed before anything is read again,
        so that a restart does not find the same out once more."""
        log.info("transcript was rewritten; reading it again", transcript=str(seen.cursor.id))
        self._states.pop(found.path, None)
        seen.searched_to = 0
        blank = Cursor(seen.cursor.id, self._machine, found.name, seen.cursor.session_id)
        rewound = dataclasses.replace(
            blank,
            generation=seen.cursor.generation + 1,
            landed=seen.cursor.landed,
            skipped=seen.cursor.skipped,
        )
        ingest.land(self._db, Landing(seen.cursor, rewound), self._clock.now())
        seen.cursor = rewound
        self.report.rewound += 1

    def _land_tail(self, found: Found, seen: _Seen, unfinished: bytes, start: int) -> None:
        """Land a last line that has no newline yet but is whole. The cursor stays before it: when the newline comes the
        line is read again and is a copy."""
        if seen.cursor.offset != start:
            return
        lines = self._lines(found, seen.cursor)
        landing = Landing(seen.cursor, seen.cursor)
        skipped = lines.take_tail(unfinished, start, landing, self._clock.now())
        if skipped is not None:
            self._commit(found, seen, landing, skipped, lines)

    def _commit(
        self, found: Found, seen: _Seen, landing: Landing, skipped: collections.Counter[str], lines: Lines
    ) -> None:
        landing.after = dataclasses.replace(
            landing.after,
            size=found.size,
            inode=found.inode,
            modified_ns=found.modified_ns,
            skipped=dict(collections.Counter(landing.after.skipped) + skipped),
            state=msgspec.to_builtins(lines.state),
        )
        landed = ingest.land(self._db, landing, self._clock.now())
        copies = landing.row_count - landed
        if copies:
            skipped["copy"] += copies
            landing.after = dataclasses.replace(
                landing.after,
                skipped=dict(collections.Counter(landing.after.skipped) + collections.Counter(copy=copies)),
            )
        seen.cursor = landing.after
        self.report.lines_landed += landed
        self.report.lines_skipped.update(skipped)
        self.report.set_aside += len(landing.set_aside)

    # ---- what is remembered of a transcript

    def _lines(self, found: Found, cursor: Cursor) -> Lines:
        lines = self._states.get(found.path)
        if lines is None:
            session = self._session(found)
            fresh = cursor.offset == 0
            lines = Lines(
                session,
                self._redactor,
                self._projects,
                State() if fresh else msgspec.convert(cursor.state, State),
                recalled=lambda call_id: ingest.landed_call(self._db, cursor.id, call_id),
            )
            self._states[found.path] = lines
            if len(self._states) > _STATES:
                self._states.popitem(last=False)
        else:
            self._states.move_to_end(found.path)
        return lines

    def _new_cursor(self, found: Found) -> Cursor:
        transcript = derived("transcript", str(self._machine), found.name)
        return Cursor(transcript, self._machine, found.name, self._session(found).id)

    def _session(self, found: Found) -> Session:
        """The session a transcript's place names."""
        name = found.session or self._parent_of(found.path)
        return Session(name, found.agent, str(Path(found.name).parent), self._machine)

    def _parent_of(self, path: str) -> str:
        """The parent session's name of an old subagent file, which only its records name."""
        try:
            with TranscriptFile(Path(path)) as file:
                chunk, _ = file.read_lines(0)
        except OSError:
            return Path(path).stem
        for raw in (chunk.data or chunk.tail).split(b"\n")[:20]:
            for record in decode(raw):
                if record.sessionId:
                    return self._redactor.redact(record.sessionId[:200])
        return Path(path).stem

    def _reload(self, found: Found, seen: _Seen) -> None:
        stored = ingest.cursor(self._db, seen.cursor.id)
        seen.cursor = stored or self._new_cursor(found)
        seen.size = -1
        self._states.pop(found.path, None)

    def _complain(self, path: str, error: OSError) -> None:
        """Say once that a path cannot be read; it is tried again at each pass."""
        if isinstance(error, FileNotFoundError):
            return
        self.report.unreadable += path not in self._complained
        if path not in self._complained:
            self._complained.add(path)
            log.warning("cannot be read", path=as_text(path), reason=error.strerror or type(error).__name__)
