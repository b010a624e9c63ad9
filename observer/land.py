"""Whole lines of one transcript → what the database is to land. Knows whose session and project each record belongs to,
and which sessions are not the user's; touches no file and no database."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import hashlib
import re
import uuid
from collections.abc import Callable, Iterator

import msgspec

from cems import project
from cems.ids import derived
from cems.models import ToolUse
from cems.project import Project
from cems.redact import Redactor
from cems.text import one_line
from db.ingest import Landing, NewProject, NewSession, SetAside
from observer.condense import Condenser, Row
from observer.foreign import is_foreign
from observer.records import Record, decode, decode_whole
from observer.shown import MARK, Shown

EXCERPT_LIMIT = 2000
PATH_LIMIT = 4000
_LONG_RUN = re.compile(r"[A-Za-z0-9+/=_-]{40,}")
_PROJECT_CACHE = 4096
_TITLES = {"ai-title", "custom-title", "summary"}


class Projects:
    """The one resolver with a memory, so that a folder is looked at once and not for every record."""

    def __init__(self, machine: uuid.UUID, excluded: Callable[[str], bool] | None = None) -> None:
        self._machine = str(machine)
        self._excluded = excluded
        self._left_out: dict[str, bool] = {}
        self._known: dict[tuple[str | None, str | None], Project] = {}

    def look_again(self) -> None:
        """Forget what folders were: one may have become a repository since."""
        self._known.clear()

    def of(self, cwd: str | None, session_root: str | None) -> Project:
        """The project of a record's folder; records without one belong to `unknown`."""
        key = (cwd, session_root)
        if (found := self._known.get(key)) is None:
            if len(self._known) >= _PROJECT_CACHE:
                self._known.clear()
            found = (
                project.resolve(cwd, self._machine, session_root)
                if cwd
                else Project(f"unknown:{self._machine}", "unknown", "")
            )
            self._known[key] = found
        return found

    def left_out(self, cwd: str | None) -> bool:
        """Whether the user excluded this folder."""
        if self._excluded is None or not cwd:
            return False
        if (found := self._left_out.get(cwd)) is None:
            if len(self._left_out) >= _PROJECT_CACHE:
                self._left_out.clear()
            found = self._left_out[cwd] = self._excluded(cwd)
        return found


@dataclasses.dataclass
class Session:
    """A session or subagent as its transcript's place names it."""

    name: str
    agent: str | None
    folder: str
    machine: uuid.UUID

    @property
    def id(self) -> uuid.UUID:
        """The session's id; a subagent's is derived from its parent's."""
        return derived("agent", str(self.parent), self.agent) if self.agent else self.parent

    @property
    def parent(self) -> uuid.UUID:
        """The main session's id: its name where that is a UUID, so that a moved file stays the same session."""
        try:
            return uuid.UUID(self.name)
        except ValueError:
            return derived("session", str(self.machine), self.folder, self.name)


class State(msgspec.Struct, omit_defaults=True):
    """What a later chunk of a transcript needs of an earlier one; stored with the cursor, so a restart changes nothing."""

    root: str | None = None
    """The folder the session began in."""
    cwd: str | None = None
    """The folder of the newest record that names one; those that name none belong there."""
    version: str = ""
    foreign: bool | None = None
    """Whether another tool's session; None until its first prompt."""
    custom_title: bool = False
    queue: list[str] = []
    """Prompts typed while the assistant works, redacted."""


class Lines:
    """One transcript's lines in order, chunk by chunk; keeps what a later chunk needs of an earlier one."""

    def __init__(
        self,
        session: Session,
        redactor: Redactor,
        projects: Projects,
        state: State | None = None,
        *,
        recalled: Callable[[str], ToolUse | None] = lambda _call_id: None,
    ) -> None:
        """Args:
        state: what the chunk before this one left.
        recalled: gives a tool call of the session that landed before, by its id.
        """
        self.session = session
        self.state = state or State()
        self._redactor = redactor
        self._projects = projects
        self._condenser = Condenser(redactor, self.state, agent=session.agent is not None, recalled=recalled)
        self._shown = Shown(from_start=False)
        self._main = str(session.id)
        self._sidechain = str(derived("agent", self._main, "sidechain"))
        self._entrypoint: str | None = None
        self._title: str | None = None

    def take(self, data: bytes, offset: int, landing: Landing, now: dt.datetime) -> collections.Counter[str]:
        """Fill the landing with these whole lines; returns how many records each rule skipped."""
        skipped: collections.Counter[str] = collections.Counter()
        rows: list[Row] = []
        aside: list[SetAside] = []
        cleared: set[str] = set()
        if offset == 0:
            self._shown = Shown(from_start=True)
        state, condense, left_out = self.state, self._condenser.condense, self._projects.left_out
        for raw, size in _physical(data):
            records = decode(raw)
            if not records:
                if raw.strip(b"\0\r\t "):
                    skipped["not_json"] += 1
                    aside.append(self._aside(raw, offset, size, "not_json"))
                offset += size
                continue
            for part, record in enumerate(records):
                out = left_out(record.cwd or state.cwd)  # before anything of it is looked at
                if record.cwd:
                    # A folder's name may hold a secret too: from here on there is only the redacted one.
                    state.cwd = record.cwd = self._label(record.cwd, PATH_LIMIT)
                if out:
                    skipped["excluded_project"] += 1
                    continue
                row = condense(record)
                self._learn(raw, record, row)
                if isinstance(row, str):
                    skipped[row] += 1
                    if row in ("no_uuid", "attachment"):
                        self._metadata(record, cleared)
                    continue
                if state.foreign is None:
                    self._judge(record, row)
                if state.foreign:
                    skipped["foreign_session"] += 1
                    continue
                row.offset, row.part, row.bytes = offset, part, size
                rows.append(row)
                if self._entrypoint is None:
                    self._entrypoint = self._label(record.entrypoint or "", 80) or None
            offset += size
        self._fill(landing, rows, now)
        showings, sayings = self._shown.take()
        if not state.foreign:
            landing.showings, landing.sayings = showings, sayings
        landing.set_aside = aside
        landing.cleared = sorted(cleared)
        return skipped

    def take_tail(
        self, tail: bytes, offset: int, landing: Landing, now: dt.datetime
    ) -> collections.Counter[str] | None:
        """The same for a last line without a newline; None unless it is one whole record, which nothing can continue."""
        return self.take(tail + b"\n", offset, landing, now) if decode_whole(tail) else None

    def refused(self, raw: bytes, offset: int) -> SetAside:
        """A line that the database does not take."""
        return self._aside(raw.removesuffix(b"\n"), offset, len(raw), "refused")

    def _judge(self, record: Record, row: Row) -> None:
        """Tell another tool's session by its first prompt."""
        if row.kind == "prompt":
            self.state.foreign = is_foreign(record.entrypoint, record.cwd, row.text)

    def _learn(self, raw: bytes, record: Record, row: Row | str) -> None:
        """Note what a record shows of the memories, or says after it was shown some."""
        nothing = isinstance(row, str) and MARK not in raw
        if not nothing and not self.state.foreign:
            inside = record.isSidechain and self.session.agent is None
            session = self._sidechain if inside else self._main
            self._shown.see(raw, record, None if isinstance(row, str) else row, session)

    def _metadata(self, record: Record, cleared: set[str]) -> None:
        """What records without a line of their own say about the session."""
        if record.type == "attachment":
            name = record.attachment.hookName if record.attachment else None
            if name == "SessionStart:clear" and record.session_id and record.session_id != record.sessionId:
                cleared.add(record.session_id)
        elif record.type in _TITLES:
            title = record.customTitle or record.aiTitle or record.summary
            if title and not self.state.foreign and (record.customTitle or not self.state.custom_title):
                self.state.custom_title = bool(record.customTitle)
                self._title = one_line(self._redactor.redact(title), 200)

    def _fill(self, landing: Landing, rows: list[Row], now: dt.datetime) -> None:
        """Give each row its session and project, and name those in the landing."""
        here, inside, state = self._main, self._sidechain, self.state
        projects: dict[str, Project] = {}
        ids: dict[str | None, str] = {}
        spans: dict[str, list[Row]] = {}
        for row in rows:
            if row.cwd and state.root is None:
                state.root = row.cwd
            project_id = ids.get(row.cwd)
            if project_id is None:
                found = self._projects.of(row.cwd or state.cwd, state.root)
                project_id = ids[row.cwd] = str(found.id)
                projects[project_id] = found
            row.project_id = project_id
            row.session_id = session = inside if row.sidechain and self.session.agent is None else here
            if session in spans:
                spans[session].append(row)
            else:
                spans[session] = [row]
        sessions = [self._span(session, own, now) for session, own in spans.items()]
        if not rows and self._title and state.root:
            sessions = [self._new_session(here)]
        landing.rows = msgspec.json.encode(rows)
        landing.row_count = len(rows)
        landing.sessions = sessions
        label = self._label
        landing.projects = [
            NewProject(p.id, label(p.identity, PATH_LIMIT), label(p.name, 200), label(p.root, PATH_LIMIT))
            for p in projects.values()
        ]

    def _label(self, text: str, limit: int) -> str:
        return self._condenser.label(text, limit)

    def _span(self, session: str, rows: list[Row], now: dt.datetime) -> NewSession:
        """What these rows say about their session."""
        seen = self._new_session(session)
        times = [row.at for row in rows if row.at is not None]
        if times:
            seen.started_at, seen.last_at = min(times), max(times)
        seen.project_id = uuid.UUID(rows[0].project_id)
        last = rows[-1]
        if last.kind == "boundary" and last.text == "end":
            seen.ended_at = now
        return seen

    def _new_session(self, session: str) -> NewSession:
        inside = session != self._main
        agent = "sidechain" if inside else self.session.agent
        return NewSession(
            id=uuid.UUID(session),
            name=self.session.name,
            agent=agent,
            parent_id=self.session.parent if agent else None,
            title=None if inside else self._title,
            entrypoint=self._entrypoint,
        )

    def _aside(self, raw: bytes, offset: int, size: int, reason: str) -> SetAside:
        if self.state.foreign or self._projects.left_out(self.state.cwd):
            return SetAside(offset, size, hashlib.blake2b(raw, digest_size=16).digest(), reason, "")
        text = (
            raw[: EXCERPT_LIMIT * 2]
            .decode("utf-8", "replace")
            .replace("\\u003c", "<")
            .replace("\\u003e", ">")
        )
        # A broken line is a piece of something: what a rule would know by the lines around it may stand here alone.
        excerpt = _LONG_RUN.sub("[…]", self._redactor.redact(text))
        return SetAside(
            offset, size, hashlib.blake2b(raw, digest_size=16).digest(), reason, excerpt[:EXCERPT_LIMIT]
        )


def _physical(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Each physical line without its newline, and its length with it. Only the byte 0x0A ends a line."""
    lines = data.split(b"\n")
    lines.pop()
    for raw in lines:
        yield raw, len(raw) + 1
