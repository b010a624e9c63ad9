"""Where a session is, for the tools: its project, the way to the database, and which projects it may see. A project's memories
are given in that project; others only after the user has confirmed a search in them, and then until this process ends."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import psycopg

from cems import project as resolver
from cems.errors import CemsError, DatabaseUnavailable, NotFound
from cems.project import Project
from cems.settings import Settings
from db.connect import OUTAGES, Database
from db.details import Opened, opened
from db.memories import resolve_id
from recall.reach import Reach

T = TypeVar("T")
_BUSY = (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable)
"""Of OUTAGES, these say that the server is there and has other things to do."""
_ID = re.compile(r"[0-9a-f]{4,32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclasses.dataclass(frozen=True)
class Session:
    """What the command line knows and tells the tools; what is a function is asked at each call."""

    settings: Settings
    folder: str
    """The session's, absolute."""
    session_id: str
    """As the agent names it; empty where it does not say."""
    tokens: int
    """Of an answer, at most."""
    clock: Callable[[], dt.datetime]
    machine: Callable[[], uuid.UUID]
    open: Callable[[], Database]
    """The reader's way to the database."""
    when: Callable[[str], dt.datetime]
    """What a date or an age means. Raises UsageError."""
    find_projects: Callable[[Database, str], list[uuid.UUID]]
    """The projects a name, an identity or a folder means. Raises NotFound, UsageError."""
    observing: Callable[[], str]
    """One line on whether sessions are observed on this machine."""


class Here:
    """The session's place, safe to share between threads."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._reach = Reach(session.open)
        self._confirmed: set[uuid.UUID] | None = set()
        """Other projects the user let this session see; None: all."""

    def project(self) -> Project:
        """The session's project, looked up anew: a repository may get its remote while the session runs."""
        return resolver.resolve(self.session.folder, str(self.session.machine()))

    def readable(self) -> list[uuid.UUID] | None:
        """The projects whose memories may be opened by id; None: any."""
        return None if self._confirmed is None else [self.project().id, *self._confirmed]

    def confirm(self, projects: Sequence[uuid.UUID] | None) -> None:
        """The user has let this session see these projects; None: all."""
        if projects is None:
            self._confirmed = None
        elif self._confirmed is not None:
            self._confirmed |= set(projects)

    def asking(self, work: Callable[[Database], T]) -> T:
        """What `work` returns. A connection that was lost since its last use is replaced once.

        Raises:
            DatabaseUnavailable: the database does not answer, or is too busy. Carries nothing of its address.
        """
        return ask(self._reach, work)

    def open(self, texts: Sequence[str]) -> tuple[list[Opened], list[str]]:
        """The memories of these ids, and a sentence on each that cannot be given."""
        found: dict[uuid.UUID, str] = {}
        problems: list[str] = []
        for text in texts:
            try:
                found.setdefault(self.asking(partial(resolve, text)), text)
            except NotFound as error:
                problems.append(str(error))
        memories = self.asking(lambda db: opened(db, list(found), self.readable()))
        given = {one.memory.id for one in memories if not one.hidden}
        hidden = {one.memory.id for one in memories if one.hidden}
        for memory, text in found.items():
            if memory in hidden:
                problems.append(f"{text} was superseded by a memory that was forgotten")
            elif memory not in given:
                problems.append(f"{text} belongs to another project; `search_elsewhere` asks the user")
        return [one for one in memories if one.memory.id in given], problems

    def open_one(self, text: str) -> Opened:
        """The memory of this id.

        Raises:
            NotFound: there is none, or it may not be given.
        """
        found, problems = self.open([text])
        if not found:
            raise NotFound(problems[0])
        return found[0]

    def close(self) -> None:
        """Let go of the database."""
        self._reach.close()


def ask(reach: Reach, work: Callable[[Database], T]) -> T:
    """What `work` returns, given the database.

    Raises:
        DatabaseUnavailable: it does not answer, or is too busy. Carries nothing of its address.
    """
    again = True
    while True:
        try:
            return work(reach.database())
        except _BUSY as error:
            raise DatabaseUnavailable(
                "the database is busy and took too long", hint="try again, or ask for less"
            ) from error
        except OUTAGES as error:
            reach.failed(error)
            if isinstance(
                error, CemsError
            ):  # it could not be opened; what comes after the colon names its address
                raise DatabaseUnavailable(str(error).partition(": ")[0], hint=error.hint) from error
            if not again:
                raise DatabaseUnavailable("the database does not answer") from error
            again = False


def is_id(text: str) -> bool:
    """Whether this could be the id of a memory, and not a time."""
    wanted = text.strip().lower()
    return len(wanted) >= 10 and _ID.fullmatch(wanted) is not None


def resolve(text: str, db: Database) -> uuid.UUID:
    """The memory an id means.

    Raises:
        NotFound: none, or more than one.
    """
    wanted = text.strip().strip("[]").lower()
    if not _ID.fullmatch(wanted):
        raise NotFound(f"{text[:40]!r} is not the id of a memory; ids stand in [brackets]")
    if len(wanted) == 32:
        wanted = str(uuid.UUID(wanted))
    try:
        return resolve_id(db, wanted)
    except NotFound as error:
        which = "more than one memory has" if "more than one" in str(error) else "there is no memory with"
        raise NotFound(f"{which} the id {wanted}") from error
