"""What a merge and a supersession write, and when they must not be written. A merge keeps one memory and unites in it all
that the others say, stand on and count; a supersession lets an earlier memory end where a later one began. Nothing is lost:
what does not fit keeps two memories apart."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from collections.abc import Iterable, Sequence
from typing import Any

from cems.models import BODY_LIMIT, ORIGINS, Kind
from cems.terms import memory_terms, terms
from cems.text import normalise
from db.candidates import Member
from db.changes import Change
from maintenance.guards import Statement, same_fact, why_apart
from maintenance.statement import read
from maintenance.together import entries, surroundings

_TICK = dt.timedelta(microseconds=1)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|(?<=[\u3002\uff01\uff1f])\s*|\n+")
_LABEL = re.compile(r"[A-Z]\w+(?: \w+)?:(?=\s)")
"""What a line begins with that is no sentence, such as `Changed:` and the names of files."""
_MARKS = " .,;:!?()[]{}<>\"'`*\u3002\u3001"
_ENDS = ".!?;:,)]}\"'`\u3002\uff01\uff1f"
_LONG = 200
"""Characters of a word from which it is no term."""
_LANGUAGE = re.compile(r"\b([A-Za-z])(?:\+\+|#)(?!\w)")
"""C++ and C#, which are not C."""
_DIRECTED = frozenset(
    "over than instead rather before after from to into unless until without not never no cannot nor".split()  # noqa: SIM905
) | frozenset(
    {"don't", "doesn't", "isn't", "can't", "won't", "mustn't", "shouldn't", "didn't", "wasn't", "aren't"}
)
"""Words with which the same words in another order say something else."""


@dataclasses.dataclass(frozen=True)
class Merge:
    """A merge that can be written."""

    change: Change
    together: tuple[Member, ...]
    """The survivor first."""
    left: tuple[Member, ...]
    """Members whose details found no room any more."""
    result: Member
    """The survivor as it is afterwards; its `changed_at` is no time that it had before."""


def survivor_first(members: Iterable[Member]) -> list[Member]:
    """In the order in which a memory is kept: pinned, by hand, the most used, the newest, then by id."""
    return sorted(
        members,
        key=lambda m: (not m.pinned, m.author != "hand", -m.used_count, -m.occurred_at.timestamp(), m.id),
    )


def merge(members: Sequence[Member], why: str, now: dt.datetime) -> Merge | None:
    """Unite memories that state the same fact; None where not even two of them fit into one body."""
    survivor, *rest = survivor_first(members)
    body, together, left = survivor.body, [survivor], []
    for other in rest:
        united = unite(survivor.title, body, other)
        if united is None:
            left.append(other)
        else:
            body = united
            together.append(other)
    if len(together) == 1:
        return None
    at = max(now, *(m.changed_at + _TICK for m in together))
    values = _united(survivor, together, body) | {"changed_at": at}
    gone = {"superseded_by": survivor.id, "superseded_how": "merged"}
    change = Change(
        what="merged",
        why=why,
        seen={m.id: m.changed_at for m in together},
        updates={survivor.id: values, **{m.id: gone for m in together[1:]}},
        into=survivor.id,
        gives=[m.id for m in together[1:]],
        counts=[m.id for m in together[1:]],
    )
    known = {f.name for f in dataclasses.fields(Member)}
    result = dataclasses.replace(
        survivor,
        **{k: v for k, v in values.items() if k in known},
        said_at=max(m.said_at for m in together),
    )
    return Merge(change, tuple(together), tuple(left), result)


def replace(earlier: Member, later: Member) -> Change:
    """Let a memory end where a later one says what holds now; the later one stays as it is."""
    began = later.occurred_at if later.occurred_at > earlier.occurred_at else later.said_at
    return Change(
        what="replaced",
        why="a later memory says what holds now, by a model",
        seen={m.id: m.changed_at for m in (earlier, later)},
        updates={earlier.id: {"superseded_by": later.id, "superseded_how": "replaced", "valid_to": began}},
        into=later.id,
    )


def _united(survivor: Member, together: Sequence[Member], body: str) -> dict[str, Any]:
    """The survivor's columns that are made of all of them."""
    files = entries(m.files for m in together)
    occurred_at = min(m.occurred_at for m in together)
    return {
        "body": body,
        "files": files,
        "concepts": entries(m.concepts for m in together),
        "terms": memory_terms(survivor.title, body, files, occurred_at),
        # The survivor's first: its vector knows the first line.
        "around": surroundings(m.around for m in together),
        "confidence": max(m.confidence for m in together),
        "origin": min((m.origin for m in together), key=ORIGINS.index),
        "occurred_at": occurred_at,
        "valid_from": min((m.valid_from for m in together if m.valid_from), default=None),
        "pinned": any(m.pinned for m in together),
        "snoozed_until": _snoozed(together),
    }


def _snoozed(together: Sequence[Member]) -> dt.datetime | None:
    """A snoozed fact that is learnt again in other words stays snoozed, as it does in the same words; a pin says show."""
    if any(m.pinned for m in together):
        return None
    return max((m.snoozed_until for m in together if m.snoozed_until), default=None)


def unite(title: str, body: str, other: Member) -> str | None:
    """The body with what another memory says and title and body do not, sentence by sentence in its order; None where that is
    longer than a body may be. Lines with a label stay lines; of the questions that memories answered the first one stays."""
    said = [_Said(s, other.kind) for s in sentences(f"{title}\n{body}")]
    texts: list[str] = []
    lines: list[str] = []
    for number, line in enumerate(f"{other.title}\n{other.body}".split("\n")):
        label = _LABEL.match(line.strip()) if number else None
        if label and label[0] == "Asked:" and re.search(r"^Asked:", body, re.M):
            continue
        for sentence in [line.strip()] if label else sentences(line):
            new = _Said(sentence, other.kind)
            if any(new.within(known) for known in said):
                continue
            said.append(new)
            if label:
                lines.append(sentence)
            else:
                texts.append(sentence if sentence[-1] in _ENDS else f"{sentence}.")
    united = "\n".join(part for part in (body, " ".join(texts), *lines) if part)
    return united if len(united) <= BODY_LIMIT else None


def sentences(text: str) -> list[str]:
    """The sentences and lines of a text, without the space around them."""
    return [part for found in _SENTENCE.split(text) if (part := found.strip())]


class _Said:
    """A sentence, to be compared with others."""

    def __init__(self, sentence: str, kind: Kind) -> None:
        self._statement = Statement(kind, None, sentence, "")
        plain = (word.strip(_MARKS) for word in normalise(sentence).split())
        self._words = tuple(word for word in plain if word)
        long = (word for word in self._words if len(word) > _LONG)
        self._content = frozenset([*map(_stem, terms(_LANGUAGE.sub(r"\1sharp", sentence)).split()), *long])
        self._directed = not self._content or not _DIRECTED.isdisjoint(self._words)

    def within(self, other: _Said) -> bool:
        """Whether another sentence says this one: in other words, but the same to the rules; or with all the words of it that
        mean something. Where their order means something too, they stand there word for word."""
        if self._is(other) or (
            not self._directed
            and self._content <= other._content
            and why_apart(self._statement, other._statement) is None
        ):
            return True
        length = len(self._words)
        starts = range(len(other._words) - length + 1)
        return any(other._words[at : at + length] == self._words for at in starts)

    def _is(self, other: _Said) -> bool:
        """Whether rules read the same in both, no more and no less."""
        ours, theirs = self._statement, other._statement
        return read(ours).title == read(theirs).title and same_fact(ours, theirs, 1.0)


def _stem(word: str) -> str:
    """A word without the endings that a sentence turned around gives it."""
    for ending in ("ing", "ed", "es", "s", "e"):
        if len(word) > len(ending) + 1 and word.endswith(ending) and word.isalpha():
            return word.removesuffix(ending)
    return word
