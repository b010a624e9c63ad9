"""What several memories have together, for one that is written in their place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cems.models import LIST_LIMIT
from cems.terms import AROUND_LIMIT


def surroundings(texts: Iterable[str]) -> str:
    """The lines of what stood around memories, each once and as far as there is room."""
    kept, length = [], 0
    for line in dict.fromkeys(line for text in texts for line in text.split("\n") if line):
        if length + len(line) + 1 <= AROUND_LIMIT:
            kept.append(line)
            length += len(line) + 1
    return "\n".join(kept)


def entries(lists: Iterable[Sequence[str]]) -> list[str]:
    """The first entries of several lists, each once, as many as a list may have."""
    return list(dict.fromkeys(entry for some in lists for entry in some))[:LIST_LIMIT]
