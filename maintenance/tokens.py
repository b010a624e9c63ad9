"""Text → sentences of tokens in one canonical form. Words lose their endings, synonyms become one, what adds nothing goes;
a clause in front of its statement moves behind it, and a passive is turned round where it is certain who does what.
Two sentences of equal tokens say the same; unequal ones may still."""

from __future__ import annotations

import dataclasses
import functools
import re

from cems.models import Kind
from maintenance import lexicon as lex
from maintenance import scanning
from maintenance.lexicon import canon, stem
from maintenance.scanning import Fragment, Word

_CAUSE_LEAD = re.compile(
    r"^(?:the )?(?:root |real |actual |underlying |main )?(?:cause|culprit)(?: (?:was|is)(?: that)?\b|:)\s*|"
    r"^the (?:bug|problem|issue) (?:was|is) that\b\s*",
    re.I,
)
_PASCAL = re.compile(r"(?:[A-Z][a-z]+)+[A-Z]*$|[A-Z]+[a-z]+$")


@dataclasses.dataclass(frozen=True)
class Token:
    """A word, a value or a mark."""

    text: str
    """In canonical form; what is compared."""
    raw: str
    """As it is written."""
    value: str = ""
    """For what has to agree to the letter, what it is: `number`, `path`, `identifier`, …"""


@dataclasses.dataclass(frozen=True)
class Sentence:
    """What is said between two full stops."""

    fragments: tuple[tuple[Token, ...], ...]
    """The statement first."""
    pauses: tuple[str, ...] = ()
    """What stands in front of each: a comma, a colon, nothing."""
    marks: frozenset[str] = frozenset()
    """Every mark, those that the canonical form leaves out included."""
    raw: frozenset[str] = frozenset()
    """Every word as written, in small letters."""

    @functools.cached_property
    def tokens(self) -> tuple[Token, ...]:
        """All of them in order."""
        return tuple(t for fragment in self.fragments for t in fragment)

    @functools.cached_property
    def texts(self) -> tuple[str, ...]:
        """The canonical form."""
        return tuple(t.text for t in self.tokens if t.text)

    def __hash__(self) -> int:
        return hash(self.texts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sentence) and self.texts == other.texts


def language_of(text: str) -> str:
    """The language most of whose small words stand in a text; English where none does."""
    words = {w.casefold() for w in re.findall(r"[^\W\d_]+", text) if len(w) == 1 or not w.isupper()}
    return max(lex.LANGUAGE, key=lambda name: (len(words & lex.LANGUAGE[name]), name == "en"))


def sentences(text: str, language: str, kind: Kind) -> tuple[Sentence, ...]:
    """The sentences of a text that say something, each in its canonical form."""
    if kind == "bugfix":
        text = _CAUSE_LEAD.sub("", text)
    left_out = {"!be", "!that", "!there"} | ({"!must", "!should"} if kind == "preference" else set())
    found = []
    for fragments in map(_told, scanning.fragments(text)):
        raw = frozenset(words.casefold() for _, f in fragments for _, words in f)
        canonical = [(pause, _canonical(f, language)) for pause, f in _led(fragments)]
        marks = {t.text for _, f in canonical for t in f if t.text.startswith("!")}
        if kind == "preference" and "!should" in marks:
            marks = marks - {"!should"} | {"!must"}  # who states a rule means both alike
        if canonical:
            canonical[0] = canonical[0][0], _turned(canonical[0][1], kind)
        kept = [(p, k) for p, f in canonical if (k := tuple(t for t in f if t.text not in left_out))]
        if kept:
            found.append(
                Sentence(tuple(k for _, k in kept), tuple(p for p, _ in kept), frozenset(marks), raw)
            )
    return tuple(found)


def _told(fragments: list[Fragment]) -> list[Fragment]:
    """The fragments that are left without the phrases that say nothing."""
    told = []
    for pause, words in fragments:
        kept: list[Word] = []
        at = 0
        while at < len(words):
            meaning, length = _phrase(words, at)
            if not length or meaning:
                kept += words[at : at + max(length, 1)]
            at += max(length, 1)
        if kept:
            told.append((pause, kept))
    return told


def _led(fragments: list[Fragment]) -> list[Fragment]:
    """The fragments with the statement first: a condition, a reason or a place in front of it moves behind it."""
    if not fragments:
        return []
    head, *rest = fragments
    words = [w.casefold() for _, w in head[1]]
    first = lex.MARKS.get(words[0]) or canon(words[0])
    if first not in lex.LEADING and words[0] != "since":
        return fragments
    if rest:
        return [("", rest[0][1]), ("", head[1]), *rest[1:]]
    verbs = (
        i
        for i, w in enumerate(words)
        if i >= 2 and w in lex.IMPERATIVES and words[i - 1] not in lex.BEFORE_NOUNS
    )
    at = next(verbs, 0)
    return [("", head[1][at:]), ("", head[1][:at])] if at else fragments


def _canonical(fragment: list[Word], language: str) -> list[Token]:
    """The tokens of one fragment."""
    out: list[Token] = []
    at = 0
    while at < len(fragment):
        group, raw = fragment[at]
        if group in ("word", "code", "quote"):
            meaning, length = _phrase(fragment, at)
            if length:
                out += [Token(m if m.startswith("!") else canon(m), raw) for m in meaning.split()]
                at += length
                continue
            out += _word(group, raw, fragment, at, language)
        else:
            out.append(Token(_plain_value(group, raw), raw, group))
        at += 1
    return _settled(out)


def _plain_value(group: str, raw: str) -> str:
    """A value in the form in which it is compared."""
    if group == "version":
        return raw.lower().removeprefix("v")
    if group == "identifier" and _PASCAL.match(raw):
        return canon(raw.lower())
    return raw.rstrip("/") or raw if group in ("url", "path") else raw


def _phrase(fragment: list[Word], at: int) -> tuple[str, int]:
    """The longest phrase that begins here: its meaning, and how many words it has."""
    for length in _PHRASE_LENGTHS.get(fragment[at][1].casefold().replace("'", ""), ()):
        words = " ".join(w for _, w in fragment[at : at + length]).casefold().replace("'", "")
        if words in lex.PHRASES:
            return lex.PHRASES[words], length
    return "", 0


def _word(group: str, raw: str, fragment: list[Word], at: int, language: str) -> list[Token]:
    """The tokens of one word: none where it says nothing, two where it does two jobs."""
    low = raw.casefold()
    value = "" if group == "word" else group
    if not value and low == "since" and _is_reason(fragment, at):
        return [Token("!because", raw)]
    if (low in lex.DATES or stem(low) in lex.DATES) and (low not in ("march", "august") or raw[0].isupper()):
        return [Token(stem(low), raw, value or "date")]
    if (mark := lex.MARKS.get(low)) and not (raw == "May" and at):
        return [Token(m, raw, value) for m in mark.split()]
    if low == "plus" and language == "fr":
        return [Token("!nolonger", raw)]
    if _says_nothing(raw, fragment, at, language):
        # A word of a command says nothing in prose, and still has to agree: it stays among the written words.
        return [Token("", raw, value)] if value else []
    if low in lex.NUMBER_WORDS:
        return [Token(lex.NUMBER_WORDS[low], raw, "number")]
    if not value and (low in lex.TOOLS or (raw[0].isupper() and at and (raw == "C" or not raw.isupper()))):
        value = "name"
    return [Token(canon(low), raw, value)]


def _says_nothing(raw: str, fragment: list[Word], at: int, language: str) -> bool:
    """Whether a word may go. Capitals are emphasis, or a name: `GET`, `IT`, `ES`, plan `A`."""
    low = raw.casefold()
    if low in lex.WHOLES and any("!not" in lex.MARKS.get(w.casefold(), "") for _, w in fragment[:at]):
        return False  # "not all" is not "not"
    if low in lex.SELF:
        # Who did it is not the matter, and who does it is: "I reverted it", and not "I review it".
        around = [w for _, w in fragment[max(at - 1, 0) : at + 2] if w != raw]
        return any(_is_past(w) or canon(w.casefold()) in lex.MINE for w in around)
    if language == "en" and raw.isupper() and low in lex.NAMES_IN_CAPITALS:
        return low == "a" and not at
    shouted = raw.isupper() and len(raw) > 1 and language != "en"
    return (low in lex.NOTHING[language] and not shouted) or low in lex.POLITE


def _is_reason(fragment: list[Word], at: int) -> bool:
    """Whether `since` gives a reason and no time."""
    if at + 1 >= len(fragment):
        return False
    group, after = fragment[at + 1]
    low = after.casefold()
    if low == "the" and at + 3 >= len(fragment):
        return False
    return group not in ("number", "version", "date", "time") and low not in lex.TIMES


def _settled(tokens: list[Token]) -> list[Token]:
    """What depends on the whole fragment: helping verbs, where a denial stands, what `over` and `by` mean here."""
    out: list[Token] = []
    for at, token in enumerate(tokens):
        after = tokens[at + 1] if at + 1 < len(tokens) else None
        if token.text == "have" and after and (after.text == "!be" or _is_participle(after.raw)):
            continue
        if token.raw.casefold() == "stop" and after and after.raw.casefold().endswith("ing"):
            token = dataclasses.replace(token, text="!not")
        if token.text == "!not" and out and out[-1].text == "have":
            out.insert(len(out) - 1, token)
            continue
        out.append(token)
    words = {t.text for t in out}
    if words & _CHOOSING:
        rejected = {"over", "than"} | ({"to"} if "prefer" in words else set())
        out = [dataclasses.replace(t, text="!instead") if t.text in rejected else t for t in out]
    if words & _REPLACING:
        out = [dataclasses.replace(t, text="with") if t.text == "by" else t for t in out]
    return _plainly(out)


def _plainly(tokens: list[Token]) -> list[Token]:
    """ "There are Y in X" → "X have Y", "X that was released" → "released X"."""
    texts = [t.text for t in tokens]
    if texts[:1] == ["!there"] and texts.count("in") == 1 and 2 < texts.index("in") < len(texts) - 1:
        at = texts.index("in")
        have = dataclasses.replace(tokens[0], text="have")
        return [*tokens[at + 1 :], have, *tokens[1:at]]
    for at in range(1, len(tokens) - 2):
        if texts[at : at + 2] == ["!that", "!be"] and _is_participle(tokens[at + 2].raw):
            return [*tokens[: at - 1], tokens[at + 2], tokens[at - 1], *_plainly(tokens[at + 3 :])]
    return tokens


def _is_participle(raw: str) -> bool:
    low = raw.casefold()
    return (low.endswith("ed") and not low.endswith("eed")) or low in lex.PARTICIPLES


def _is_past(raw: str) -> bool:
    """A participle that is not the verb itself as well, as `run` is."""
    return _is_participle(raw) and canon(raw.casefold()) != raw.casefold()


def _turned(fragment: list[Token], kind: Kind) -> list[Token]:
    """A passive turned round. "X is owned by Y" → "Y own X" in every kind; "X was moved to Z" → "move X to Z" where an
    unnamed doer can only be us: in what was decided, mended, ordered or is usual."""
    at = next((i for i, t in enumerate(fragment) if t.text == "!be"), 0)
    if not 1 <= at <= _SUBJECT or at + 1 >= len(fragment):
        return fragment
    before, verb, after = fragment[:at], fragment[at + 1], fragment[at + 2 :]
    modal = [t for t in before if t.text in ("!must", "!should")]
    subject = [t for t in before if t not in modal]
    if any(t.text.startswith("!") for t in subject) or not subject or not _is_participle(verb.raw):
        return fragment
    if len(after) > 1 and after[0].text == "by" and not after[1].raw.casefold().endswith("ing"):
        end = next((i for i, t in enumerate(after) if i > 1 and t.text in _PLACES), len(after))
        return [*after[1:end], *modal, verb, *subject, *after[end:]]
    if kind == "context":
        return fragment
    return [*(modal if kind != "preference" else ()), verb, *subject, *after]


def _phrase_lengths() -> dict[str, tuple[int, ...]]:
    """How long the phrases are that begin with a word, the longest first."""
    lengths: dict[str, set[int]] = {}
    for phrase in lex.PHRASES:
        words = phrase.split()
        lengths.setdefault(words[0], set()).add(len(words))
    return {word: tuple(sorted(found, reverse=True)) for word, found in lengths.items()}


_SUBJECT = 5
"""Words of the longest subject a passive is turned round with."""
_PLACES = frozenset(
    ("in", "to", "from", "with", "for", "before", "after", "during", "since", "!because", "!if")
)
_PHRASE_LENGTHS = _phrase_lengths()
_CHOOSING = frozenset(map(canon, lex.CHOOSING))
_REPLACING = frozenset(map(canon, lex.REPLACING))
