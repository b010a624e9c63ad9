"""The order in which hits are given back. Relevance decides; among near-ties what is fresher, surer, pinned or used comes
first; near-copies of what is already in the list go down. A question for the latest is answered by time. Pure: what the
database found goes in, the order with its reasons comes out."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from collections.abc import Sequence

from cems.models import Memory
from cems.terms import tokens

NEAR = 0.01
"""Two hits are near-ties when both lie within this of the best of their group, on the scale where the best possible hit
has relevance 1. A group begins with its best and never grows by chains. Measured on LoCoMo (recall@10 tuned on / held out):
no groups .823/.750, .01 .820/.747, .03 .814/.738."""
HALF_LIFE = {"decision": 180, "pattern": 120, "bugfix": 60, "context": 60}
"""Days until a memory counts half as fresh; what a user prefers and what did not work does not age."""
LATEST_SHARE = 0.75
"""For a question that asks for the latest: hits with at least this share of the best relevance are sorted by time."""
COPY_PENALTY = 0.5
"""What an exact copy of a hit above loses of its score."""
COPY_MEANING = 0.95
"""Cosine from which two memories count as near-copies. Texts on one subject reach .9 with the local embedder; from there
on recall@10 falls by .01, from .95 on by nothing (measured as above)."""
COPY_WORDS = 0.6
"""The same for memories without vectors: the share of their words that both have."""


@dataclasses.dataclass(frozen=True)
class Found:
    """What the database says of a hit."""

    memory: Memory
    relevance: float
    pinned: bool
    used: int
    alike: Sequence[float] | None
    """Cosine to every hit of the same answer, in order of relevance; None without a vector."""


@dataclasses.dataclass(frozen=True)
class Factors:
    """Why a hit stands where it stands."""

    recency: float
    """1 for new or ageless, half of it a half-life later."""
    confidence: float
    used: int
    pinned: bool
    worth: float
    """The four above as one number; the larger comes first among near-ties."""
    tied: int
    """How many hits are near-ties of this one, itself included."""
    copy: float
    """How much of a copy it is of a hit above it: 0 to 1."""
    before: int
    """Its place by relevance alone, from 1."""
    after: int
    """Its place in the answer, from 1."""


def recency(memory: Memory, now: dt.datetime) -> float:
    """How fresh a memory is: 1 to 0."""
    days = max((now - memory.occurred_at).total_seconds(), 0) / 86400
    half = HALF_LIFE.get(memory.kind)
    return 0.5 ** (days / half) if half else 1.0


def worth(found: Found, now: dt.datetime) -> float:
    """What decides among near-ties. No factor does more than double or halve."""
    fresh, sure = 0.5 + 0.5 * recency(found.memory, now), 0.5 + 0.5 * found.memory.confidence
    return fresh * sure * (1 + 0.1 * min(math.log2(1 + found.used), 5)) * (1.5 if found.pinned else 1)


def order(
    hits: Sequence[Found], now: dt.datetime, *, limit: int, latest: bool = False
) -> list[tuple[int, Factors]]:
    """The places (in `hits`, which come by relevance) of the best `limit`, with why."""
    groups = _latest(hits) if latest else _ties(hits, now)
    scores: dict[int, float] = {}
    tied: dict[int, int] = {}
    for group in groups:
        # A group's members share out its relevances in their new order, so that the copies below can be weighed.
        for place, relevance in zip(
            group, sorted((hits[i].relevance for i in group), reverse=True), strict=True
        ):
            scores[place], tied[place] = relevance, len(group)
    chosen = _without_copies(hits, scores, limit)
    return [
        (
            place,
            Factors(
                recency=recency(hits[place].memory, now),
                confidence=hits[place].memory.confidence,
                used=hits[place].used,
                pinned=hits[place].pinned,
                worth=worth(hits[place], now),
                tied=tied[place],
                copy=copy,
                before=place + 1,
                after=after,
            ),
        )
        for after, (place, copy) in enumerate(chosen, 1)
    ]


def _ties(hits: Sequence[Found], now: dt.datetime) -> list[list[int]]:
    groups: list[list[int]] = []
    for place, hit in enumerate(hits):
        if groups and hits[groups[-1][0]].relevance - hit.relevance <= NEAR:
            groups[-1].append(place)
        else:
            groups.append([place])
    return [sorted(group, key=lambda i: -worth(hits[i], now)) for group in groups]


def _latest(hits: Sequence[Found]) -> list[list[int]]:
    enough = LATEST_SHARE * hits[0].relevance if hits else 0
    relevant = [i for i, hit in enumerate(hits) if hit.relevance >= enough]
    newest = sorted(relevant, key=lambda i: hits[i].memory.occurred_at, reverse=True)
    return [newest, *([i] for i in range(len(relevant), len(hits)))]


def _without_copies(hits: Sequence[Found], scores: dict[int, float], limit: int) -> list[tuple[int, float]]:
    """Maximal marginal relevance: each place goes to the hit with most score left after what it repeats."""
    words = [
        frozenset(tokens(f"{h.memory.title} {h.memory.body}")) if h.alike is None else None for h in hits
    ]
    left = list(scores)  # in their new order, so that equal scores keep it
    copies = dict.fromkeys(left, 0.0)
    chosen: list[tuple[int, float]] = []
    while left and len(chosen) < limit:
        best = max(left, key=lambda i: scores[i] - COPY_PENALTY * copies[i])
        left.remove(best)
        chosen.append((best, copies[best]))
        for other in left:
            copies[other] = max(copies[other], _copy(hits, words, best, other))
    return chosen


def _copy(hits: Sequence[Found], words: Sequence[frozenset[str] | None], a: int, b: int) -> float:
    """How much one hit repeats another: 0 below the threshold, 1 for an exact copy."""
    alike, ours, theirs = hits[a].alike, words[a], words[b]
    if alike is not None and theirs is None:
        share, least = alike[b], COPY_MEANING
    elif ours is not None and theirs is not None:
        share, least = len(ours & theirs) / max(len(ours | theirs), 1), COPY_WORDS
    else:
        return 0.0
    return min(max((share - least) / (1 - least), 0.0), 1.0)
