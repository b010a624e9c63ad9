"""How good a memory a sentence makes: what it names, the reason it gives and its place speak for it; plans,
offers, praise, guesses and passing states speak against it. The numbers were chosen on recorded sessions,
for precision before recall."""

from __future__ import annotations

import re

from observer.kinds import REASON, About, Cue
from observer.rules_text import UNSPACED, Sentence
from observer.rules_title import strip_lead_in

THRESHOLD = 0.62
"""A sentence that scores less is not worth a memory."""


def _re(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.I)


# The speaker's intentions, offers and courtesies: nothing that is so.
_PLAN = _re(
    r"^(?:(?:now|next|then|first|ok(?:ay)?|so|good|great|perfect|excellent|and|but|"
    r"actually|alright|step \d+)[,.:!]? )*(?:let me|let's|lets|i'?ll|i will|i'm going to|"
    r"i am going to|i'm (?:now |still )?\w+ing|i need to|"
    r"i should|i can\b|i could|i want to|i'd|i would|we'?ll|we will|we need to|we should|"
    r"we can|we could|we'd|you can|you could|you should|you'll|you may|you might|you'd|"
    r"you need|going to|shall|want me|"
    r"feel free|if you|if we|here'?s|here are|this is my|my (?:plan|recommendation)|"
    r"based on|looking at|now (?:i|that|fix|add|update|create|run|check)|time to|"
    r"ready (?:to|for)|to (?:fix|debug|do|test|add|make|verify|address)|"
    r"ich werde|lass mich|voy a|vamos a|je vais|次に)"
)
_INTENT = _re(r"\b(?:i'll|let me|i will|i'm going to|we'll|we will|so i'm \w+ing)\b")
_OFFER = _re(
    r"\b(?:would you like|want me to|should i|shall i|do you want|let me know|"
    r"say the word|happy to|feel free)\b"
)
_HEDGE = _re(
    r"\b(?:might|may be|maybe|perhaps|probably|possibly|could be|seems?|appears?|i think|"
    r"i believe|i guess|likely|should (?:now )?(?:work|pass|be|fix)|hypothesis|vielleicht|"
    r"quizás|peut-être)\b|かもしれ"
)
_CHOICE = _re(
    r"\bi(?:'d| would) (?:take|use|go|pick|choose|suggest|recommend|keep|say|prefer)\b|"
    r"\boptions?\b.{0,20}:|\brecommendation\b|\bwhich (?:one )?(?:do|would) you\b"
)
_LOG = _re(r"@@|\[secret:|\[(?:error|info|warn|debug)|\d{4}-\d\d-\d\dt\d\d|\bat \S+:\d+:\d+")
_REQUEST = _re(
    r"^(?:(?:ok|yes|no|now|then|and|also|so|but|next|agreed|good)[,.:;]? )*(?:please|pls|"
    r"bitte|can|could|would|let'?s|lets|i want|i'd like|i would like|i need|i think|"
    r"we need|we should|we want|try|make|next:|"
    r"maybe|the test|should|have a look|por favor|quiero|je veux|peux-tu|kannst du)\b"
)
_TRIVIAL = _re(
    r"\b(?:lint\w*|type annotations?|typescript errors?|type errors?|format(?:ting|ted)|"
    r"comments?|typos?|assertions?|unused|imports?|warnings?|whitespace|rebased?|"
    r"all fixes|various|summary)\b"
)
_NUMBERED = _re(
    r"\b(?:option|approach|step|solution|variant|alternative|phase|task|point) (?:\d|"
    r"[a-c]\b)|#\d"
)
_TRANSIENT = _re(
    r"\b(?:we|i) just\b|\bcurrently\b|\bat the moment\b|\bright now\b|\bso far\b|"
    r"\bnot yet\b|\bin progress\b"
)
_THIS = _re(r"\bthis (?:bug|issue|error|problem|change|approach)\b")
_PASSING = _re(
    r"^(?:the )?(?:push|commit|build|tests?|typecheck|edit|command|hook|ci|"
    r"check)s? (?:is |are |was )?fail|^(?:already|verified|validated|confirmed)\b"
)
_HALF = _re(
    r"^(?:when|if|since|after|before|while|although|once|unless|wenn|cuando|si|"
    r"quand)\b[^,]*$|(?:because|are|is|following|with|to|by|the|include|includes|like|but|"
    r"and)[:.…]*$"
)
_TASTE = _re(r"\bi (?:personally |really |always )?(?:prefer|like|love|hate|favou?r)\b")
_POINTER = _re(
    r"^(?:this|that|it|its|they|these|those|he|she|there'?s|here|the (?:above|following|"
    r"latter|former)|both|all of|same|which|das|dies|es|sie|eso|esto|ce|cela|ça)\b|^これ|^それ"
)
_HYPE = _re(
    r"\b(?:(?:is|are) now working|works? (?:correctly|perfectly|now|as expected)|"
    r"production[- ]ready|fully|comprehensive(?:ly)?|professional|robust|seamless(?:ly)?|"
    r"successful(?:ly)?|complete[d!]?|excellent|perfect(?:ly)?|systematic(?:ally)?|"
    r"all (?:\w+ )?(?:tests?|checks?|quality checks|hooks) (?:now )?pass\w*|"
    r"tests? (?:all )?pass(?:es|ing)?|according to (?:the )?(?:plan|requirements|spec)|"
    r"great|modern|intuitive|enhanced|graceful(?:ly)?|best practices)\b"
)
_CHATTER = _re(
    r"^(?:done|all (?:tests|set|good|checks)|everything|understood|got it|thanks|you'?re|"
    r"committed|pushed|tests pass|no (?:linting )?errors|success|great|good|perfect|"
    r"excellent|sorry|yes|no)\b[^:;,]{0,60}$"
)
_ORDER = _re(
    r"^(?:add|remove|update|create|fix|change|implement|modify|replace|write|use|run|"
    r"check|test|handle|move|delete|rename|build|make|set|verify|include|keep|commit|"
    r"revert|accept|consider|spawns?|listen|parse|store|pass|document|simplify|try|look|"
    r"find|install|ensure|convert|extract|apply|configure|enable|disable)\b"
)
_DRAFT_SECTION = _re(
    r"\b(?:plan|options?|comparison|candidates|pros|cons|next steps?|to-?do|remaining|"
    r"proposed?|proposal|recommend\w*|test (?:plan|scenarios?|results?)|usage|example|"
    r"implementation (?:steps|sketch)|what happens|prerequisites|expected|scenarios?|"
    r"future|questions?|benefits?|approach|hypothesis|needed|alternatives?|strengths?|"
    r"status|features?)\b"
)
_TELLING_SECTION = _re(
    r"\b(?:root cause|summary|changes?|changed|fix(?:es|ed)?|how it works|key|cause|why|"
    r"analysis|done|reasons?)\b"
)
_LEAST_WORDS = 5
_LEAST_SIGNS = 12
_LONG = 350
_OPENING = 3
_FEW_WORDS = 8
_SURE = 0.65
_WEAKEST = 0.52
_SEVERAL = 2
_NAMES = (
    re.compile(r"`[^`\n]+`"),
    re.compile(
        r"(?<!\w)[\w.@~-]*/[\w./@-]*\w|\b\w+\.(?:py|ts|tsx|js|jsx|go|rs|rb|ex|exs|java|kt|c|h|"
        r"cpp|sh|sql|json|ya?ml|toml|md|css|html|ini|cfg|lock|env|tf|j2)\b"
    ),
    re.compile(
        r"\b[a-z]+(?:[A-Z][a-z0-9]+)+\b|\b[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+\b|\b\w+_\w+\b|"
        r"(?<!\w)--?[a-z][\w-]+\b|\b\w+\(\)|\b[A-Z][A-Z0-9]{1,}\b"
    ),
    re.compile(r"\b\d[\d.,:]*(?:\s?(?:%|ms|s|kB|KB|MB|GB|MiB|k|px|rows|UTC))?"),
    re.compile(r"(?<=[a-z,;] )[A-Z][a-z]{2,}\b"),
)
# Capitals that name nothing in particular.
_COMMON = frozenset(
    (
        "PR",
        "CI",
        "API",
        "URL",
        "UI",
        "OK",
        "TODO",
        "NOT",
        "AND",
        "OR",
        "IMPORTANT",
        "NOTE",
        "CLI",
        "HTTP",
        "JSON",
        "ID",
    )
)


def names_in(raw: str) -> int:
    """How many things of the project a sentence names: code, paths, flags, numbers, proper names; at most 6
    count."""
    found: set[str] = set()
    for pattern in _NAMES:
        found.update(name for m in pattern.finditer(raw) if (name := m[0].strip("`")) not in _COMMON)
        if len(found) >= 6:
            return 6
    return len(found)


def proposes(text: str) -> bool:
    """Whether an answer lays out what could be done, or asks what to do."""
    return bool(_OFFER.search(text) or _CHOICE.search(text))


# What forbids a sentence whoever wrote it; what forbids an assistant's, and a user's.
_FORBIDDEN = (_HALF, _LOG, _OFFER, _CHATTER)
_FORBIDDEN_ASSISTANT = (_PLAN, _INTENT, _TASTE, _ORDER)
_FORBIDDEN_USER = (_REQUEST, _ORDER)
_AGAINST = (
    (0.25, _POINTER),
    (0.25, _NUMBERED),
    (0.2, _TRIVIAL),
    (0.2, _PASSING),
    (0.15, _HYPE),
    (0.15, _TRANSIENT),
    (0.08, _THIS),
)


def fault_of(sentence: Sentence, by_user: bool) -> float:
    """How much speaks against a sentence as a memory; 1 or more forbids it."""
    text = sentence.text
    if text.endswith("?") or any(pattern.search(text) for pattern in _FORBIDDEN):
        return 1.0
    if len(text.split()) < _LEAST_WORDS and len(UNSPACED.findall(text)) < _LEAST_SIGNS:
        return 1.0
    if by_user and _REQUEST.match(text):
        return 1.0
    text = strip_lead_in(text)
    if any(pattern.search(text) for pattern in (_FORBIDDEN_USER if by_user else _FORBIDDEN_ASSISTANT)):
        return 1.0
    if sentence.section and _DRAFT_SECTION.search(sentence.section):
        return 1.0
    against = sum(weight for weight, pattern in _AGAINST if pattern.search(text))
    if _HEDGE.search(text):
        # A user who thinks something is so often knows; an assistant that does is guessing.
        against += 0.15 if by_user else 0.5
    if text.endswith(":"):
        against += 0.1
    if len(text) > _LONG:
        against += 0.1
    return against


def score_of(sentence: Sentence, cue: Cue, names: int, about: About, *, final: bool, by_user: bool) -> float:
    """What speaks for a sentence as a memory, from 0 to about 1.1. The last answer counts more, and most in
    it how it begins."""
    value = cue.strength + 0.03 * min(names, 5)
    if REASON.search(sentence.text):
        value += 0.06
    if final:
        value += 0.11 if sentence.index < _OPENING and not sentence.listed else 0.05
    elif by_user:
        value += 0.1
    elif about.changed:
        # Said before the last change: it may not be so any more.
        value -= 0.1 if cue.strength < _SURE else 0.05
    if sentence.section and _TELLING_SECTION.search(sentence.section):
        value += 0.03
    if sentence.listed:
        value -= 0.04
    if names < _SEVERAL and cue.strength <= _WEAKEST and not REASON.search(sentence.text):
        value -= 0.05
    if not names and len(sentence.text.split()) < _FEW_WORDS:
        value -= 0.15
    return value
