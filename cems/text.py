"""Small operations on text which several packages need in exactly one way. What `sanitise` returns can be
stored in Postgres, written as JSON and encoded as UTF-8; what `shorten` returns says how much it left out;
and `normalise` gives equal results for texts that differ in nothing but typing."""

from __future__ import annotations

import unicodedata

# Joiners and selectors belong to the character before them: a cut must not separate the two.
_ATTACHED = frozenset("\u200d\ufe0e\ufe0f\u20e3") | {chr(tone) for tone in range(0x1F3FB, 0x1F400)}
_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and signs that show nothing."""
_TRAILING = " .,;:!?\u3002\u3001"


def sanitise(text: str) -> str:
    """The same text without what Postgres or JSON refuse: NULs go, a surrogate pair becomes its character
    and a lone surrogate the replacement character. Everything else stays, tabs and line ends included."""
    if text.isascii():
        return text.replace("\0", "") if "\0" in text else text
    try:
        return text.replace("\0", "") if b"\0" in text.encode() else text
    except UnicodeEncodeError:
        return text.replace("\0", "").encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def shorten(text: str, limit: int, *, keep_tail: float = 0.0) -> str:
    """At most `limit` characters of the text, with a note of how many were left out. `keep_tail` is the
    share of the kept characters that comes from the end of the text. A limit too small for the note cuts
    without one."""
    if len(text) <= limit:
        return text
    # The longest note this text could need sets the room, so that the number in it cannot push it over the
    # limit.
    room = limit - len(_note(len(text)))
    if room <= 0:
        return text[: _boundary(text, max(limit, 0))]
    tail = int(room * min(max(keep_tail, 0.0), 1.0))
    begin = _boundary(text, room - tail)
    end = len(text) if tail == 0 else _boundary(text, len(text) - tail, forward=True)
    return text[:begin] + _note(end - begin) + text[end:]


def one_line(text: str, limit: int) -> str:
    """The text on one line, all white space collapsed, at most `limit` characters; an ellipsis marks what
    is gone."""
    # Splitting a prefix is enough: nobody wants a line of 100 MB, and white space rarely makes up most of a
    # text.
    line = " ".join(text[: limit * 8 + 256].split())
    if len(line) > limit or len(text) > limit * 8 + 256:
        return line[: _boundary(line, max(min(limit - 1, len(line)), 0))].rstrip() + "…" if limit > 0 else ""
    return line


def normalise(text: str) -> str:
    """The form in which two texts are compared or hashed: compatibility characters unified, case and the
    amount of white space ignored, trailing punctuation dropped."""
    # Folding can undo the normal form and the normal form can bring back what folding removed; twice settles
    # both.
    for _ in range(2):
        text = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(unicodedata.normalize("NFKC", text).split()).rstrip(_TRAILING)


def visible(text: str) -> bool:
    """Whether anything of a text can be seen: spaces, controls, marks and fillers cannot."""
    return any(c not in _BLANK and unicodedata.category(c)[0] not in "CZM" for c in text)


def _note(count: int) -> str:
    return f" […{count:,} characters left out…] "


def _boundary(text: str, at: int, *, forward: bool = False) -> int:
    """The nearest place to `at` where no character is separated from the marks that belong to it."""
    place = at
    for _ in range(16):  # a longer pile of marks is an attack on the reader, not a character
        if not 0 < place < len(text):
            return place
        if not (_is_attached(text[place]) or text[place - 1] == "\u200d"):
            return place
        place += 1 if forward else -1
    return at


def _is_attached(character: str) -> bool:
    return character in _ATTACHED or unicodedata.combining(character) != 0
