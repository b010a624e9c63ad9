"""Which memories a session's start shows, in which order, and how its sections share the room. Pure functions: the same
candidates give the same choice, whatever the day, so that a session that starts again gets the same bytes."""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Iterable, Sequence

from cems.terms import terms
from db.context import Candidate
from recall.block import Section, escape, size

RANK_K = 12
"""Smoothing of the two orders, by date and by use, when they are added: how much the first places stand out."""
_SURE = 0.8
"""What is left of a memory's weight at confidence nought: doubt breaks near-ties, it does not hide."""
_NEGATIONS = frozenset(
    """
    no not never avoid without cannot cant dont doesnt isnt shouldnt wont nicht nie kein keine ohne pas jamais sans nunca sin
    """.split()  # noqa: SIM905 - a list of words reads as words
)
_ALMOST = 0.8
"""Part of a title's words that make a line say the same; short titles need all of them."""
_SHORT_TITLE = 5


@dataclasses.dataclass(frozen=True)
class Words:
    """What a sentence is about: its content words, singular and plural alike, and whether it denies something."""

    content: frozenset[str]
    denies: bool

    @classmethod
    def of(cls, text: str) -> Words:
        """The words of a text."""
        # An apostrophe would split "don't" into words of which none denies anything.
        found = frozenset(terms(text.replace("'", "").replace("’", "")).split())
        denials = found & _NEGATIONS
        return cls(frozenset(_singular(word) for word in found - denials), bool(denials))

    def says(self, title: Words, *, almost: bool = True) -> bool:
        """Whether these words hold (almost) all of a title's: no number may be missing, and both or neither must deny."""
        wanted = title.content
        if not wanted or self.denies != title.denies:
            return False
        missing = wanted - self.content
        if any(c.isdigit() for word in missing for c in word):
            return False
        allowed = (
            len(wanted) - math.ceil(_ALMOST * len(wanted)) if almost and len(wanted) >= _SHORT_TITLE else 0
        )
        return len(missing) <= allowed


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def unsaid(candidates: Iterable[Candidate], lines: Sequence[Words]) -> list[Candidate]:
    """The candidates whose title stands in none of these lines, which the session is shown anyway."""
    holding: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        for word in line.content:
            holding.setdefault(word, []).append(number)
    kept = []
    for candidate in candidates:
        title = Words.of(candidate.memory.title)
        # By the line's number of shared words first: comparing each title with each line takes too long for a hook.
        shared = collections.Counter(n for word in title.content for n in holding.get(word, ()))
        enough = math.floor(_ALMOST * len(title.content))
        if not any(count >= enough and lines[n].says(title) for n, count in shared.items()):
            kept.append(candidate)
    return kept


def ranked(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Best first: pinned, then by date and by use together. A memory that only repeats a better one is left out."""
    newest = sorted(candidates, key=lambda c: (c.memory.occurred_at, c.memory.id), reverse=True)
    by_use = [c for c in newest if _use(c) > 0]
    by_use.sort(key=_use, reverse=True)
    score = {c.memory.id: 1 / (RANK_K + place) for place, c in enumerate(newest)}
    for place, c in enumerate(by_use):
        score[c.memory.id] += 1 / (RANK_K + place)
    for c in candidates:
        score[c.memory.id] *= _SURE + (1 - _SURE) * c.memory.confidence
    return without_copies(sorted(newest, key=lambda c: (not c.pinned, -score[c.memory.id])))


def without_copies(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The candidates in their order, without those of a kind whose title says nothing that an earlier one does not."""
    kept: list[Candidate] = []
    said: dict[str, list[Words]] = {}
    for candidate in candidates:
        title = Words.of(candidate.memory.title)
        earlier = said.setdefault(candidate.memory.kind, [])
        if not any(words.says(title, almost=False) for words in earlier):
            kept.append(candidate)
            earlier.append(title)
    return kept


def _use(candidate: Candidate) -> int:
    """How much it was used; being seen again counts a third of it, being seen once nothing."""
    return 3 * candidate.used + candidate.memory.seen_count - 1


def shares(everywhere: int, project: int, limit: int) -> tuple[int, int]:
    """How many of what holds everywhere and of this project's fit into a number of memories: a third is kept for the first,
    and what one does not need the other may have."""
    first = min(everywhere, max(limit - project, math.ceil(limit / 3)))
    return first, min(project, limit - first)


def fit(sections: Sequence[tuple[Section, float]], room: int) -> list[Section]:
    """The sections cut between items to a size (`recall.block.size`): each gets its share, given as a weight; what is left over
    goes to the first that can use it."""
    wanted = [(section, weight) for section, weight in sections if section.items]
    whole = sum(weight for _, weight in wanted)
    taken = [0] * len(wanted)
    left = room
    for last_round in (False, True):
        for i, (section, weight) in enumerate(wanted):
            own = left if last_round else min(left, int(room * weight / whole))
            while taken[i] < len(section.items) and (cost := _cost(section, taken[i])) <= own:
                own -= cost
                left -= cost
                taken[i] += 1
    return [
        Section(section.heading, section.items[:count])
        for (section, _), count in zip(wanted, taken, strict=True)
        if count
    ]


def _cost(section: Section, index: int) -> int:
    """What an item takes, with the heading before the first one: as `fence` counts it."""
    heading = f"{escape(section.heading)}\n" if index == 0 and section.heading else ""
    return size(f"{heading}{section.items[index]}\n")
