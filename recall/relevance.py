"""Which of the memories found are worth a place in a prompt that did not ask for them. Search finds what is nearest; here it
is decided whether near is near enough, because showing nothing is normal and noise costs trust. Pure."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Sequence

from cems.ids import short
from cems.models import Memory
from cems.terms import words
from db.search import Hit

LIMIT = 6
"""Memories in one prompt's block."""
UNSURE = 0.5
"""Confidence below which only a strong hit is shown."""
MEANING_ALONE = 0.70
"""Cosine that needs no shared word."""
MEANING_WITH_WORDS = 0.60
STRONG_MEANING = 0.78
_WORD = re.compile(r"[^\W_]+")
_JOINTS = re.compile(r"[._\-:/@#+]+")
_STEM = 5
"""Letters that two words must share from their beginning to count as forms of one word."""
# What every programming session is about; that two texts share these says nothing.
_EVERYWHERE = frozenset(
    """
    add added adding address app bug build call called change changed changes check class code command create current
    data default different does doesn done error errors even file files find fine first fix fixed fixes folder
    function get give go good have help here issue keep know last let like line lines list look looks make makes mean
    method name need needs new next not now number object old ok one only open option order out page please point
    possible problem project provide put question really right run running same see set should show simple since
    something start still stop sure take tell test tests text thing think time today try type under update use used
    user uses using value want way well without work works write wrong yes yet nothing still again always never
    fail failed failing fails
    bitte datei der die das den dem ein eine einen ist nicht und oder mit für auf von zu wir ich sie es wie was warum kann
    können soll noch mal auch nur jetzt mach machen fehler wenn dann aber alle
    le la les un une des et ou pour dans est pas que qui avec sur el los las una por para con del qué il lo di che per non
    """.split()  # noqa: SIM905 - a list of words reads as words
)


@dataclasses.dataclass(frozen=True)
class Subject:
    """What a prompt is about: its words that say something, and which of them are names of things."""

    words: frozenset[str]
    identifiers: frozenset[str]

    @classmethod
    def of(cls, text: str) -> Subject:
        """The subject of a text."""
        found = [word for word in words(text) if word.text not in _EVERYWHERE and not word.text.isdigit()]
        return cls(
            frozenset(w.text for w in found if len(w.text) > 1),
            frozenset(w.text for w in found if w.identifier),
        )


@dataclasses.dataclass(frozen=True)
class Chosen:
    """What is shown, and how many were not, by reason."""

    memories: Sequence[Memory]
    refused: dict[str, int]


def choose(
    hits: Sequence[Hit], text: str, *, shown: Collection[str], asks: bool, limit: int = LIMIT
) -> Chosen:
    """The hits worth showing, in their order.

    Args:
        text: what was searched for.
        shown: short ids that this session has seen since its last compaction.
        asks: the prompt asks for memory, so that less will do.
    """
    subject = Subject.of(text)
    chosen: list[Memory] = []
    refused: dict[str, int] = {}
    for hit in hits:
        if len(chosen) >= limit:
            break
        if reason := _refusal(hit, subject, shown, asks):
            refused[reason] = refused.get(reason, 0) + 1
        else:
            chosen.append(hit.memory)
    return Chosen(chosen, refused)


def _refusal(hit: Hit, subject: Subject, shown: Collection[str], asks: bool) -> str:
    """Why a hit is not shown; empty: it is."""
    memory = hit.memory
    if memory.origin == "tool":
        return "tool"  # what a page or a program printed is never given without being asked for
    if short(memory.id) in shown:
        return "shown"
    shared, named = _shared(memory, subject)
    strength = _strength(hit, shared, named)
    if strength == 0 and not (asks and shared):
        return "weak"
    return "unsure" if memory.confidence < UNSURE and strength < 2 else ""


def _strength(hit: Hit, shared: int, named: int) -> int:
    """0: near by chance; 1: about the same; 2: certainly.

    Args:
        shared: how many of the subject's words the memory has; named: how many of them are names of things.
    """
    meaning = hit.meaning_score or 0.0
    if meaning >= STRONG_MEANING or named or (shared >= 2 and hit.coverage >= 0.6):
        return 2
    if meaning >= MEANING_ALONE or (meaning >= MEANING_WITH_WORDS and shared):
        return 1
    return 1 if (shared >= 2 and hit.coverage >= 0.3) or (shared and hit.coverage >= 0.5) else 0


def _shared(memory: Memory, subject: Subject) -> tuple[int, int]:
    """How many of the subject's words a memory has, and how many of its identifiers."""
    text = " ".join((memory.title, memory.body, *memory.files)).lower()
    have = set(_WORD.findall(text))
    beginnings = {word[:_STEM] for word in have if len(word) >= _STEM}
    squeezed = _JOINTS.sub(
        "", text
    )  # identifiers stand here as terms have them, and pairs of scripts without spaces
    named = sum(word in squeezed for word in subject.identifiers)
    shared = sum(
        word in have
        or (len(word) >= _STEM and word[:_STEM] in beginnings)
        or (not word.isascii() and word in text)
        for word in subject.words - subject.identifiers
    )
    return shared + named, named
