"""Text → words and values as they are written: numbers with their units, versions, paths, identifiers and plain words, cut
into sentences and fragments at punctuation. Nothing here knows what a word means."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from maintenance import lexicon as lex

Word = tuple[str, str]
"""Its class (`word`, `number`, `path`, …), and as it is written."""
Fragment = tuple[str, list[Word]]
"""What stands between two pauses, behind the first of them."""

_LOOKALIKES = str.maketrans(
    {"“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "‘": "'", "’": "'", "–": "—", "…": " "}
)
_TOKEN = re.compile(
    r"""
    (?P<url>[a-z][a-z+]*://[^\s<>"'`）]+)
  | (?P<date>\b\d{4}-\d{2}(?:-\d{2})?\b)
  | (?P<time>\b\d{1,2}:\d{2}(?::\d{2})?\b)
  | (?P<flag>(?<![\w-])--?[a-zA-Z][\w-]*(?:=[^\s,;"'`]+)?)
  | (?P<path>(?:[~.]{1,2}/|/)[\w@*{}.+-]+(?:/[\w@*{}.+-]+)*/?
           | [\w@*{}.+-]+(?:/[\w@*{}.+-]+)+/? | [\w@*{}.+-]+/(?![\w/])
           | \*+\.\w+ | (?<![\w.])\.[a-z][\w-]*(?:\.\w+)*)
  | (?P<version>\bv?\d+(?:\.\d+)+(?:-[a-z0-9.]*[a-z0-9])?(?![\w]))
  | (?P<number>(?<![\w.])-?\d{1,3}(?:,\d{3})+(?!\d)|(?<![\w.])-?\d+(?![\w]|\.\d)|(?<![\w.])-?\d+(?=(?:UNITS)\b))
  | (?P<identifier>(?<!\w)[a-z](?:\+\+|\#)(?![\w#+]))
  | (?P<name>[^\W_]+(?:['_.:@$-]+[^\W_]+)*_*(?:\(\))?|_+\w+(?:\(\))?)
  | (?P<end>[.!?;。！？；\n]+)
  | (?P<pause>[,:，、：—]|\s-\s)
  | (?P<open>[(（[])|(?P<close>[)）\]])
  | (?P<tick>`)|(?P<quote>")
  | (?P<symbol>[^\s\w'.,;:!?()\[\]"`]+)
    """.replace("UNITS", "|".join(sorted(filter(str.isalpha, lex.UNITS), key=len, reverse=True))),
    re.X | re.I,
)  # fmt: skip
_UNIT = re.compile(r"\s?(%|[a-zA-Z]+)")
_BITS = re.compile(r"[KMGT]i?b|M")
"""Units whose capitals make them others than those of bytes, or than minutes."""
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\u0e00-\u0e7f]")
_MARKUP = re.compile(r"^\s*[-*•]\s+|\*\*(\S[^*\n]*)\*\*", re.M)
_HUMP = re.compile(r"[a-z\d][A-Z]")
_ELISION = re.compile(r"\b(?:[nldjsmtc]|qu)'(?=\w)", re.I)
_FILE_END = re.compile(
    r"\w\.(?:py|ts|tsx|jsx?|go|rs|rb|java|kt|c|h|cpp|sh|sql|json|ya?ml|toml|md|txt|css|html|csv|ini|lock|env|tf|j2|hcl)$"
)
_HEX = re.compile(r"(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}$")


_ABBREVIATIONS = ("e.g", "i.e", "z.b", "p.ej", "d.h")


def fragments(text: str) -> Iterator[list[Fragment]]:
    """The sentences of a text, each as its fragments."""
    text = unicodedata.normalize("NFKC", text.translate(_LOOKALIKES)).translate(_LOOKALIKES)
    return _split(_scan(_MARKUP.sub(lambda m: m[1] or "", text)))


def _scan(text: str) -> Iterator[Word]:
    """Tokens as (class, words as written)."""
    ticked = quoted = False
    at = 0
    while match := _TOKEN.search(text, at):
        at, group, words = match.end(), match.lastgroup or "", match[0]
        if group == "tick":
            ticked = not ticked
            continue
        if group == "quote":
            quoted = not quoted
            continue
        if group == "number":
            unit = _UNIT.match(text, at)
            name = lex.UNITS.get(unit[1].casefold(), "") if unit else ""
            if unit and _BITS.fullmatch(unit[1]):
                name = unit[1]
            words = words.replace(",", "")
            if unit and name and (unit[0][0] != " " or name not in ("k", "m", "b", "em")):
                at = unit.end()
                words = f"{words}000" if name == "k" else words + name
            yield group, words
        elif group in ("name", "path", "flag", "url", "version", "date", "time", "symbol"):
            yield from _named(
                group, words.rstrip(".,:;!?") or words, "code" if ticked else "quote" if quoted else ""
            )
            if words.endswith((".", "!", "?", ";")) and len(words) > 1 and group in ("url", "path"):
                yield "end", words[-1]
        else:
            yield group, words


def _named(group: str, words: str, marked: str) -> Iterator[Word]:
    """What a word with or without joints is: an identifier in one piece, or several plain words."""
    if group != "name":
        path = group == "path" and re.fullmatch(r"[^\W\d_]+(?:/[^\W\d_]+)+", words)
        yield ("word" if path and words.count("/") == 1 else group, words)
        return
    words = words.rstrip("'") or words
    if _UNSPACED.search(words):
        for part in re.findall(r"[0-9A-Za-z_.-]+|[^\W0-9A-Za-z_]", words):
            yield (("number" if part.isdigit() else "word" if part.isalpha() else "identifier"), part)
        return
    bare = _ELISION.sub(lambda m: m[0][:-1] + " ", words)
    if _FILE_END.search(words):
        yield "path", words
    elif _HUMP.search(words) or any(joint in words for joint in ("@", "_", "()", ":")):
        yield "identifier", words.removesuffix("()")
    elif any(c.isdigit() for c in words) and any(c.isalpha() for c in words):
        # A capital at the beginning may be a sentence's.
        plain = words.lower() if words[1:] == words[1:].lower() else words
        yield "hash" if _HEX.match(words) else "identifier", plain
    elif _is_dotted(words) or _is_header(words):
        yield "identifier", words
    else:
        for part in re.split(r"[-. ]+", bare):
            if part := re.sub("'s$|'$", "", part):
                yield (marked or "word", part)


def _is_dotted(words: str) -> bool:
    return "." in words and not words.lower().startswith(_ABBREVIATIONS)


def _is_header(words: str) -> bool:
    """`X-Request-Id`, and not `thread-safe` or `READ-ONLY`."""
    return "-" in words and not words.isupper() and all(part[:1].isupper() for part in words.split("-"))


def _split(scanned: Iterator[Word]) -> Iterator[list[Fragment]]:
    """Sentences as fragments, each behind its pause; what stands in parentheses is a sentence of its own, behind."""
    sentence: list[Fragment] = [("", [])]
    aside: list[Fragment] = []
    depth = 0
    for group, words in scanned:
        if group == "open":
            depth += 1
            aside.append(("", []))
        elif group == "close":
            depth = max(depth - 1, 0)
        elif depth and group not in ("end", "pause"):
            aside[-1][1].append((group, words))
        elif group == "end":
            yield sentence
            yield from ([a] for a in aside)
            sentence, aside, depth = [("", [])], [], 0
        elif group == "pause" and not depth:
            sentence.append((words.strip(), []))
        elif group != "pause":
            if sentence[-1][1] and (
                lex.MARKS.get(words.casefold()) == "!because" or words.casefold() == "since"
            ):
                sentence.append(("", []))
            sentence[-1][1].append((group, words))
    yield sentence
    yield from ([a] for a in aside)
