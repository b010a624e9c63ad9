"""Which pairs belong together: pairs that touch each other, and among them groups of which every pair states the same fact.
A chain, where the first is like the second and the second like the third, is no such group. The same pairs give the same
groups, in whatever order they come."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

from maintenance.candidates import Pair


def touching(pairs: Iterable[Pair]) -> list[list[Pair]]:
    """Pairs by what they hang together in, each in the order it came in; that of the smallest id first."""
    parent: dict[uuid.UUID, uuid.UUID] = {}

    def root(memory: uuid.UUID) -> uuid.UUID:
        while (above := parent.setdefault(memory, memory)) != memory:
            parent[memory] = parent[above]
            memory = above
        return memory

    pairs = list(pairs)
    for pair in pairs:
        one, two = root(pair.first), root(pair.second)
        parent[max(one, two)] = min(one, two)
    found: dict[uuid.UUID, list[Pair]] = {}
    for pair in pairs:
        found.setdefault(root(pair.first), []).append(pair)
    return [found[memory] for memory in sorted(found)]


def groups(same: Mapping[frozenset[uuid.UUID], float]) -> list[list[uuid.UUID]]:
    """Groups of two and more of which every pair is in `same`; the nearest pairs come together first.

    Args:
        same: pairs that state the same fact, with their cosine.
    """
    group_of: dict[uuid.UUID, list[uuid.UUID]] = {m: [m] for pair in same for m in pair}
    nearest = sorted((-cosine, min(pair), max(pair)) for pair, cosine in same.items())
    for _, one, two in nearest:
        first, second = group_of[one], group_of[two]
        if first is second:
            continue
        if all(frozenset((a, b)) in same for a in first for b in second):
            first.extend(second)
            for memory in second:
                group_of[memory] = first
    every = {id(group): group for group in group_of.values() if len(group) > 1}
    return sorted(sorted(group) for group in every.values())
