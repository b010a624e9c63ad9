"""Whether a text says what its sources say, as far as rules can tell: for each source one place in the text has the words of
its title and nothing that opposes them; and each sentence of the text comes from a source. Where that is not sure, the source
stays as it is."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterator, Sequence

from cems.models import Kind
from db.rewriting import Source
from maintenance import contrast
from maintenance import lexicon as lex
from maintenance.lexicon import canon
from maintenance.statement import Reading, Statement, read

MOST_MISSING = 0.4
"""The share of a title's words that may be missing; of a short title none."""
_SHORT = 3
_GROUNDED = 0.5
"""The share of a sentence's words that one source has at least."""
_SENTENCE = re.compile(r"[.!?;](?=\s|$)|[。！？；\n]")
_CLAUSE = re.compile(
    r"[.!?;,:](?=\s|$)|[。！？；，、：\n—]|\s(?:and|but|while|whereas|und|aber|et|mais|y|pero|и)(?=\s)", re.I
)
_CONNECTS = frozenset(map(canon, "for by at of as do have be or than how here then".split()))  # noqa: SIM905
_SMALL = lex.PLACING | _CONNECTS
"""Words that say nothing about what a title is about."""


def _denied(a: Reading, b: Reading) -> bool:
    """`contrast.negation` for the words that say something: behind a denial any small word stands denied."""
    if not (a.marks | b.marks) & lex.DENIES:
        return a.signs != b.signs
    words = a.polarity.keys() & b.polarity.keys() - _SMALL
    return (
        any(a.polarity[w] != b.polarity[w] for w in words)
        or (contrast.negation(a, b) and not words)
        or any(b.undenied.get(texts, count) != count for texts, count in a.undenied.items())
    )


_OPPOSING: tuple[Callable[[Reading, Reading], bool], ...] = (
    _denied, contrast.antonym, contrast.order, contrast.modality,
    contrast.limited, contrast.outcome, contrast.tense,
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class _Part:
    """A sentence or clause, and what it is about."""

    text: str
    words: frozenset[str]
    marks: frozenset[str]


@functools.lru_cache(maxsize=4096)
def _part(kind: Kind, text: str) -> _Part:
    words, marks = set[str](), set[str]()
    for at in range(0, len(text), 3000):
        reading = read(Statement(kind, None, "", text[at : at + 3000]))
        words |= {w for w in reading.words if not w.startswith("!") and w not in _SMALL}
        marks |= reading.marks
    return _Part(text, frozenset(words), frozenset(marks))


def _read(kind: Kind, text: str) -> Reading:
    return read(Statement(kind, None, text, ""))


def _spans(text: str, ends: re.Pattern[str]) -> list[tuple[int, int]]:
    """Where the pieces of a text between its pauses stand."""
    found, start = [], 0
    for end in ends.finditer(text):
        found.append((start, end.start() if end[0].strip().isalpha() else end.end()))
        start = end.end()
    found.append((start, len(text)))
    return [(a, b) for a, b in found if text[a:b].strip(" .,;:!?\n")]


class Text:
    """A text for several sources of one kind."""

    def __init__(self, title: str, body: str, sources: Sequence[Source]) -> None:
        self._kind = sources[0].kind
        self._title, self._body = title, body
        self._sources = sources
        self._titles = {s.id: _part(self._kind, s.title.removesuffix("…")) for s in sources}
        judged = [s for s in sources if not s.kept] or sources
        self._common = frozenset.intersection(*(self._titles[s.id].words for s in judged))
        """What all of them are about: a clause may leave it to its sentence."""
        self._full = [_part(self._kind, _whole(s)) for s in sources]
        self._known = frozenset(w for full in self._full for w in full.words)
        self._marks = frozenset(m for full in self._full for m in full.marks)
        self._sentences = [
            _part(self._kind, text[a:b]) for text in (title, body) for a, b in _spans(text, _SENTENCE)
        ]
        self._words = frozenset(w for s in self._sentences for w in s.words)

    def supports(self, source: Source) -> bool:
        """Whether one place says what the title of a source says."""
        title = self._titles[source.id]
        if not title.words:
            return False
        reading = _read(self._kind, source.title.removesuffix("…"))
        values = frozenset(t.text for t in reading.values if t.value not in ("symbol", "quote") and t.text)
        foreign = {w for s, p in self._titles.items() if s != source.id for w in p.words} - title.words
        pieces = len(_spans(source.title, _CLAUSE))
        return any(
            self._says(title, reading, values, run, joined and bool(run.words & foreign))
            for run, joined in self._runs(pieces)
        )

    def _runs(self, pieces: int) -> Iterator[tuple[_Part, bool]]:
        """Clauses, and neighbouring ones together; with whether there are more of them than one."""
        for text in (self._title, self._body):
            spans = _spans(text, _CLAUSE)
            for length in range(1, max(pieces, 2) + 1):
                for at in range(len(spans) - length + 1):
                    run = text[spans[at][0] : spans[at + length - 1][1]]
                    denials = {
                        bool(_part(self._kind, text[a:b]).marks & lex.DENIES)
                        for a, b in spans[at : at + length]
                    }
                    yield _part(self._kind, run), length > 1 and (length > pieces or len(denials) > 1)

    def _says(self, title: _Part, reading: Reading, values: frozenset[str], run: _Part, mixed: bool) -> bool:
        own = title.words & run.words
        borrowed = (title.words - own) & self._common & self._words
        missing = title.words - own - self._common
        if mixed or (title.words - self._common and not own - self._common):
            return False
        if values - run.words - borrowed - _read(self._kind, run.text).raw:
            return False
        if missing & self._words or len(missing) > self._may_miss(title):
            return False  # what stands elsewhere may have been exchanged
        around = [s for s in self._sentences if s.words & borrowed or run.text.strip() in s.text]
        if any(s.marks & lex.LIMITS - self._marks for s in around):
            return False  # under a condition of nobody's
        if title.words - own and any(s.words - self._known for s in (run, *around)):
            return False  # a word in the place of another
        said = _read(self._kind, run.text.strip())
        if any(opposes(reading, said) for opposes in _OPPOSING) or (missing and contrast.slot(reading, said)):
            return False
        return not any(_denied(reading, _read(self._kind, s.text)) for s in around if borrowed)

    def _may_miss(self, title: _Part) -> int:
        return int(MOST_MISSING * len(title.words)) if len(title.words) > _SHORT else 0

    def groundless(self, *, heading: bool) -> list[str]:
        """Sentences that come from no source, or deny what none denies.

        Args:
            heading: the title only says what the rest is about.
        """
        headings = len(_spans(self._title, _SENTENCE)) if heading else 0
        return [
            s.text.strip()
            for n, s in enumerate(self._sentences)
            if self._denies(s) or not (self._touches(s) if n < headings else self._grounded(s))
        ]

    def _touches(self, sentence: _Part) -> bool:
        return bool(sentence.words & self._known) and (
            not sentence.marks & lex.DENIES or any(f.marks & lex.DENIES for f in self._full)
        )

    def _denies(self, sentence: _Part) -> bool:
        """Whether it takes back what stands beside it, in words that no source has."""
        if sentence.words & _TAKING_BACK - self._known:
            return True
        return "!nolonger" in sentence.marks and not any("!nolonger" in f.marks for f in self._full)

    def _grounded(self, sentence: _Part) -> bool:
        if self._from_source(sentence):
            return True
        clauses = [_part(self._kind, sentence.text[a:b]) for a, b in _spans(sentence.text, _CLAUSE)]
        return len(clauses) > 1 and all(map(self._from_source, clauses))

    def _from_source(self, part: _Part) -> bool:
        denied = bool(part.marks & lex.DENIES)
        return any(
            len(part.words & full.words) >= _GROUNDED * len(part.words)
            and (not denied or bool(full.marks & lex.DENIES))
            and (bool(part.words) or not denied)
            for full in self._full
        )


_TAKING_BACK = frozenset(map(canon, lex.TAKING_BACK))


def _whole(source: Source) -> str:
    at = f"{source.occurred_at:%Y-%m-%d} {source.occurred_at:%Y-%m}"
    return "\n".join((source.title, source.body.replace("Asked:", ""), " ".join(source.files), at))
