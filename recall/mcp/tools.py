"""The tools that read. Each is given its arguments and answers with a text: index lines first, full texts and evidence when
they are asked for. What an answer may hold is decided in `recall/mcp/here.py`, how it looks in `recall/mcp/wording.py`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cems.errors import NotFound, UsageError
from cems.ids import short
from cems.project import Project
from cems.providers.usage import estimate_tokens
from db import details
from db.search import Hit, Question, search
from recall import session as starting
from recall.mcp import wording
from recall.mcp.arguments import Get, Nothing, Search, SearchElsewhere, Timeline, Why
from recall.mcp.here import Here, is_id
from recall.mcp.meaning import Meanings

EVIDENCE_LIMIT = 50
"""Pieces of evidence that are looked at; an answer has room for fewer."""
NOT_GIVEN_TOKENS = 50
"""For what is said about ids that cannot be given, whatever else an answer holds."""
Run = Callable[[Any], str]


class Tools:
    """The reading tools of one session."""

    def __init__(self, here: Here, meanings: Meanings, *, writing: bool) -> None:
        self._here = here
        self._meanings = meanings
        self._writing = writing

    def table(self) -> Mapping[str, Run]:
        """Each tool's name and what it does."""
        return {
            "search": self.search,
            "search_elsewhere": self.search_elsewhere,
            "timeline": self.timeline,
            "get": self.get,
            "why": self.why,
            "context": self.context,
            "status": self.status,
        }

    def search(self, given: Search) -> str:
        """Index lines of this project and of what holds everywhere."""
        project = self._here.project()
        where = f"in this project ({wording.safe(project.name)}) or in what holds everywhere"
        return self._found(given, project, [project.id], "search", where)

    def search_elsewhere(self, given: SearchElsewhere) -> str:
        """Index lines of another project, or of all. By now the user has confirmed it."""
        wanted = given.project.strip()
        if wanted in ("*", "all"):
            projects, where = None, "in any project"
        else:
            projects = self._here.asking(lambda db: self._here.session.find_projects(db, wanted))
            where = f"in {wording.safe(wanted)} or in what holds everywhere"
        answer = self._found(given, self._here.project(), projects, "search_elsewhere", where)
        self._here.confirm(projects)
        return answer

    def timeline(self, given: Timeline) -> str:
        """Index lines of what was learnt before and after, the one asked about in its place."""
        project = self._here.project()
        anchor = self._here.open_one(given.around) if is_id(given.around) else None
        at = anchor.memory.occurred_at if anchor else self._here.session.when(given.around)
        memory = anchor.memory.id if anchor else details.NIL
        place = (anchor.project_id if anchor else None) or project.id
        found = self._here.asking(
            lambda db: details.neighbours(
                db,
                place,
                at,
                self._here.session.clock(),
                memory=memory,
                before=given.before,
                after=given.after,
            )
        )
        if not found and anchor is None:
            return f"Nothing was learnt in this project ({wording.safe(project.name)}) around that time."
        lines = [wording.index_line(m, project.name, with_time=True) for m in found]
        ids = [short(m.id) for m in found]
        index = sum((m.occurred_at, m.id) < (at, memory) for m in found)
        if anchor:
            lines.insert(
                index, wording.index_line(anchor.memory, project.name, with_time=True) + " ← this one"
            )
        else:
            lines.insert(index, f"  --- {at.astimezone():%Y-%m-%d %H:%M} ---")
        ids.insert(index, "")  # never left out
        return self._around(lines, ids, index)

    def get(self, given: Get) -> str:
        """Full texts."""
        found, problems = self._here.open(list(dict.fromkeys(given.ids)))
        if not found:
            raise NotFound("; ".join(problems), hint="`search` finds memories and their ids")
        items = [wording.full_text(one) for one in found]
        ids = [short(one.memory.id) for one in found]
        answer = self._answer("get", items, ids, "`get` them on their own.")
        if not problems:
            return answer
        room = max(NOT_GIVEN_TOKENS, self._here.session.tokens - estimate_tokens(answer))
        return answer + "\n" + wording.within(f"Not given: {'; '.join(problems)}.", room)

    def why(self, given: Why) -> str:
        """The evidence of a memory, oldest first."""
        found = self._here.open_one(given.id)
        memory = found.memory
        readable = self._here.readable()
        sources = self._here.asking(lambda db: details.evidence(db, memory.id, EVIDENCE_LIMIT, readable))
        items = [wording.index_line(memory, self._here.project().name)]
        if memory.state == "superseded":
            items.append(f"  SUPERSEDED: {wording.replaced(found)}")
        items += [wording.source_line(source) for source in sources]
        if not sources:
            by_hand = memory.author == "hand"
            items.append("  · " + ("written by hand, by the user" if by_hand else "no evidence is left"))
        text, shown = wording.block("why", items, tokens=self._here.session.tokens)
        then = f"`cems memory show {short(memory.id)}` shows all."
        return f"{text}\n{wording.left_out(len(items) - shown, (), then)}".rstrip()

    def context(self, _given: Nothing) -> str:
        """What a session that starts now is given."""
        session = self._here.session
        limits = starting.Limits.of(session.settings)
        tokens = min(limits.tokens, session.tokens)
        # Scripts that take more bytes than the block's own estimate expects get a second, smaller try.
        for _ in range(2):
            text = self._starting(limits, tokens)
            if (size := estimate_tokens(text)) <= session.tokens:
                break
            tokens = tokens * session.tokens // size
        return text or "A session that starts here is given nothing."

    def status(self, _given: Nothing) -> str:
        """Counts, ages, and what works."""
        session, project = self._here.session, self._here.project()
        fresh = self._here.asking(lambda db: details.freshness(db, project.id))
        now, why = session.clock(), self._meanings.without()
        lines = (
            f"Project: {wording.safe(project.name)}",
            f"Memories: {fresh['here']:,} of this project, {fresh['everywhere']:,} that hold everywhere, "
            f"{fresh['total']:,} in all. Newest learnt: {wording.ago(fresh['newest'], now)}.",
            f"Observing: {session.observing()} Last line of a session read: {wording.ago(fresh['landed_at'], now)}.",
            f"Search: by words and by meaning{f'; now by words only: {why}' if why else ''}.",
            "Writing through these tools: " + ("on." if self._writing else "off."),
        )
        return wording.within("\n".join(lines), session.tokens)

    def _starting(self, limits: starting.Limits, tokens: int) -> str:
        session = self._here.session
        request = starting.SessionRequest(
            source="startup",
            cwd=session.folder,
            session_id=session.session_id,
            transcript_path="",
            machine=session.machine(),
            now=session.clock(),
            limits=starting.Limits(tokens, limits.kinds, limits.concepts, limits.observations),
            config_dirs=tuple(Path(folder) for folder in session.settings.claude_dirs()),
        )
        return self._here.asking(lambda db: starting.context(db, request))

    def _found(
        self, given: Search, project: Project, projects: Sequence[uuid.UUID] | None, event: str, where: str
    ) -> str:
        """The answer to a search.

        Args:
            project: the session's.
            where: how the place that was searched is called.
        """
        if not given.query.strip():
            raise UsageError("the query is empty", hint="give a few words; `timeline` lists by time")
        since = self._here.session.when(given.since) if given.since else None
        meaning = self._meanings.of(given.query)
        vector, model = (None, None) if isinstance(meaning, str) else meaning
        question = Question(
            given.query,
            vector,
            model,
            projects,
            kind=given.kind,
            concept=given.concept or None,
            file=given.file or None,
            since=since,
            limit=given.limit,
        )
        hits: list[Hit] = self._here.asking(lambda db: search(db, question, self._here.session.clock()))
        note = f"Searched by words only: {meaning}." if meaning and isinstance(meaning, str) else ""
        if not hits:
            narrowed = " with these filters" if given.kind or given.concept or given.file or since else ""
            return f"Nothing found {where}{narrowed}. {note}".strip()
        lines = [wording.index_line(hit.memory, project.name) for hit in hits]
        ids = [short(hit.memory.id) for hit in hits]
        more = "There may be more: narrow it, or raise `limit`." if len(hits) == given.limit else ""
        answer = self._answer(event, lines, ids, "`get` shows them.")
        return "\n".join(part for part in (answer, " ".join(p for p in (more, note) if p)) if part)

    def _around(self, lines: Sequence[str], ids: Sequence[str], index: int) -> str:
        """The block of a timeline: where not all fits, what is nearest in number to the line at `index`."""
        low, high = 0, len(lines)
        while True:
            text, shown = wording.block("timeline", lines[low:high], tokens=self._here.session.tokens)
            if shown == high - low or high - low == 1:
                break
            low, high = (low + 1, high) if index - low > high - 1 - index else (low, high - 1)
        left = [one for one in (*ids[:low], *ids[high:]) if one]
        return f"{text}\n{wording.left_out(len(left), left, '`get` shows them.')}".rstrip()

    def _answer(self, event: str, items: Sequence[str], ids: Sequence[str], then: str) -> str:
        """The block, and below it what was left out and how to get it."""
        text, shown = wording.block(event, items, tokens=self._here.session.tokens)
        left = [one for one in ids[shown:] if one]
        return f"{text}\n{wording.left_out(len(left), left, then)}".rstrip()
