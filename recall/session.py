"""What a session is given when it starts: about you, this project, where you stopped. After a compaction what this session
itself brought comes first; a session that is resumed is given only what is new since its last line.

Promises: the same bytes for the same session and data (dates are written out, orders are total, nothing is random); within
the budget, cut between items; nothing of tool origin; nothing that Claude Code shows by itself: no git state, no date of
today, nothing that stands in CLAUDE.md or in Claude Code's own notes. Needs the reader's role only."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from cems import project as resolver
from cems.ids import derived, short
from cems.models import Memory
from cems.project import Project
from cems.settings import Settings
from cems.text import one_line, sanitise
from db import context as reading
from db.connect import Database
from db.context import Candidate, LastSession, Wanted
from recall import selection
from recall.block import CHARACTER_LIMIT, CHARACTERS_PER_TOKEN, Section, escape, fence, item
from recall.session_neighbours import Place, lines

Source = Literal["startup", "resume", "clear", "compact", "fork"]
EVENT = "SessionStart"
SESSIONS = 3
_BODY = 240
"""Characters of a memory's body; the whole of it is one command away."""
_TITLE = 90
_SUMMARY = 300


@dataclasses.dataclass(frozen=True)
class Limits:
    """How much of what may be given."""

    tokens: int = 2000
    kinds: tuple[str, ...] = ("decision", "deadend", "pattern", "preference")
    concepts: tuple[str, ...] = ()
    """None: any."""
    observations: int = 40

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        """The limits the settings ask for."""
        return cls(
            settings.context_tokens,
            settings.context_observation_types,
            settings.context_observation_concepts,
            settings.context_observations,
        )


@dataclasses.dataclass(frozen=True)
class SessionRequest:
    """A session that starts, as its hook describes it."""

    source: Source
    cwd: str
    session_id: str
    """As the agent names it; empty where there is none."""
    transcript_path: str
    machine: uuid.UUID
    now: dt.datetime
    """Decides what is still snoozed, and nothing that is written."""
    limits: Limits = Limits()
    folders: tuple[str, ...] = ()
    """Further folders whose projects are given too, merged by time. Worktrees need none: they share their repository's."""
    config_dirs: tuple[Path, ...] = ()
    """The agent's configuration folders."""

    @property
    def session(self) -> uuid.UUID:
        """The session's id as its lines carry it (`observer.land.Session`)."""
        try:
            return uuid.UUID(self.session_id)
        except ValueError:
            folder = str(Path(self.transcript_path).parent)
            return derived("session", str(self.machine), folder, self.session_id)


def context(db: Database, request: SessionRequest) -> str:
    """The block for a session; well-formed where there is nothing to say. Empty only for a session that is resumed and has
    everything already.

    Raises:
        psycopg.OperationalError and the like (see db.connect.OUTAGES): the database is away.
    """
    cwd = sanitise(request.cwd)
    found = [resolver.resolve(folder, str(request.machine)) for folder in (cwd, *request.folders)]
    projects = {project.id: project for project in found}
    here = _Here(db, request, found[0], list(projects))
    if request.source == "resume":
        return here.news()
    return here.start(after_compaction=request.source == "compact")


class _Here:
    """One request with all that its parts share."""

    def __init__(
        self, db: Database, request: SessionRequest, project: Project, projects: list[uuid.UUID]
    ) -> None:
        self._db = db
        self._request = request
        self._limits = request.limits
        self._project = project
        self._wanted = Wanted(projects, request.limits.kinds, request.limits.concepts)
        place = Place(
            sanitise(request.cwd), project.root, sanitise(request.transcript_path), request.config_dirs
        )
        self._said = lines(place)
        empty = fence([], EVENT, tokens=self._limits.tokens)
        budget = min(CHARACTER_LIMIT, int(self._limits.tokens * CHARACTERS_PER_TOKEN))
        self._room = budget - len(empty)

    def start(self, *, after_compaction: bool) -> str:
        """The standing context, and before it, after a compaction, what this session brought."""
        own: list[Candidate] = []
        if after_compaction:
            own = reading.of_session(
                self._db, self._request.session, self._request.now, self._limits.observations
            )
            own = selection.without_copies(self._unsaid(own))
        known = {c.memory.id for c in own}
        standing = [
            c for c in reading.standing(self._db, self._wanted, self._request.now) if c.memory.id not in known
        ]
        ranked = selection.ranked(self._unsaid(standing))
        everywhere = [c for c in ranked if c.memory.project is None]
        of_project = [c for c in ranked if c.memory.project is not None]
        first, second = selection.shares(
            len(everywhere), len(of_project), max(0, self._limits.observations - len(own))
        )
        parts = [
            (Section("This session, before its compaction:", self._items(own)), 2.0),
            (Section("About you:", self._items(everywhere[:first])), 1.0),
            (Section(self._heading(), self._items(of_project[:second])), 2.0 if not own else 1.0),
        ]
        return self._with_last_sessions(parts, [*own, *everywhere[:first], *of_project[:second]])

    def news(self) -> str:
        """What other sessions, or a person, added since this session's last line."""
        last_at = reading.last_line_at(self._db, self._request.session)
        if last_at is None:
            return ""
        candidates = reading.standing(
            self._db, self._wanted, self._request.now, since=last_at, besides=self._request.session
        )
        new = selection.without_copies(self._unsaid(candidates))[: self._limits.observations]
        if not new:
            return ""
        section = Section("New since this session's last line:", self._items(new))
        return fence([section], EVENT, tokens=self._limits.tokens)

    def _with_last_sessions(self, parts: list[tuple[Section, float]], candidates: Sequence[Candidate]) -> str:
        """The block with where you stopped. A memory that is shown already is named there by its id, which depends on what
        fits, so the room is shared out twice."""
        sessions = reading.last_sessions(
            self._db, self._wanted.projects, self._request.session, self._request.now
        )
        shown: set[uuid.UUID] = set()
        sections: list[Section] = []
        for _ in range(2):
            stopped = [text for session in sessions if (text := _stopped(session, shown))][:SESSIONS]
            sections = selection.fit([*parts, (Section("Where you stopped:", stopped), 1.0)], self._room)
            texts = {text for section in sections for text in section.items}
            shown = {
                c.memory.id
                for c, text in zip(candidates, self._items(candidates), strict=True)
                if text in texts
            }
        return fence(sections, EVENT, tokens=self._limits.tokens)

    def _unsaid(self, candidates: list[Candidate]) -> list[Candidate]:
        return selection.unsaid(candidates, self._said)

    def _items(self, candidates: Sequence[Candidate]) -> list[str]:
        return [item(c.memory, self._project.name, body_limit=_BODY) for c in candidates]

    def _heading(self) -> str:
        several = len(self._wanted.projects) > 1
        return "These projects:" if several else f"This project ({self._project.name}):"


def _stopped(session: LastSession, shown: set[uuid.UUID]) -> str:
    """One line on a session: its day, its title, and its summary or what its newest memories were. Empty where nothing is
    known of it."""
    summary = next((m for m in session.memories if m.layer == "summary"), None)
    if summary is not None:
        text = one_line(f"{summary.title}. {summary.body}", _SUMMARY)
    else:
        text = "; ".join(_named(memory, shown) for memory in session.memories)
    title = f"“{one_line(session.title, _TITLE)}”" if session.title else ""
    told = ": ".join(escape(part) for part in (title, text) if part)
    return f"- {session.last_at.astimezone(dt.UTC):%Y-%m-%d} {told}" if told else ""


def _named(memory: Memory, shown: set[uuid.UUID]) -> str:
    return f"[{short(memory.id)}]" if memory.id in shown else one_line(memory.title, _TITLE)
