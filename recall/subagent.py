"""What a subagent is given when it starts. It sees neither the session's prompts nor what the session was shown, so it gets the
preferences and decisions that hold here and what fits its task, in a small budget."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence

from cems.ids import short
from cems.models import Memory
from cems.project import Project
from db.connect import Database
from db.context import Wanted, standing
from recall.block import Section, item
from recall.relevance import UNSURE

TOKENS = 800
FITTING = 4
"""Memories that fit the task."""
STANDING = 5
"""Preferences, and decisions, at most."""
_BODY = 200


def sections(
    db: Database, project: Project | None, fitting: Sequence[Memory], now: dt.datetime
) -> list[Section]:
    """What fits the task, then preferences and decisions, newest first."""
    name = project.name if project else None
    known = {memory.id for memory in fitting}
    listed = [m for m in _listed(db, project, ("preference", "decision"), now) if m.id not in known]

    def items(memories: Sequence[Memory]) -> list[str]:
        return [item(memory, name, body_limit=_BODY) for memory in memories]

    return [
        Section("About this task:", items(fitting)),
        Section("Preferences:", items([m for m in listed if m.kind == "preference"][:STANDING])),
        Section("Decisions:", items([m for m in listed if m.kind == "decision"][:STANDING])),
    ]


def newest(
    db: Database,
    project: Project | None,
    kinds: Sequence[str],
    shown: Collection[str],
    limit: int,
    now: dt.datetime,
) -> list[Memory]:
    """The newest memories of some kinds, for a question that says no more ("what did we decide?")."""
    found = _listed(db, project, kinds or ("decision", "preference"), now)
    return [memory for memory in found if short(memory.id) not in shown][:limit]


def _listed(db: Database, project: Project | None, kinds: Sequence[str], now: dt.datetime) -> list[Memory]:
    """What may be given without being asked for by name, newest first: nothing of tool origin, nothing unsure."""
    wanted = Wanted([project.id] if project else [], kinds)
    memories = [candidate.memory for candidate in standing(db, wanted, now)]
    return [m for m in memories if m.kind in kinds and m.confidence >= UNSURE]
