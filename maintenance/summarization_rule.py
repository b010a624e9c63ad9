"""A summary without a model: the sentences that cannot be missed, in order, bounded, or none. It is made of the memories' own
words, and dull, but nothing in it can be wrong."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from cems.models import BODY_LIMIT, TITLE_LIMIT
from cems.terms import terms
from cems.text import normalise, one_line
from db.rewriting import Source
from maintenance.condensing import Draft, told, values_in
from maintenance.merge import sentences

WORTH = 0.8
"""Of the length of its sources a summary may have at most; below that nothing would be gained."""
_PLURAL = {
    "decision": "decisions",
    "deadend": "dead ends",
    "bugfix": "faults and their fixes",
    "pattern": "ways of working",
    "context": "facts",
}
_REASON = re.compile(
    r"\b(?:because|since|so that|due to|root cause|weil|denn|damit|parce que|porque)\b", re.I
)
_REASONED = ("decision", "deadend", "bugfix")


def extract(sources: Sequence[Source]) -> Draft | None:
    """A draft of some memories of one topic, oldest first; None where it would be too long or hardly shorter."""
    lines = [f"{s.occurred_at:%Y-%m-%d} {_essence(s)}" for s in sources]
    draft = Draft(_title(sources), "\n".join(lines), tuple(sources))
    before = sum(len(told(s)) for s in sources)
    return draft if len(draft.body) <= BODY_LIMIT and len(draft.text) <= WORTH * before else None


def _essence(source: Source) -> str:
    """The sentence of a memory, the first reason of what has reasons, and every sentence with a value that was not said yet."""
    title = one_line(source.title, TITLE_LIMIT)
    kept, said = [title], set(values_in(source.kind, title))
    reasoned = source.kind not in _REASONED or bool(_REASON.search(title))
    for sentence in sentences(told(source).removeprefix(title).lstrip(" —")):
        reason = not reasoned and bool(_REASON.search(sentence))
        values = values_in(source.kind, sentence)
        if not reason and values <= said:
            continue
        if normalise(sentence).startswith(normalise(title.removesuffix("…"))):
            kept[0] = sentence
        else:
            kept.append(sentence)
        said |= values
        reasoned = reasoned or reason
    return " ".join(part if part.endswith((".", "!", "?", "。")) else f"{part}." for part in kept)


def _title(sources: Sequence[Source]) -> str:
    """What it is about: the words most of its memories share, and from when."""
    count = Counter(word for s in sources for word in terms(s.title).split() if len(word) > 2)
    words = [word for word, number in count.most_common(4) if number > 1]
    first, last = (f"{at:%Y-%m}" for at in (sources[0].occurred_at, sources[-1].occurred_at))
    when = first if first == last else f"{first} to {last}"
    about = f" about {', '.join(words)}" if words else ""
    return one_line(f"Older {_PLURAL.get(sources[0].kind, 'memories')}{about} ({when})", TITLE_LIMIT)
