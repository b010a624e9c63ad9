"""What stood around an observation in its session, for search alone: who asks later often uses the words of the question it
answered. Only what people and the assistant said, in the same project; never what a tool printed, whose words would then lead
to a memory without anybody vouching for them."""

from __future__ import annotations

import uuid
from collections.abc import Collection

from cems.terms import around
from observer.turns import Turn, is_told


def around_of(turn: Turn, evidence: Collection[uuid.UUID], project: uuid.UUID) -> str:
    """What was asked in the turn, then what was said just before and just after the lines it stands on, within the limit. The
    lines themselves are left out: the memory has their words. Where nothing came before, the first line is empty, because
    it is the one that the vector knows. Empty for what stands on a tool's words alone: the user's would make it found."""
    beside = [line for line in (turn.before, *turn.lines, turn.after) if line and line.project_id == project]
    told = [line for line in beside if is_told(line) or (line.kind == "thinking" and line.uuid in evidence)]
    places = [place for place, line in enumerate(told) if line.uuid in evidence]
    if not places:
        return ""
    before = told[places[0] - 1] if places[0] else None
    after = told[places[-1] + 1] if places[-1] + 1 < len(told) else None
    asked = [q for q in (turn.begun, turn.question) if q and is_told(q) and q.project_id == project]
    lines = [line for line in (*asked, before, after) if line and line.uuid not in evidence]
    found = list(dict.fromkeys(line.text for line in lines))
    return around(*found) if found and lines[0] is not after else around("", *found)
