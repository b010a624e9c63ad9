"""Which memories are about the same: words, names and files they share. Rough and cheap, the same with any embedder or none,
and the same for two memories whatever else there is, so that a second look at what is left finds nothing new."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from cems.terms import terms
from db.rewriting import Source
from maintenance.condensing import fact
from maintenance.lexicon import stem

_TITLE, _BODY = 2.0, 1.0
"""What a word weighs in each."""
_NAME = 1.5
"""How much more an identifier or a path weighs than a word."""
_NUMBER = 0.3
"""How much less a bare number weighs: few numbers are what something is about."""
_FILE, _CONCEPT = 2.0, 0.5


def weights(source: Source) -> dict[str, float]:
    """What a memory is about, as weighted words; the sum of their squares is 1."""
    found: dict[str, float] = {}
    for text, weight in ((source.title, _TITLE), (fact(source), _BODY)):
        for word in terms(text).split():
            if word.isalpha():
                key, more = stem(word), 1.0
            else:
                key, more = word, _NAME if any(map(str.isalpha, word)) else _NUMBER
            if len(key) > 1:
                found[key] = max(found.get(key, 0.0), weight * more)
    for word in terms(source.project or "").split():
        found.pop(stem(word), None)  # all memories of a project name it
        found.pop(word, None)
    found |= {f"file {file}": _FILE for file in source.files}
    found |= {f"concept {concept}": _CONCEPT for concept in source.concepts}
    length = math.sqrt(sum(w * w for w in found.values())) or 1.0
    return {word: w / length for word, w in found.items()}


class Related:
    """Finds what is nearest to some memories among others."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._weights = [weights(source) for source in sources]
        places: dict[str, list[tuple[int, float]]] = defaultdict(list)
        for place, found in enumerate(self._weights):
            for word, weight in found.items():
                places[word].append((place, weight))
        self._places = {
            word: (np.array([p for p, _ in found]), np.array([w for _, w in found]))
            for word, found in places.items()
        }

    def near(self, place: int) -> list[tuple[float, int]]:
        """How near each memory that shares a word is to the one at this place (1: the same words), nearest first."""
        scores = np.zeros(len(self._weights))
        for word, weight in self._weights[place].items():
            others, theirs = self._places[word]
            scores[others] += weight * theirs
        scores[place] = 0.0
        found = np.flatnonzero(scores)
        order = found[np.lexsort((found, -scores[found]))]
        return [(float(scores[other]), int(other)) for other in order]


def topics(
    sources: Sequence[Source], nearness: float, least: int, most: int, room: int
) -> list[list[Source]]:
    """Groups of memories about the same, in the order of their first: each around one memory, with those at least this near to
    it. What is in no group of `least` is left out, and would be so if only it were looked at.

    Args:
        most, room: memories of a group, and characters of all their titles, at most.
    """
    related = Related(sources)
    free = dict.fromkeys(range(len(sources)))
    found = []
    for seed in range(len(sources)):
        if seed not in free:
            continue
        group, left = [seed], room - len(sources[seed].title)
        for score, other in related.near(seed):
            if score < nearness or len(group) == most:
                break
            if other in free and len(sources[other].title) <= left:
                group.append(other)
                left -= len(sources[other].title)
        if len(group) >= least:
            for place in group:
                del free[place]
            found.append([sources[place] for place in sorted(group)])
    return found


def around_fresh(
    sources: Sequence[Source], most: int, room: int, size: Callable[[Source], int]
) -> Iterator[list[Source]]:
    """Every fresh memory with those that are nearest to it, in stretches of at most `most` memories and `room` characters; each
    memory once. What is neither fresh nor near to anything fresh is left out where there is more than one stretch."""
    related = Related(sources)
    free = dict.fromkeys(range(len(sources)))
    fresh = [place for place, source in enumerate(sources) if source.fresh]
    for seed in fresh:
        if seed not in free:
            continue
        near = [o for _, o in related.near(seed)]
        rest = free if len(free) <= most else fresh
        group, left = list[int](), room
        for place in dict.fromkeys([seed, *near, *rest]):
            if place in free and len(group) < most and (not group or size(sources[place]) <= left):
                group.append(place)
                left -= size(sources[place])
        for place in group:
            del free[place]
        yield [sources[place] for place in sorted(group)]
