"""A sentence → a title: lead-ins gone, one line, at most 120 characters, cut where a clause ends and never
in a word."""

from __future__ import annotations

import re

LIMIT = 120
_SHORTEST = 40
# Words in front of a statement that say nothing about it.
_LEAD_IN = re.compile(
    r"(?:(?:perfect|excellent|(?:good|great)(?: news| point| catch)?|ok(?:ay)?|yes|yep|no|"
    r"right|sure|indeed|actually|interesting|ah+|oh|done|"
    r"fixed|committed|you'?re (?:absolutely |completely )?right|as (?:you )?(?:requested|"
    r"expected|discussed)|i see|a (?:couple|few) (?:of )?things|in (?:short|summary)|"
    r"to summari[sz]e|so|now|also|however|therefore|thus|then|finally|additionally|"
    r"furthermore|moreover|important(?:ly)?|basically|"
    r"agreed|btw|by the way|please|pls|one more thing|and|but|well|hmm+|wait|note|fyi|"
    r"bitte|übrigens|außerdem|also|ach|"
    r"por favor|además|s'il (?:te|vous) pla[iî]t|aussi|au fait)\s*(?:[,:;.!–—]+| -(?= ))\s*|"
    r"(?:and|so|but|also|btw|fyi|please|pls|now|ok(?:ay)?|then|und|y|et|bitte|note that|"
    r"keep in mind that|remember that|i (?:see|found|noticed|discovered|"
    r"confirmed|can see|think)(?: that)?|it (?:turns out|seems|appears|"
    r"looks like)(?: that)?|(?:turns|turned) out(?: that)?)\s+(?=[\w`'\"]))",
    re.I,
)
_SELF = re.compile(
    r"(?:I|we)(?:'ve| have)? (?:(?:just|now|also|already|then|successfully|"
    r"been able to) )*(?=[a-z]+(?:ed|t|ught|ose|ew|an|ote|ade|id|ook|ound)\b)"
)
_SELF_HAVE = re.compile(
    r"(?:I|we)(?:'ve| have) (?:(?:just|now|also|already|then|successfully) )*(?=[a-z])", re.I
)
_WORD = re.compile(r"[^\W\d_]['’]?[^\W\d_A-Z]*(?=[\s,]|$)")
# A clause that leads to what was cut off.
_DANGLING = re.compile(
    r"(?:, | )(?:(?:and|but|so|or),? )?(?:when|if|while|since|as|after|before|once|"
    r"because|which|that|where|until|unless)\b[^,;]{0,60}$",
    re.I,
)
_HALF = re.compile(
    r"(?:when|if|since|after|before|while|although|once|unless|as soon as|wenn|weil|"
    r"cuando|si|quand)\b",
    re.I,
)
_PRONOUN = re.compile(r"(?:it|this|that|they|these|those|he|she|i|we|you)\b", re.I)
_ASIDE = re.compile(r" \([^()]{1,160}\)")
_BTW = re.compile(r",? (?:btw|by the way)\b(?=[,.;])", re.I)
_TRAILER = re.compile(
    r"[\s,;:–—-]+(?:btw|by the way|please|pls|thanks?|thx|bitte|ok)?[\s.!。:;,…–—-]*$", re.I
)
# Where a long sentence may end, best first.
_ENDS = (
    re.compile(r"; | [–—] |\. "),
    re.compile(r", (?=(?:and|so|which|but|while|because|since|as|or|where|und|weil|aber|y|pero|et|mais)\b)"),
    re.compile(r", |: | (?=(?:because|since|so that|which|when|instead of|weil|porque|parce que)\b)| - "),
)


def title_of(sentence: str, *, as_is: bool = False) -> str:
    """The title a clean sentence makes, or an empty text where nothing is left of it. `as_is` keeps the case
    of its first word, which is a name then."""
    text = strip_lead_in(sentence)
    text = _TRAILER.sub("", _BTW.sub("", text))
    text = shortened(text.rstrip(" .!。:;,"))
    return text[:1].upper() + text[1:] if _WORD.match(text) and not as_is else text


def strip_lead_in(text: str) -> str:
    """The statement itself, without what leads up to it and without the speaker."""
    for _ in range(4):
        match = _LEAD_IN.match(text)
        if not match or match.end() >= len(text):
            break
        text = text[match.end() :]
    match = _SELF_HAVE.match(text) or _SELF.match(text)
    return text[match.end() :] if match else text


def shortened(text: str) -> str:
    """At most `LIMIT` characters, cut at the last good place."""
    if len(text) <= LIMIT:
        return text
    bare = _ASIDE.sub("", text)
    if len(bare) >= _SHORTEST:
        text = bare
    if _HALF.match(text):
        _, _, main = text.partition(", ")
        if len(main) >= _SHORTEST and not _PRONOUN.match(main):
            text = main
    if len(text) <= LIMIT:
        return text
    # A sentence that begins with a condition says nothing before its first comma.
    begin = max(_SHORTEST, text.find(", ") + 2) if _HALF.match(text) else _SHORTEST
    for ends in _ENDS:
        for match in reversed(list(ends.finditer(text, begin, LIMIT + 1))):
            kept = text[: match.start()].rstrip(" ,;:")
            if _whole(kept):
                bare = _DANGLING.sub("", kept)
                return bare if len(bare) >= _SHORTEST and not _HALF.match(text) else kept
    cut = text.rfind(" ", _SHORTEST, LIMIT)
    return text[: cut if cut > 0 else LIMIT - 1].rstrip(" ,;:(") + "…"


def _whole(text: str) -> bool:
    return text.count("(") <= text.count(")") and text.count('"') % 2 == 0
