"""The guards: each compares two readings and says whether the two differ in something that keeps facts apart. A guard may
speak where there is nothing to keep apart, which costs a repetition; what it must not do is stay silent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from maintenance import lexicon as lex
from maintenance.lexicon import canon
from maintenance.statement import Reading
from maintenance.tokens import Token

_COUNTED = ("number", "symbol")
_SHORT = 6
_NEAR = 2
_ALIKE = 0.7
"""The share of two titles' words from which one other word makes them two facts."""
_HARMLESS_VERBS = frozenset(map(canon, lex.HARMLESS_VERBS))
_OUTCOMES = frozenset(map(canon, lex.OUTCOMES))


def values(a: Reading, b: Reading) -> str | None:
    """Numbers, versions, paths, names and the like of which each has one that the other lacks: the kind of the first."""
    if a.values == b.values:
        return None
    lacking = (
        sorted((t.value, t.raw) for t in _lacking(a, b)),
        sorted((t.value, t.raw) for t in _lacking(b, a)),
    )
    if not lacking[0] or not lacking[1]:
        # An option more or less makes another command of it.
        return "flag" if _options(a) != _options(b) else None
    return min(lacking[0][0][0], lacking[1][0][0])


def _options(reading: Reading) -> frozenset[str]:
    return frozenset(t.text for s in reading.title for t in s.tokens if t.value == "flag")


def _lacking(a: Reading, b: Reading) -> list[Token]:
    """What a has and b lacks."""
    counts = Counter(t.text for t in b.values if t.value in _COUNTED)
    lacking = []
    for token in a.values:
        if token.value in _COUNTED:
            counts[token.text] -= 1
            if counts[token.text] < 0:
                lacking.append(token)
        elif not _stands_in(token, b):
            lacking.append(token)
    return lacking


def _stands_in(token: Token, other: Reading) -> bool:
    if token.value in ("identifier", "path", "hash", "url", "flag"):
        if any(token.text == t.text for t in other.values) or token.text in other.words:
            return True
        return token.value == "path" and any(
            t.value == "path" and same_path(token.text, t.text) for t in other.values
        )
    if token.value in ("code", "quote"):
        return token.raw.casefold() in other.raw
    return token.text in other.words or token.raw.casefold() in other.raw


def same_path(a: str, b: str) -> bool:
    """Whether two paths may name one file: one is the end of the other."""
    return a == b or a.endswith(f"/{b.lstrip('./')}") or b.endswith(f"/{a.lstrip('./')}")


def files(a: Reading, b: Reading, *, fix: bool) -> bool:
    """The two come from work on different files. That parts mended faults, which often read alike; and short statements,
    whose words may be a template."""
    if not a.files or not b.files or any(same_path(x, y) for x in a.files for y in b.files):
        return False
    return fix or min(_size(a), _size(b)) < _SHORT


def _size(reading: Reading) -> int:
    return sum(1 for s in reading.sentences for t in s.texts if not t.startswith("!"))


def surroundings(a: Reading, b: Reading) -> bool:
    """One of them leans on the question it answered ("it was slower"), or is short, and the questions are about something
    else; or two short titles are equal and what stands below them has nothing in common."""
    if a.asked.casefold() != b.asked.casefold() and (a.leans or b.leans):
        return True
    if a.named - b.named and b.named - a.named and min(_size(a), _size(b)) < _SHORT:
        return True
    if a.titled != b.titled or not a.body or not b.body or len(a.titled) > _SHORT:
        return False
    ours, theirs = ({w for s in x.body for w in s.texts} - set(x.titled) for x in (a, b))
    return not ours & theirs


def negation(a: Reading, b: Reading) -> bool:
    """A word that both use is denied in one of them only, or one denies its very statement."""
    if (a.marks | b.marks) & lex.DENIES:
        for word, of_a in a.polarity.items():
            of_b = b.polarity.get(word)
            if of_b and of_b != of_a and (word not in _HARMLESS_VERBS or not of_a & of_b):
                return True
        if any(b.undenied.get(texts, count) != count for texts, count in a.undenied.items()):
            return True
        if a.retracts != b.retracts or a.words & lex.WHOLES != b.words & lex.WHOLES:
            return True
    return a.signs != b.signs


def antonym(a: Reading, b: Reading) -> bool:
    """Each uses a word of which the other uses an opposite."""
    ours, theirs = a.opposing, b.opposing
    if ours != theirs:
        for group, sides in ours.items():
            others = theirs.get(group)
            if others and sides - others and others - sides:
                return True
    only, instead = a.words - b.words, b.words - a.words
    return any(
        undo + w in others or (w.endswith("ful") and f"{w[:-3]}less" in others)
        for ours, others in ((only, instead), (instead, only))
        for w in ours
        for undo in lex.UNDOING
    )


def order(a: Reading, b: Reading) -> bool:
    """The same words in swapped places."""
    if any(left != right and (mark, right, left) in b.relations for mark, left, right in a.relations):
        return True
    ours, theirs = a.titled, b.titled
    if ours == theirs or set(a.title) == set(b.title):
        return _whole_reordered(a, b)
    return _shuffled(ours, theirs) or _shuffled(theirs, ours) or _whole_reordered(a, b)


def _whole_reordered(a: Reading, b: Reading) -> bool:
    """All sentences together hold the same words, and the sentences are not the same; or are steps in another order."""
    if set(a.sentences) == set(b.sentences):
        return _sequenced(a) and a.sentences != b.sentences
    if a.told == b.told:
        return False
    return Counter(a.told) == Counter(b.told)


def _sequenced(reading: Reading) -> bool:
    """Whether its sentences may be steps, whose order says something."""
    return "!then" in reading.marks or "first" in reading.words or any(len(s.texts) < 4 for s in reading.body)


def _shuffled(short: Sequence[str], long: Sequence[str]) -> bool:
    """All words of the short one stand in the long one, but not in that order."""
    if len(short) < _NEAR or Counter(short) - Counter(long):
        return False
    rest = iter(long)
    return not all(word in rest for word in short)


def condition(a: Reading, b: Reading) -> bool:
    """One holds under a condition, or in a place, at a time, for somebody, and the other does not."""
    return limited(a, b) or _narrowed(a, b) or _narrowed(b, a)


def limited(a: Reading, b: Reading) -> bool:
    """One holds under a condition, within a limit or until something, and the other does not."""
    ours, theirs = _marks(a, b)
    return (ours & lex.LIMITS) != (theirs & lex.LIMITS)


def _narrowed(long: Reading, short: Reading) -> bool:
    """Whether a title is the other one and some words more, of which the other memory says nothing at all."""
    if not long.title or not short.title:
        return False
    more, less = _statement(long), _statement(short)
    extra = len(more) - len(less)
    if extra < 1 or len(less) < _NEAR:
        return False
    at = next((i for i, (x, y) in enumerate(zip(more, less, strict=False)) if x != y), len(less))
    added = {w for w in more[at : at + extra] if not w.startswith("!")} - lex.CONNECTING
    return more[at + extra :] == less[at:] and bool(added) and not added <= short.words


def _statement(reading: Reading) -> tuple[str, ...]:
    """The first fragment of a title; what stands behind a pause is a detail."""
    return tuple(t.text for t in reading.title[0].fragments[0] if t.text)


def _marks(a: Reading, b: Reading) -> tuple[frozenset[str], frozenset[str]]:
    """The marks of both; a reason that only one of them gives limits nothing."""
    if a.explained is not None and b.explained is None:
        return a.explained, b.marks
    if b.explained is not None and a.explained is None:
        return a.marks, b.explained
    return a.marks, b.marks


def modality(a: Reading, b: Reading) -> bool:
    """One must, the other should or may; or one only may be or is only planned."""
    weak = {"!may", "!plan", "!maybe", "!seldom", "!sometimes", "!often"}
    ours, theirs = _marks(a, b)
    if ours & weak != theirs & weak:
        return True
    duty = {"!must", "!should", "!may"}
    return bool((ours & duty) - theirs and (theirs & duty) - ours)


def outcome(a: Reading, b: Reading) -> bool:
    """One was tried, weighed or given up, and the other is done."""
    return (a.tried & _OUTCOMES) != (b.tried & _OUTCOMES)


def tense(a: Reading, b: Reading) -> bool:
    """One was so, and the other is."""

    def past(x: Reading, y: Reading) -> bool:
        return bool(
            x.raw & lex.PAST and not x.raw & lex.PRESENT and y.raw & lex.PRESENT and not y.raw & lex.PAST
        )

    return past(a, b) or past(b, a) or ("!formerly" in a.marks) != ("!formerly" in b.marks)


def slot(a: Reading, b: Reading) -> bool:
    """One frame, and in one place another word: what is no synonym may be another thing."""
    if not a.title or not b.title:
        return False
    ours, theirs = a.title[0].texts, b.title[0].texts
    if ours == theirs:
        return any(_slot(x.texts, y.texts, 1) for x in a.body for y in b.body if x != y)
    return _slot(ours, theirs, _NEAR) or _one_word(ours, theirs)


def _one_word(ours: tuple[str, ...], theirs: tuple[str, ...]) -> bool:
    """The same words but for one of each, wherever it stands; that one is no verb that stands for many."""
    one, two = ({w for w in x if not w.startswith("!")} - lex.CONNECTING for x in (ours, theirs))
    other = one ^ two
    if len(one) != len(two) or len(other) != 2 or other & _HARMLESS_VERBS:
        return False
    return len(one & two) >= _ALIKE * len(one)


def _slot(ours: tuple[str, ...], theirs: tuple[str, ...], frame: int) -> bool:
    ahead = next((i for i, (x, y) in enumerate(zip(ours, theirs, strict=False)) if x != y), None)
    if ahead is None:
        return False
    ours, theirs = ours[ahead:], theirs[ahead:]
    behind = next(
        (i for i, (x, y) in enumerate(zip(reversed(ours), reversed(theirs), strict=False)) if x != y),
        min(len(ours), len(theirs)),
    )
    left = [
        sum(
            1 if word < "\u3040" else 1 / _NEAR
            for word in words[: len(words) - behind]
            if word not in lex.CONNECTING
        )
        for words in (ours, theirs)
    ]
    return min(left) > 0 and max(left) <= _NEAR and ahead + behind >= max(frame, max(left))
