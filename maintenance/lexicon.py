"""The words that decide whether two statements say the same; the lists themselves are data, in lexicon.toml.

A word belongs into `SAME` only where swapping it in any sentence about software leaves the fact as it is. Marks begin with
`!`: they stand for the job a word does (`!not`, `!if`), whatever the word was."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_DATA: Mapping[str, Any] = tomllib.loads(Path(__file__).with_name("lexicon.toml").read_text("utf-8"))


def _words(name: str) -> frozenset[str]:
    return frozenset(_DATA[name].split())


def _by_word(name: str) -> dict[str, str]:
    """Each word of a table, with the key it stands under."""
    return {word: key for key, words in _DATA[name].items() for word in words.split()}


def _lines(name: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(line.split()) for line in _DATA[name].strip().splitlines())


NOTHING: Mapping[str, frozenset[str]] = {k: frozenset(v.split()) for k, v in _DATA["nothing"].items()}
"""Words that say nothing about what is so, by language; a language's own are read only in that language."""
POLITE = _words("polite")
"""Such words of all languages."""
NAMES_IN_CAPITALS = _words("names_in_capitals")
"""Of those, the ones that in capitals are something else."""
WHOLES = _words("wholes")
"""Of those, the ones that say something where a denial stands before them."""
SELF = _words("self")
MINE = _words("mine")
"""Verbs, in canonical form, of what somebody wants or has done: beside them it does not matter who speaks."""
LANGUAGE: Mapping[str, frozenset[str]] = {k: frozenset(v.split()) for k, v in _DATA["language"].items()}
"""What tells the languages apart."""
PHRASES: Mapping[str, str] = {p: meaning for meaning, phrases in _DATA["phrases"].items() for p in phrases}
"""Looked at before single words."""
MARKS = _by_word("marks")
"""The job a single word does."""
SAME = _lines("same")
"""Words that mean the same, a line each."""
IRREGULAR = _by_word("irregular")
PARTICIPLES = _words("participles")
UNCUT = _words("uncut")
"""Words whose ending is no ending."""
NUMBER_WORDS = _by_word("numbers")
UNITS = _by_word("units")
DATES = _words("dates")
TOOLS = _words("tools")
"""Names of tools that people write in small letters."""

DENIES = _words("denies")
DENYING_SIGNS = _words("denying_signs")
"""In scripts without spaces between words."""
OPPOSED = _lines("opposed")
"""Each line opposes its words to one another; words joined by a comma stand on one side."""
UNDOING = tuple(_DATA["undoing"].split())
"""Beginnings that turn a word into its opposite."""
TAKING_BACK = _words("taking_back")
"""With one of these a text says that what stands beside it does not hold."""
CONNECTING = _words("connecting")
"""Words, in canonical form, that lead from what is said to where, when and for whom."""
LIMITS = _words("limits")
OUTCOMES = _words("outcomes")
"""How far something went: to have tried, weighed or given something up is not to do it."""
PAST = _words("past")
PRESENT = _words("present")
TURNING = _words("turning")
"""Words, in canonical form, whose two sides are not the same thing."""
PLACING = _words("placing")
HARMLESS_VERBS = _words("harmless_verbs")
"""Verbs so common that one statement often both orders and denies them."""

OPENS = _words("opens")
"""Marks that begin a detail: a reason, a consequence, a description."""
REASONS = _words("reasons")
IN_REASONS = _words("in_reasons")
"""What a reason or a consequence may deny or limit without taking anything back from what it explains."""
NARROWING = _words("narrowing")
"""In a detail, these can take back or narrow what the statement said."""
TIMES = _words("times")
"""After `since` these make it a time and no reason."""
CHOOSING = _words("choosing")
REPLACING = _words("replacing")
IMPERATIVES = _words("imperatives")
BEFORE_NOUNS = _words("before_nouns")
"""Behind these the same word is a noun: "every commit"."""
LEADING = _words("leading")
"""What a fragment in front of the statement begins with; it may as well stand behind it."""
LEANING = _words("leaning")
LEANING_PHRASES = tuple(_DATA["leaning_phrases"])
"""Words that mean something only what was said before names."""


@functools.lru_cache(maxsize=16384)
def canon(word: str) -> str:
    """A word in small letters → what stands for it and all that means the same."""
    base = IRREGULAR.get(word, word)
    return _SAME.get(base) or _SAME.get(stem(base)) or stem(base)


@functools.lru_cache(maxsize=16384)
def stem(word: str) -> str:
    """An English word without its ending; rough, and equal for the forms of a word."""
    if len(word) < 4 or word in UNCUT or not word.isascii():
        return word
    if word.endswith(("ies", "ied")) and len(word) > 4:
        word = word[:-3] + "y"
    elif word.endswith(("sses", "shes", "ches", "xes", "zes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us")):
        word = word[:-1]
    if word in UNCUT:
        return word
    for ending in ("ing", "ed"):
        base = word[: -len(ending)]
        if (
            word.endswith(ending)
            and len(base) >= 3
            and not word.endswith("eed")
            and re.search("[aeiouy]", base)
        ):
            word = base[:-1] if base[-1] == base[-2] and base[-1] not in "lsz" else base
            break
    word = re.sub("is(?=e$|ation$)", "iz", word) if len(word) > 5 else word
    return word[:-1] if word.endswith("e") and len(word) > 4 else word


def _same() -> dict[str, str]:
    """What stands for each word that has synonyms."""
    return {form: stem(words[0]) for words in SAME for word in words for form in (word, stem(word))}


_SAME = _same()
