"""From a hook's request to its document: one table of handlers, one for each event. Says nothing where recall is switched off,
where the input cannot be read, where the database is away or late; the session goes on in each case."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import os
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cems import project as resolver
from cems import settings as configuration
from cems.errors import CemsError
from cems.models import Memory
from cems.project import Project
from cems.settings import Settings
from db.connect import OUTAGES, Database
from db.search import Hit, Meaning, Question, search
from recall import own_words, prompting, relevance, request, subagent
from recall.block import Section, fence, item
from recall.bounded import Late, Pending
from recall.diagnostics import Trace
from recall.reach import Reach
from recall.request import HookInput, Request
from recall.transcript import Tails
from recall.warm import SECONDS, WarmEmbedder

_BODY = 400
_FROM_HOOK = ("CEMS_CONTEXT_", "CEMS_RECALL_", "CLAUDE_PROJECT_DIR", "CLAUDE_CONFIG_DIR")
"""Variables that belong to a session: taken from the hook alone, never from whoever started the service."""
_REMEMBERED = 256


@dataclasses.dataclass(frozen=True)
class Asked:
    """One request with what answering it needs."""

    input: HookInput
    settings: Settings
    environment: Mapping[str, str]
    machine: uuid.UUID
    now: dt.datetime
    reach: Reach
    embedder: WarmEmbedder | None
    tails: Tails
    trace: Trace

    @property
    def db(self) -> Database:
        """The database; opened when it is first asked for."""
        return self.reach.database()

    def project(self) -> Project | None:
        """The project of the folder the session is in."""
        if not self.input.cwd:
            return None
        root = self.environment.get("CLAUDE_PROJECT_DIR")
        return resolver.resolve(self.input.cwd, str(self.machine), root)


class Answerer:
    """Answers requests; safe to share between threads."""

    def __init__(
        self,
        reach: Reach,
        machine: uuid.UUID,
        clock: Callable[[], dt.datetime],
        *,
        embedder: WarmEmbedder | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self.reach = reach
        self.embedder = embedder
        self._tails = Tails()
        self._machine = machine
        self._clock = clock
        self._base = {k: v for k, v in environment.items() if not k.startswith(_FROM_HOOK)}
        self._lock = threading.Lock()
        self._prompts: collections.OrderedDict[tuple[str, str], None] = collections.OrderedDict()
        self._known: dict[frozenset[tuple[str, str]], tuple[object, Settings]] = {}

    def answer(self, asked: Request, trace: Trace) -> bytes:
        """The document for a request; an empty one where there is nothing to say."""
        context = ""
        try:
            context = self._context(asked, trace)
        except Late as late:
            trace.degraded.append(f"{late} late")
        except OUTAGES as error:
            trace.degraded.append("database")
            self.reach.failed(error)
        except CemsError:
            trace.degraded.append("database")
        trace.count(characters=len(context))
        return request.document(asked.event, context)

    def _context(self, asked: Request, trace: Trace) -> str:
        found = request.read_input(asked.body)
        if found is None or asked.event not in HANDLERS:
            trace.skipped = "unreadable"
            return ""
        settings = self._settings(asked.environment)
        if not settings.recall_enabled:
            trace.skipped = "off"
            return ""
        if self._is_copy(asked.event, found):
            trace.skipped = "copy"
            return ""
        given = Asked(
            found,
            settings,
            asked.environment,
            self._machine,
            self._clock(),
            self.reach,
            self.embedder,
            self._tails,
            trace,
        )
        return HANDLERS[asked.event](given)

    def _settings(self, environment: Mapping[str, str]) -> Settings:
        """The settings of a session; read again when the file of settings is another one."""
        asked = frozenset(environment.items())
        known = self._known.get(asked)
        if known is None or _stamp(known[1].home) != known[0]:
            settings = configuration.load(self._base | dict(environment))
            known = _stamp(settings.home), settings
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[asked] = known
        return known[1]

    def _is_copy(self, event: str, found: HookInput) -> bool:
        """Whether this very prompt was answered: a hook that is installed twice fires twice."""
        if event != "UserPromptSubmit" or not found.prompt_id:
            return False
        key = (found.session_id, found.prompt_id)
        with self._lock:
            if key in self._prompts:
                return True
            self._prompts[key] = None
            if len(self._prompts) > _REMEMBERED:
                self._prompts.popitem(last=False)
        return False


def on_prompt(asked: Asked) -> str:
    """Memories for a prompt: what fits it, once a session."""
    trace, given = asked.trace, asked.input
    if given.agent_id:
        trace.skipped = "subagent"
        return ""
    reading = prompting.read(given.prompt, given.source)
    if reading.what == "skip" or not asked.settings.recall_memories:
        trace.skipped = reading.why or "off"
        return ""
    begun = _begin(asked, reading.text)
    with trace.stage("transcript"):
        tail = asked.tails.read(given.transcript_path)
    text = prompting.query(reading, tail.last_answer)
    if text != reading.text:
        begun = _begin(asked, text)
    if not text and not reading.asks:
        trace.skipped = "nothing to search for"
        return ""
    project, most = asked.project(), asked.settings.recall_memories
    found: Sequence[Memory] = ()
    if text:
        hits = _find(
            asked, text, project, begun, limit=2 * most + min(len(tail.shown), 2 * most), dates=reading.asks
        )
        with trace.stage("choose"):
            chosen = relevance.choose(hits, text, shown=tail.shown, asks=reading.asks, limit=most)
        trace.count(found=len(hits), **{f"refused_{why}": n for why, n in chosen.refused.items()})
        found = chosen.memories
    if not found and reading.asks and not prompting.has_subject(given.prompt):
        found = subagent.newest(asked.db, project, reading.kinds, tail.shown, most, asked.now)
    trace.count(shown=len(found))
    items = [item(memory, project.name if project else None, body_limit=_BODY) for memory in found]
    return _block(items, "UserPromptSubmit", asked.settings.context_tokens)


def on_session_start(asked: Asked) -> str:
    """What a session is given when it starts."""
    # Here: the direct way, without a service, has no time to import what it may not need.
    from recall import session

    given = asked.input
    if not given.cwd:
        asked.trace.skipped = "no folder"
        return ""
    source = given.source if given.source in ("startup", "resume", "clear", "compact", "fork") else "startup"
    wanted = session.SessionRequest(
        source,  # type: ignore[arg-type]  # it is one of them
        given.cwd,
        given.session_id,
        given.transcript_path or "",
        asked.machine,
        asked.now,
        session.Limits.of(asked.settings),
        config_dirs=tuple(Path(folder) for folder in asked.settings.claude_dirs()),
    )
    with asked.trace.stage("session"):
        return session.context(asked.db, wanted)


def on_subagent(asked: Asked) -> str:
    """What a subagent is given: what holds here, and what fits its task."""
    given = asked.input
    with asked.trace.stage("transcript"):
        tail = asked.tails.read(given.transcript_path)
    project = asked.project()
    task = next((prompt for agent, prompt in tail.spawned if agent == (given.agent_type or "")), "")
    text = own_words.cut(task, prompting.QUESTION_LIMIT)
    hits = _find(asked, text, project, _begin(asked, text), limit=3 * subagent.FITTING) if text else []
    fitting = relevance.choose(hits, text, shown=(), asks=False, limit=subagent.FITTING).memories
    with asked.trace.stage("standing"):
        sections = subagent.sections(asked.db, project, fitting, asked.now)
    asked.trace.count(found=len(hits), shown=sum(len(s.items) for s in sections))
    if not any(section.items for section in sections):
        return ""
    return fence(sections, "SubagentStart", tokens=min(subagent.TOKENS, asked.settings.context_tokens))


HANDLERS: dict[str, Callable[[Asked], str]] = {
    "UserPromptSubmit": on_prompt,
    "SessionStart": on_session_start,
    "SubagentStart": on_subagent,
}


def _stamp(home: Path) -> object:
    """What tells one file of settings from another; None where there is none."""
    try:
        found = (home / "config.toml").stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode


def _begin(asked: Asked, text: str) -> Pending[Meaning] | None:
    """Begin with what takes longest, the vector of the text; None: keywords serve."""
    if asked.embedder is None or not text:
        return None
    if asked.embedder.state in ("absent", "loading", "broken"):
        asked.trace.degraded.append("embedder " + asked.embedder.state)
    try:
        return asked.embedder.begin(text)
    except Late:
        asked.trace.degraded.append("embedder late")
        return None


def _find(
    asked: Asked,
    text: str,
    project: Project | None,
    begun: Pending[Meaning] | None,
    *,
    limit: int,
    dates: bool = False,
) -> list[Hit]:
    """Search within the project and what holds everywhere; by meaning too where the model answers in time.

    Args:
        begun: the text's vector.
        limit: hits to look at; more than can be shown, because some were shown, come from tools, or are weak.
        dates: whether dates in the text say when it happened; in a task they mostly say something else.
    """

    def meaning() -> Meaning | None:
        """The vector, which was being computed while the words were looked up."""
        if begun is None:
            return None
        try:
            with asked.trace.stage("embed"):
                return begun.result(SECONDS)
        except Late:
            asked.trace.degraded.append("embedder late")
            return None

    question = Question(text, projects=[project.id] if project else [], limit=limit, dates=dates)
    with asked.trace.stage("search"):
        return search(asked.db, question, asked.now, meaning)


def _block(items: list[str], event: str, tokens: int) -> str:
    """The block; nothing at all where not even the first item fits."""
    block = fence([Section("", items)], event, tokens=tokens) if items else ""
    return block if items and items[0] in block else ""
