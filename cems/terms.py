"""The keyword side of a text: the words that a language's stemmer would miss. Identifiers are split at underscores and
camel humps and kept whole as well, paths give their parts, and scripts without spaces give pairs of characters. Writing
and searching use the same function, so that both sides agree."""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
import re
import unicodedata
from collections.abc import Sequence

TERMS_LIMIT = 8000
"""Characters of terms a memory keeps."""
AROUND_LIMIT = 2000
"""Characters a memory keeps of what stood around it."""
WORDS_LIMIT = 48
"""Words of a question that are searched for; a longer text says no more about what it is about."""

_TOKEN = re.compile(r"[^\W_]+(?:[._\-:/@#+][^\W_]+)*[+#]*", re.UNICODE)
_PARTS = re.compile(r"[._\-:/@#+]+")
_HUMPS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\u0e00-\u0e7f]+")

# Words that say nothing about what a text is about; a stemmer's list would be larger and would drop "not".
_STOP = frozenset(
    """
    a an and are as at be been but by can could did do does for from had has have he her his how i if in
    into is it its just me my of on or our she should so some than that the their them then there these
    they this those to too up us was we were what when where which who why will with would you your
    about after all also any because before being both each few more most other over same such through
    under until very while
    s t ll re ve
    """.split()  # noqa: SIM905 - a list of words reads as words
)


def terms(*texts: str) -> str:
    """The terms of some texts, each once, in order, joined by spaces, within the limit."""
    seen: dict[str, None] = {}
    for text in texts:
        for term in tokens(text):
            if term not in _STOP:
                seen.setdefault(term)
    out, length = [], 0
    for term in seen:
        length += len(term) + 1
        if length > TERMS_LIMIT:
            break
        out.append(term)
    return " ".join(out)


def memory_terms(title: str, body: str, files: Sequence[str] = (), at: dt.datetime | None = None) -> str:
    """The terms of a memory: of its text and its files, and the month it happened in, because questions name it."""
    return terms(title, body, *files, f"{at:%B %Y}" if at else "")


def around(before: str, *others: str) -> str:
    """What stood around a memory in its session, within the limit, a line each: what was said just before it (the question
    of its turn), which its vector knows too, then the rest, nearest first. They share the room evenly."""
    lines = [" ".join(text.split()) for text in (before, *others)]
    share = AROUND_LIMIT // len(lines) - 1
    return "\n".join(line[:share] for line in lines).rstrip("\n")


@dataclasses.dataclass(frozen=True)
class Word:
    """A word of a question."""

    text: str
    identifier: bool
    """A name as programs have them: `handleError`, `db/search.py`, `E0432`. One such match is evidence by itself."""
    share: float = 1.0
    """An identifier and its parts share the weight of one word."""


def words(question: str) -> list[Word]:
    """What to search for, each once: identifiers first where there are more than `WORDS_LIMIT`. A run of a script without
    spaces stands as its pairs alone: no memory holds the same whole sentence."""
    found: dict[str, Word] = {}
    for match in _TOKEN.finditer(_composed(question)):
        whole, named = _plain(match[0]), _is_identifier(match[0])
        asked = [t for t in dict.fromkeys(tokens(match[0])) if _is_asked(t, whole)]
        share = 1.0 if _UNSPACED.search(whole) else 1 / max(len(asked), 1)
        for text in asked:
            before = found.get(text, Word(text, False, 0.0))
            word = Word(text, before.identifier or (named and text == whole), max(before.share, share))
            found[text] = word
    ordered = list(found.values())
    if len(ordered) > WORDS_LIMIT:
        ordered.sort(key=lambda word: not word.identifier)
    return ordered[:WORDS_LIMIT]


def tokens(text: str) -> list[str]:
    """Every term of a text, in order, with repetitions."""
    found: list[str] = []
    for match in _TOKEN.finditer(_composed(text)):
        token = match[0]
        if len(token) > 200:
            continue
        found.append(_plain(token))
        parts = [p for p in _PARTS.split(token) if p]
        for part in parts:
            if len(parts) > 1:
                found.append(part.lower())
            humps = _humps(part)
            if len(humps) > 1:
                found.extend(h.lower() for h in humps if len(h) > 1)
            for run in _UNSPACED.findall(part):
                found.extend(run[i : i + 2] for i in range(max(len(run) - 1, 1)))
    return [t for t in found if t]


def _composed(text: str) -> str:
    """Letters with their marks as one character each: a mark by itself, as in file names of macOS, would end a word."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _humps(part: str) -> list[str]:
    """The words of a name in camel case, of any alphabet: each letter stands for its case when humps are looked for."""
    if part.isascii():
        return _HUMPS.findall(part)
    cases = "".join(
        "A" if c.isupper() else "0" if c.isdecimal() else "a" if c.isalpha() else "_" for c in part
    )
    return [part[match.start() : match.end()] for match in _HUMPS.finditer(cases)]


def _plain(token: str) -> str:
    """A whole identifier as one word that Postgres's parser leaves in one piece."""
    return _PARTS.sub("", token).lower() or token.lower()


def _is_asked(token: str, whole: str) -> bool:
    """Whether a token of a question is searched for."""
    run = _UNSPACED.search(token)
    return not (token in _STOP or (run and len(run[0]) > 2) or (token != whole and token.isdigit()))


def _is_identifier(token: str) -> bool:
    """Whether a token is a name as programs have them: parts joined by more than a hyphen or one slash, a hump inside, or
    letters beside digits."""
    if len(token) < 4 or not any(c.isalpha() for c in token):
        return False
    joined = bool(re.search(r"[._:@#]", token)) or token.count("/") > 1
    humped = any(a.islower() and b.isupper() for a, b in itertools.pairwise(token))
    return joined or humped or any(c.isdigit() for c in token)
