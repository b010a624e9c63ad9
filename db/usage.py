"""Learning from use: which memories a session was shown, and which of those it used. The observer reads both from the
transcript and stores them with the lines of the same landing, once for each memory and record, so that a transcript that is
read again, resumed or copied counts nothing twice. Counts stand in `memory`, for ranking and maintenance.

Used is judged conservatively, because a wrong count feeds on itself: a memory that is held to be useful is shown more often.
- *cited*: an answer or a tool call names the short id of a memory that this session was shown.
- *acted*: in the turn that was shown it, one record of the assistant has at least SHARED of the memory's distinctive terms
  and TITLE_SHARE of its title's. Distinctive is a term of four letters or more, or with a digit, which neither the question
  nor a tool's result of that turn had brought already, and which no other memory shown there has too. A memory that was
  learnt in the session itself cannot be acted upon in it: that would be the work going on."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import uuid
from collections.abc import Iterator, Sequence

from cems.terms import terms
from db.connect import Connection, Row
from db.queries import SQL

SHARED = 4
"""Distinctive terms an answer and a memory must share."""
TITLE_SHARE = 0.6
"""Part of the title's distinctive terms that must be among them."""


@dataclasses.dataclass(frozen=True)
class Showing:
    """A record that shows memories to a session."""

    record: uuid.UUID
    session: uuid.UUID
    turn: uuid.UUID | None
    """Names the turn it belongs to; None where nobody knows."""
    at: dt.datetime | None
    ids: tuple[str, ...]
    """Short ids."""


@dataclasses.dataclass(frozen=True)
class Saying:
    """A record of the assistant that may use what it was shown."""

    record: uuid.UUID
    session: uuid.UUID
    turn: uuid.UUID | None
    at: dt.datetime | None
    cited: frozenset[str]
    """What could be short ids."""
    terms: frozenset[str]
    """Its terms that are the assistant's own: neither asked nor read in this turn. Empty where that is unknown."""


def learn(
    conn: Connection,
    owner: uuid.UUID,
    showings: Sequence[Showing],
    sayings: Sequence[Saying],
    now: dt.datetime,
) -> None:
    """Store and count what was shown and used, inside the caller's transaction."""
    for showing in showings:
        conn.execute(
            SQL["usage.show"],
            {
                "owner": owner,
                "ids": list(showing.ids),
                "record": showing.record,
                "session": showing.session,
                "turn": showing.turn,
                "at": showing.at or now,
                "now": now,
            },
        )
    if not sayings:
        return
    sessions = sorted({saying.session for saying in sayings})
    shown = conn.execute(SQL["usage.shown_in"], {"owner": owner, "sessions": sessions}).fetchall()
    for saying in sayings:
        for memory, how in _used(saying, shown):
            conn.execute(
                SQL["usage.use"],
                {
                    "owner": owner,
                    "memory": memory,
                    "how": how,
                    "record": saying.record,
                    "session": saying.session,
                    "turn": saying.turn,
                    "at": saying.at or now,
                    "now": now,
                },
            )


def _used(saying: Saying, shown: Sequence[Row]) -> Iterator[tuple[uuid.UUID, str]]:
    """The memories a record uses, each once, and how."""
    here = {(row["id"], row["turn"]): row for row in shown if row["session_id"] == saying.session}
    cited = {row["id"] for row in here.values() if row["short_id"] in saying.cited}
    yield from ((memory, "cited") for memory in sorted(cited))
    if not saying.terms:
        return
    this_turn = [row for (_, turn), row in here.items() if turn is not None and turn == saying.turn]
    words = {row["id"]: set(terms(row["title"], row["body"]).split()) for row in this_turn}
    holders = collections.Counter(term for own in words.values() for term in own)
    for row in this_turn:
        if row["id"] not in cited and not row["own"]:
            distinctive = {t for t in words[row["id"]] if _telling(t) and holders[t] == 1}
            if acted(set(terms(row["title"]).split()), distinctive, saying.terms):
                yield row["id"], "acted"


def acted(title: set[str], distinctive: set[str], said: frozenset[str]) -> bool:
    """Whether what was said shares enough with a memory to be more than the same topic.

    Args:
        title: terms of the memory's title.
        distinctive: those terms of the whole memory that can tell it from others.
        said: the assistant's own terms in one record.
    """
    wanted = title & distinctive
    if len(wanted) < 2 or len(distinctive & said) < SHARED:
        return False
    return len(wanted & said) >= TITLE_SHARE * len(wanted)


def _telling(term: str) -> bool:
    return len(term) >= 4 or any(c.isdigit() for c in term)
