"""Pairs of live memories that may say the same, by their words, for where there is no embedder."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator

from cems.terms import tokens
from db import candidates
from db.candidates import Group
from db.connect import Database
from maintenance.candidates import MOST_PAIRS, Found, Pair, in_order

OVERLAP = 0.8
"""Words that two texts share, of all words of both, from which they may say the same."""


def by_words(
    db: Database, group: Group, mark: str, stopping: Callable[[], bool] = lambda: False
) -> Found | None:
    """Pairs of one group that share most of their words. Texts of the same words in the same order have the cosine 1; the
    others that of their overlap, below 1. None where `stopping` says so first."""
    rows = candidates.words(db, group, mark)
    texts = [tuple(tokens(f"{row['title']}\n{row['body']}")) for row in rows]
    unlooked = {i for i, row in enumerate(rows) if row["unlooked"]}
    pairs = []
    for found in _overlapping(texts, unlooked):
        if found is None:
            if stopping():
                return None
            continue
        one, two, share = found
        cosine = 1.0 if texts[one] == texts[two] else min(share, 0.999)
        first, second = sorted((rows[one]["id"], rows[two]["id"]))
        pairs.append(Pair(first, second, cosine))
    pairs = in_order(pairs)
    looked_at = {rows[i]["id"]: rows[i]["changed_at"] for i in sorted(unlooked)}
    return Found(looked_at, pairs[:MOST_PAIRS], len(pairs) > MOST_PAIRS)


def _overlapping(texts: list[tuple[str, ...]], wanted: set[int]) -> Iterator[tuple[int, int, float] | None]:
    """Pairs, one of each wanted, that share `OVERLAP` of their words: two such texts have one of their rarest words in
    common, so only those are looked up. None now and then: time to draw breath."""
    frequent = Counter(word for text in texts for word in set(text))
    sets = [sorted(set(text), key=lambda word: (frequent[word], word)) for text in texts]
    index: dict[str, list[int]] = {}
    for done, number in enumerate(sorted(range(len(sets)), key=lambda i: (len(sets[i]), i))):
        if done % 100 == 0:
            yield None
        words = sets[number]
        prefix = words[: len(words) - _least_common(len(words)) + 1]
        near = {other for word in prefix for other in index.get(word, ())}
        for other in sorted(near):
            if number in wanted or other in wanted:
                if len(sets[other]) < _least_common(len(words)):
                    continue
                common = len(set(words).intersection(sets[other]))
                share = common / (len(words) + len(sets[other]) - common)
                if share >= OVERLAP:
                    yield other, number, share
        for word in prefix:
            index.setdefault(word, []).append(number)


def _least_common(words: int) -> int:
    """Words in common with a text of so many, at least; less a hair, because a product of fractions may be one above."""
    return math.ceil(OVERLAP * words - 1e-9)
