"""The tools of `cems mcp` that change memories, for whoever switched them on. An agent may have been talked into a call by a
page it read, so what it writes is never taken for the user's: it is the assistant's word, no preference, of this project
only, and names the session it came from. Answers tell what was done and how to undo it; they repeat no text of a memory."""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from cems import home
from cems.errors import UsageError
from cems.ids import short
from cems.models import BODY_LIMIT, TITLE_LIMIT
from cems.redact import Redactor
from cems.text import visible
from db import lifecycle, notes
from db.connect import Database
from db.memories import HandWritten
from recall.mcp import wording
from recall.mcp.arguments import Change, Remember, Snooze
from recall.mcp.here import Here, ask
from recall.reach import Reach

_AGE = re.compile(r"\s*\d+\s*(h|d|w|mo|y)\s*", re.I)


class Writing:
    """The changing tools of one session."""

    def __init__(self, here: Here, opener: Callable[[], Database]) -> None:
        """Args:
        opener: the writer's way to the database.
        """
        self._here = here
        self._session = here.session
        self._reach = Reach(opener)

    def table(self) -> Mapping[str, Callable[[Any], str]]:
        """Each tool's name and what it does."""
        return {"remember": self.remember, "forget": self.forget, "pin": self.pin, "snooze": self.snooze}

    def remember(self, given: Remember) -> str:
        """Store a note of the assistant for this project."""
        note, now = self._note(given), self._session.clock()
        session = _session(self._session.session_id)
        stored = ask(self._reach, lambda db: notes.add(db, note, session, now))
        if stored.outcome == "forgotten":
            return "Not stored: this was forgotten on purpose. Only the user can bring it back, with `cems memory restore`."
        named = f"[{short(stored.id)}]" if stored.id else "the same content"
        if stored.outcome == "known":
            return f"Known already: {named}. Nothing was changed."
        assert note.project is not None
        where = f"the project {wording.safe(note.project.name)}"
        return f"Remembered for {where} as {named}, a {note.kind} in the assistant's words."

    def forget(self, given: Change) -> str:
        """Forget a memory this session may see."""
        memory = self._here.open_one(given.id).memory.id
        self._change(lambda db, now: lifecycle.forget(db, memory, now))
        return f"Forgotten: [{short(memory)}]. `cems memory restore {memory}` brings it back."

    def pin(self, given: Change) -> str:
        """Pin a memory this session may see."""
        memory = self._here.open_one(given.id).memory.id
        self._change(lambda db, now: lifecycle.pin(db, memory, now))
        return f"Pinned: [{short(memory)}]."

    def snooze(self, given: Snooze) -> str:
        """Snooze a memory this session may see."""
        until = self._until(given.until)
        memory = self._here.open_one(given.id).memory.id
        self._change(lambda db, now: lifecycle.snooze(db, memory, until, now))
        return f"Snoozed: [{short(memory)}] is not given back before {until.astimezone():%Y-%m-%d %H:%M}."

    def _change(self, change: Callable[[Database, dt.datetime], None]) -> None:
        ask(self._reach, lambda db: change(db, self._session.clock()))

    def _until(self, text: str) -> dt.datetime:
        """A time to come: an age is read as how long from now.

        Raises:
            UsageError: it is no time, or past.
        """
        now, at = self._session.clock(), self._session.when(text)
        if _AGE.fullmatch(text):
            at = now + (now - at)
        if at <= now:
            raise UsageError(
                f"{text!r} is not in the future", hint="a date to come, or for how long: 30d, 2w"
            )
        return at

    def _note(self, given: Remember) -> HandWritten:
        """What is stored: redacted before anything else, and within the limits after that.

        Raises:
            UsageError: it cannot be stored; says why.
        """
        settings = self._session.settings
        redactor = Redactor(home.redaction_key(settings.home))
        title, body = " ".join(redactor.redact(given.title).split()), redactor.redact(given.body).strip()
        if not visible(title):
            raise UsageError(
                "nothing is left of the title that can be seen, after what is private was taken out"
            )
        for name, length, limit in (("title", len(title), TITLE_LIMIT), ("body", len(body), BODY_LIMIT)):
            if length > limit:
                raise UsageError(f"the {name} has {length:,} characters; {limit:,} is the most")
        concepts = tuple(dict.fromkeys("-".join(c.lower().replace("_", " ").split()) for c in given.concepts))
        known = settings.extraction_concepts
        if any(concept not in known for concept in concepts):
            raise UsageError("there is no such concept", hint=f"concepts are {', '.join(known)}")
        files = tuple(dict.fromkeys(redactor.redact(file).strip() for file in given.files if file.strip()))
        return HandWritten(given.kind, title, body, concepts, files, self._here.project())


def _session(name: str) -> uuid.UUID | None:
    """The session as the database names it; None where the agent did not say, or says it in another form."""
    try:
        return uuid.UUID(name)
    except ValueError:
        return None
