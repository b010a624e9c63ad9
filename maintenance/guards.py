"""Which memories are the same fact, as far as rules can tell. A wrong merge loses a fact and is never acceptable; a missed
one is only a repetition. So two statements are the same only where their canonical forms are equal, or one of them merely
says more; and before that every guard has to be silent. Nearness of vectors alone proves nothing: "tabs over spaces" and
"spaces over tabs" lie at .986."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from maintenance import contrast
from maintenance import lexicon as lex
from maintenance.statement import Reading, is_reason, read
from maintenance.statement import Statement as Statement
from maintenance.tokens import Sentence, Token

# Measured with bge-small-en-v1.5-int8@384 on tests/pairs (least, median, greatest cosine; how many at .92 or more). Nothing
# parts the two halves: what follows from nearness is only that a pair is worth a look.
#
#   the same fact                            different facts
#   typing       30  .862 .982 1.000  28     values          60  .708 .929  .989  34
#   words        50  .897 .974  .996  48     negations       35  .789 .922  .984  21
#   sentence     24  .706 .895  .973   9     opposites       53  .839 .937 1.000  35
#   detail       21  .736 .897  .979   8     environments    20  .745 .884  .949   7
#   languages    16  .929 .975  .988  16     supersessions   25  .696 .870  .967   5
#   long          8  .887 .985  .994   7     traps          240  .670 .932 1.000 140
#   plain        33  .864 .971 1.000  32     other places    17    1.000          17
THRESHOLD = 0.92
"""The cosine from which on two memories may be the same fact at all."""

GUARDS: tuple[tuple[str, Callable[[Reading, Reading], bool]], ...] = (
    ("length", lambda a, b: a.rest != b.rest),
    ("question", lambda a, b: a.question != b.question),
    ("surroundings", contrast.surroundings),
    ("order", contrast.order),
    ("negation", contrast.negation),
    ("antonym", contrast.antonym),
    ("condition", contrast.condition),
    ("modality", contrast.modality),
    ("outcome", contrast.outcome),
    ("tense", contrast.tense),
    ("word", contrast.slot),
)
"""In the order in which they are asked, after project, kind, files and values."""


def why_apart(a: Statement, b: Statement) -> str | None:
    """A short word for the first guard that keeps two statements apart, or None where none does."""
    if a.project != b.project:
        return "project"
    if a.kind != b.kind:
        return "kind"
    if a == b:
        return None
    ours, theirs = read(a), read(b)
    if contrast.files(ours, theirs, fix=a.kind in ("bugfix", "deadend")):
        return "path"
    return contrast.values(ours, theirs) or next(
        (name for name, parts in GUARDS if parts(ours, theirs)), None
    )


def same_fact(a: Statement, b: Statement, cosine: float, threshold: float = THRESHOLD) -> bool:
    """Whether, by rule alone, the two say the same fact. Never true where a guard speaks, and never where the cosine is no
    number."""
    if not cosine >= threshold or why_apart(a, b):
        return False
    ours, theirs = read(a), read(b)
    if not ours.title or not theirs.title or ours.cut or theirs.cut:
        return (a.title, a.body) == (b.title, b.body)
    return _says_all(ours, theirs, a.kind) or _says_all(theirs, ours, a.kind)


def _says_all(more: Reading, less: Reading, kind: str) -> bool:
    """Whether one says all that the other says, about the same, and nothing that changes it."""
    richer, poorer = _fullest(more), _fullest(less)
    if more.titled == less.titled:
        # Full stops and commas inside a title are a matter of taste.
        richer = [s for s in richer if s not in more.title]
        poorer = [s for s in poorer if s not in less.title]
    elif not _one_title(more.title[0], less.title[0]):
        return False
    covered: list[Sentence] = []
    details: list[Sequence[Token]] = []
    for sentence in poorer:
        match = next((s for s in richer if s == sentence or _goes_on(s, sentence)), None)
        if match is None:
            return False
        covered.append(match)
        details += match.fragments[len(sentence.fragments) :]
    details += [s.tokens for s in richer if s not in covered]
    if details and not (_specific(less, kind) and all(_harmless(d) for d in details)):
        return False
    return _to_the_letter(less, more) and (bool(details) or _to_the_letter(more, less))


def _fullest(reading: Reading) -> list[Sentence]:
    """Its sentences without those that another one only goes on from."""
    return [s for s in reading.sentences if not any(_goes_on(o, s) for o in reading.sentences)]


def _one_title(a: Sentence, b: Sentence) -> bool:
    return a == b or _goes_on(a, b) or _goes_on(b, a)


def _goes_on(long: Sentence, short: Sentence) -> bool:
    """Whether the long one says the short one and then a detail: a reason, a consequence, or what stands behind a colon."""
    count = len(short.fragments)
    if len(long.fragments) <= count or long.texts[: len(short.texts)] != short.texts:
        return False
    if sum(1 for f in long.fragments[:count] for t in f if t.text) != len(short.texts):
        return False
    return long.pauses[count] in _ADDING or long.fragments[count][0].text in lex.OPENS


_LATIN = "\u0250"
"""From here on scripts begin in which no denial would be noticed."""
_ADDING = frozenset(":—-：")


def _specific(reading: Reading, kind: str) -> bool:
    """Whether the shorter one says enough to be about one thing only. Faults often share short titles."""
    words = [t for t in reading.title[0].tokens if t.text and not t.text.startswith("!")]
    if kind in ("bugfix", "deadend"):
        return len(words) >= 5 or (len(words) >= 4 and any(t.value for t in words))
    return len(words) >= 3 or any(t.value for t in words)


def _harmless(detail: Sequence[Token]) -> bool:
    """Whether a detail can neither take back nor narrow what it is added to."""
    marks = {t.text for t in detail if t.text.startswith("!")}
    if is_reason(detail):
        marks -= lex.IN_REASONS
    if marks & (lex.DENIES | lex.LIMITS | {"!but", "!plan", "!may", "!maybe", "!then", "!formerly"}):
        return False
    if any(c >= _LATIN for t in detail for c in t.raw):
        return False
    return not any(t.raw.casefold() in lex.NARROWING for t in detail if t.text not in lex.IN_REASONS)


def _to_the_letter(a: Reading, b: Reading) -> bool:
    """Whether every value of one stands in the other as it is written: commands and quotations know no synonyms."""
    return all(t.text in b.words or t.raw.casefold() in b.raw for t in a.values) and all(
        t.raw.casefold() in b.raw for t in a.values if t.value in ("code", "quote")
    )
