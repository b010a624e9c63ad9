"""A memory's words, read once for all comparisons: sentences in one canonical form, the values that have to agree to the
letter, and what is denied, limited or asked. Lines that only tell how a memory came about (who asked, what failed first,
what was changed) are no part of what it says."""

from __future__ import annotations

import dataclasses
import functools
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from cems.models import Kind
from maintenance import lexicon as lex
from maintenance.lexicon import canon, stem
from maintenance.tokens import Sentence, Token, language_of
from maintenance.tokens import sentences as sentences_of

TITLE_READ = 400
BODY_READ = 4000
"""Characters that are read; what is longer has to be equal to the letter behind that."""
_SURROUNDINGS = ("Asked:", "Failed first:", "Changed:", "Files:")
_LABELS = ("Why:", "Also:")
_ENOUGH = 3
_AHEAD = frozenset({"!may", "!must", "!should", "they", "them", "he", "she", "him", "her"})


@dataclasses.dataclass(frozen=True)
class Statement:
    """What is compared: one memory's kind, place and words."""

    kind: Kind
    project: uuid.UUID | None
    """None: it holds everywhere."""
    title: str
    body: str
    files: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Reading:
    """A statement as it was understood."""

    title: tuple[Sentence, ...]
    body: tuple[Sentence, ...]
    asked: str
    """The question it was an answer to."""
    named: frozenset[str]
    """The names, numbers and the like in that question."""
    leans: bool
    """It cannot be understood without that question."""
    files: frozenset[str]
    """What the work it comes from changed or read."""
    cut: bool
    """The title's end is missing."""
    rest: str
    """What was too long to be read."""
    question: bool
    sentences: tuple[Sentence, ...]
    """Everything it says, each once."""
    raw: frozenset[str]
    """Every word as written, in small letters."""
    words: frozenset[str]
    """Every word in canonical form."""
    marks: frozenset[str]
    """What is denied, limited, intended."""
    explained: frozenset[str] | None
    """The marks outside of reasons and consequences; None where it gives no reason."""
    values: tuple[Token, ...]
    """What has to agree to the letter."""
    tried: frozenset[str]
    """Words of the title, where it says what is and not what was tried or mended."""
    polarity: Mapping[str, frozenset[bool]]
    """For each word whether it stands plain (True), denied (False), or both."""
    titled: tuple[str, ...]
    """The title's words in canonical form."""
    told: tuple[str, ...]
    """All words in canonical form, in order."""
    retracts: bool
    """A sentence of the body begins by denying."""
    undenied: Mapping[tuple[str, ...], int]
    """Each sentence without its denials, and how many it has."""
    signs: Counter[str]
    """Denials in scripts without spaces."""
    opposing: Mapping[int, frozenset[int]]
    """The groups of opposites that have a word here, and the sides that do."""
    relations: frozenset[tuple[str, str, str]]
    """What stands on the two sides of a word that makes them two different things."""


@functools.lru_cache(maxsize=8192)
def read(statement: Statement) -> Reading:
    """Read a statement; the same one is read once."""
    fact, asked, files = _parts(statement)
    language = language_of(f"{statement.title[:TITLE_READ]} {fact[:BODY_READ]}")
    title = sentences_of(statement.title[:TITLE_READ], language, statement.kind)
    body = sentences_of(fact[:BODY_READ], language, statement.kind)
    said = tuple(dict.fromkeys((*title, *body)))
    every = [t for s in said for t in s.tokens]
    texts = tuple(t for s in title for t in s.texts)
    words = frozenset(t.text for t in every if t.text)
    raw = frozenset(w for s in (*title, *body) for w in s.raw)
    return Reading(
        title=title,
        body=body,
        asked=asked,
        named=frozenset(
            t.text for s in sentences_of(asked, language, statement.kind) for t in s.tokens if t.value
        ),
        leans=bool(asked) and _leans(statement, texts),
        files=frozenset(f.replace("\\", "/") for f in (*files, *statement.files)),
        cut=statement.title.rstrip().endswith(("…", "...")),
        rest=f"{statement.title[TITLE_READ:]}\0{fact[BODY_READ:]}",
        question=statement.title.rstrip().endswith(("?", "？")),
        sentences=said,
        raw=raw,
        words=words,
        marks=frozenset(m for s in (*title, *body) for m in s.marks),
        explained=_explained(said),
        values=tuple(t for t in every if t.value),
        tried=frozenset() if statement.kind in ("deadend", "bugfix") else frozenset(texts),
        polarity=_polarity(said),
        titled=texts,
        told=tuple(t for s in said for t in s.texts),
        retracts=any(_denies_first(s.texts) for s in body if s not in title),
        undenied=_undenied(said),
        signs=_signs(f"{statement.title}\n{fact}"),
        opposing=_opposing(words | raw, f"{statement.title}\n{fact}"),
        relations=frozenset(_relations(said)),
    )


def _parts(statement: Statement) -> tuple[str, str, list[str]]:
    """The lines of the body that say something, the question, and the files that were changed."""
    kept: list[str] = []
    asked = ""
    files: list[str] = []
    for line in statement.body.split("\n"):
        bare = line.strip()
        label = next((x for x in (*_SURROUNDINGS, *_LABELS) if bare.startswith(x)), "")
        words = bare[len(label) :].strip()
        if label == "Asked:":
            asked = words
        elif label in ("Changed:", "Files:"):
            files += [f.strip() for f in words.split(" and ")[0].split(",") if f.strip()]
        elif label == "Also:" and statement.kind == "preference":
            continue  # other rules of the same breath
        elif label != "Failed first:":
            kept.append(words)
    return "\n".join(kept), asked, files


def _leans(statement: Statement, texts: Sequence[str]) -> bool:
    """Whether a title speaks of something only its question names. A rule is understood by itself."""
    title = statement.title.casefold()
    if lex.LEANING & set(title.split()[:3]) or any(phrase in title for phrase in lex.LEANING_PHRASES):
        return True
    return statement.kind != "preference" and sum(not t.startswith("!") for t in texts) < _ENOUGH


def _explained(said: Sequence[Sentence]) -> frozenset[str] | None:
    fragments = [f for s in said for f in s.fragments]
    plain = [f for f in fragments if not is_reason(f)]
    if len(plain) == len(fragments):
        return None
    kept = {t.text for f in plain for t in f if t.text.startswith("!")}
    return frozenset(kept | {t.text for f in fragments for t in f if t.text.startswith("!")} - lex.IN_REASONS)


def is_reason(fragment: Sequence[Token]) -> bool:
    """Whether a fragment gives a reason or a consequence."""
    return bool(fragment) and fragment[0].text in lex.REASONS


def _undenied(said: Sequence[Sentence]) -> dict[tuple[str, ...], int]:
    found: dict[tuple[str, ...], int] = {}
    for sentence in said:
        texts = tuple(t for t in sentence.texts if t not in lex.DENIES)
        found[texts] = found.get(texts, 0) + len(sentence.texts) - len(texts)
    return found


def _polarity(said: Sequence[Sentence]) -> dict[str, frozenset[bool]]:
    """A denial reaches to the end of its fragment; one at the end, as German has it, over the whole of it. Reasons are
    kept apart from what they explain."""
    found: dict[str, set[bool]] = {}
    for fragment in (f for s in said for f in s.fragments):
        texts = [t.text for t in fragment if t.text]
        reason = "!because " if is_reason(fragment) else ""
        denied = next((i for i, t in enumerate(texts) if t in lex.DENIES), len(texts))
        if denied < len(texts) and all(t.startswith("!") for t in texts[denied:]):
            denied = -1
        for place, text in enumerate(texts):
            if not text.startswith("!"):
                found.setdefault(reason + text, set()).add(place < denied)
    return {text: frozenset(plain) for text, plain in found.items()}


def _denies_first(texts: Sequence[str]) -> bool:
    """ "Never in production though", "They cannot": such a sentence denies what was said before it."""
    return next((t for t in texts if t not in _AHEAD), "") in lex.DENIES


def _relations(said: Sequence[Sentence]) -> Iterator[tuple[str, str, str]]:
    for sentence in said:
        texts = sentence.texts
        for at, text in enumerate(texts[1:-1], 1):
            left, right = texts[at - 1], texts[at + 1]
            if text in lex.TURNING and not left.startswith("!") and not right.startswith("!"):
                yield ("before", right, left) if text == "after" else (text, left, right)


def _signs(text: str) -> Counter[str]:
    return Counter() if text.isascii() else Counter({s: n for s in lex.DENYING_SIGNS if (n := text.count(s))})


def _opposing(words: frozenset[str], text: str) -> dict[int, frozenset[int]]:
    found: dict[int, set[int]] = {}
    unspaced = set() if text.isascii() else {word for word in _UNSPACED_SIDES if word in text}
    for word in words & _SIDES.keys() | unspaced:
        for group, side in _SIDES[word]:
            found.setdefault(group, set()).add(side)
    return {group: frozenset(sides) for group, sides in found.items()}


def _sides() -> dict[str, list[tuple[int, int]]]:
    """Each word that has an opposite, in all its forms, with its group and its side in it."""
    sides: dict[str, list[tuple[int, int]]] = {}
    for group, line in enumerate(lex.OPPOSED):
        for side, words in enumerate(line):
            for word in words.split(","):
                for form in {word, stem(word), canon(word)} - lex.PLACING:
                    sides.setdefault(form, []).append((group, side))
    return sides


_SIDES = _sides()
_UNSPACED_SIDES = frozenset(word for word in _SIDES if word >= "\u3040")
