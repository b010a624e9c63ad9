"""All secrets of a text: tokens, named values, and here those which the form around them gives away, as
private keys, addresses with a password, and headers. A rule finds spans and changes nothing. It runs only
where something was found that it cannot do without, and every pattern takes linear time."""

from __future__ import annotations

import base64
import bisect
import re
from collections.abc import Iterator, Sequence

from cems.secret_names import Span, find_assignments
from cems.secret_tokens import find_tokens
from cems.secret_values import digits_in, is_mixed, is_place, is_stand_in, looks_random

# What redaction leaves where a secret was.
OURS = re.compile(r"\[secret:[a-z0-9-]{1,24}:[0-9a-f]{6}\]")

# What the other rules cannot do without. One letter that is rare in prose begins each pattern, since a search
# for a single letter is the fastest there is; and a word that may be part of a secret's name counts only
# where something that can join a name to a value follows the name. After a mere blank that is a word with a
# digit.
_JOINED = (
    r"(?=[a-z0-9_.\-]{0,80}+"
    r"(?:[ \t]{0,16}[=:>,(]|[\\\"'`\]\x1b]|[ \t]{1,4}(?:is |was )?(?=[^\s0-9]{0,40}[0-9])\S{4}))"
)
_JOINED_LOOSELY = r"(?=[a-z0-9_.\-]{0,80}+(?:[ \t]{0,16}[=:>,(]|[\\\"'`\]\x1b]|[ \t]{1,4}(?:is |was )?\S{4}))"
_HINTS = tuple(
    re.compile(pattern)
    for pattern in (
        # key, token, cookie, hooks
        rf"k(?:e(?:y{_JOINED}|(?<=toke)n{_JOINED})|(?P<cookie>ie(?<=cookie))|(?P<webhook>s(?<=hooks)[./]))",
        # pass…, pwd, private key
        rf"p(?:ass{_JOINED_LOOSELY}|wd{_JOINED_LOOSELY}|(?P<private_key>rivate key))",
        # auth…, curl
        rf"u(?:th(?<=auth)(?:(?P<authorization>orization)|{_JOINED})|(?P<curl>rl(?<=curl)))",
        # cred…, secret
        rf"cre(?:d{_JOINED}|(?<=secre)t{_JOINED})",
    )
)
# On a short text four searches cost more than one that is slower.
_HINTS_SHORT = (re.compile("|".join(pattern.pattern for pattern in _HINTS)),)
_SHORT = 300
_ADDRESS_REACH = 256  # an address which was cut before its @ begins at most so far from the end


def find_secrets(text: str) -> list[Span]:
    """All stretches of the text that are secrets, in no order; they may overlap."""
    raw = text.encode("ascii", "replace")  # one byte a character, so positions are those of the text
    low = raw.lower().decode("ascii")
    if "[secret:" in low:  # what an earlier pass put there is no name of a secret
        low = OURS.sub(lambda ours: " " * len(ours[0]), low)
    names: list[int] = []
    places: dict[str, list[int]] = {}
    for pattern in () if _no_word(low) else _HINTS if len(text) > _SHORT else _HINTS_SHORT:
        for hint in pattern.finditer(low):
            if hint.lastgroup:
                places.setdefault(hint.lastgroup, []).append(hint.end())
            else:
                names.append(hint.start())
    found = list(find_tokens(text, raw))
    if "@" in text or "://" in text[-_ADDRESS_REACH:]:
        found += _addresses(text)
    if "%" in text and "sig=" in low:
        found += _matches("signature", _SIGNATURE, text)
    if places:
        found += _at_places(text, places)
    found += find_assignments(text, sorted(names))
    return found


def _no_word(low: str) -> bool:
    """Whether none of the words that the hints look for is there. Spelt out, because a loop over the words costs more than
    the search for them, and most texts are short."""
    return not (
        "key" in low
        or "pass" in low
        or "auth" in low
        or "token" in low
        or "secret" in low
        or "cred" in low
        or "pwd" in low
        or "curl" in low
        or "cookie" in low
        or "hooks" in low
    )


def _at_places(text: str, places: dict[str, list[int]]) -> Iterator[Span]:
    """What the rules below find, each where its hint ended."""
    if "private_key" in places:
        yield from _private_keys(text)
    if "webhook" in places:
        yield from _matches("webhook", _WEBHOOK, text)
    if "curl" in places:
        yield from _user_options(text)
    yield from _cookies(text, places.get("cookie", ()))
    for at in places.get("authorization", ()):
        header = _AUTHORIZATION.match(text, at)
        if header and _is_credential(header[1] or "", header[2]):
            yield Span(header.start(2), header.end(2), "authorization")


def _is_credential(scheme: str, value: str) -> bool:
    if scheme.lower() == "basic":
        return value.endswith("=") or ":" in _decoded(value)
    digits = digits_in(value)
    noisy = is_mixed(value) or (len(value) >= 10 and digits >= 3 and len(value) - digits >= 3)
    return noisy and not is_place(value) and not is_stand_in(value)


def _decoded(value: str) -> str:
    try:
        return base64.b64decode(value + "=" * (-len(value) % 4)).decode("latin-1")
    except ValueError:
        return ""


def _matches(kind: str, pattern: re.Pattern[str], text: str) -> Iterator[Span]:
    for match in pattern.finditer(text):
        if not is_stand_in(match[1]):
            yield Span(match.start(1), match.end(1), kind)


# --- private keys -------------------------------------------------------------------------------------------

_KEY_BEGIN = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(r"-----END (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_KEY_REACH = 32_768  # no key is longer; an END further away belongs to something else
# Between the lines of a key stand line ends, escaped ones too, and what a listing, a diff or a program puts
# there.
_KEY_GAP = r"(?:\\+[nrt]|[ ]{0,8}[0-9]{1,6}(?=[\t→|])|[^A-Za-z0-9+/=\\]|\\|\+(?=[ \"'])|(?<=\n)\+)"
_KEY_HEAD = r"(?:Proc-Type|DEK-Info|Version|Comment):[^\n\\]{0,80}"
_KEY_LINES = re.compile(
    rf"(?:{_KEY_GAP}{{0,60}}+(?:{_KEY_HEAD}|[A-Za-z0-9+/=]{{16,}}+))++(?:{_KEY_GAP}{{1,60}}+[A-Za-z0-9+/=]{{1,15}}+)?"
)
# The same, read from the end to the beginning.
_KEY_LINES_BACK = re.compile(
    r"(?:[^A-Za-z0-9+/=]{0,60}+(?:(?<=[\t→|])[0-9]{1,6}|[nrt]\\+)?[^A-Za-z0-9+/=]{0,60}+[A-Za-z0-9+/=]{16,}+)++"
)
_KEY_MATERIAL = re.compile(r"[A-Za-z0-9+/]{8}")


def _private_keys(text: str) -> Iterator[Span]:
    """Private keys in PEM: whole ones, ones without their end, and ends without their beginning."""
    ends = [match.span() for match in _KEY_END.finditer(text)]
    begins = [match.span() for match in _KEY_BEGIN.finditer(text)]
    taken: set[int] = set()
    for number, (begin, body) in enumerate(begins):
        following = begins[number + 1][0] if number + 1 < len(begins) else len(text)
        index = bisect.bisect_left(ends, (body, 0))
        if index < len(ends) and ends[index][0] < min(following, body + _KEY_REACH):
            taken.add(index)
            if _KEY_MATERIAL.search(text, body, ends[index][0]):
                yield Span(begin, ends[index][1], "private-key")
        elif lines := _KEY_LINES.match(text, body, following):
            yield Span(begin, lines.end(), "private-key")
        elif following - body < 16 and _KEY_MATERIAL.search(text, body, following):
            yield Span(begin, following, "private-key")
    for index, (start, end) in enumerate(ends):
        if index not in taken:
            floor = max(ends[index - 1][1] if index else 0, start - _KEY_REACH)
            if lines := _KEY_LINES_BACK.match(text[floor:start][::-1]):
                yield Span(start - lines.end(), end, "private-key")


# --- addresses, headers, options ----------------------------------------------------------------------------

# scheme://user:password@host. The password reaches to the last @ before the path: people forget to escape it.
_ADDRESS = re.compile(r"://([^\s/:@\"'`<>\\?#]{0,128}+):([^\s\"'`<>\\/]{1,1024}+)")
_PORT = re.compile(r"[0-9]{1,5}(?:[?#,;&].*)?\Z", re.DOTALL)
_WEBHOOK = re.compile(
    r"hooks(?:\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/|(?<=/webhooks)/(?=[0-9]{15,20}/))"
    r"((?:[A-Za-z0-9_-]{1,40}/){1,3}[A-Za-z0-9_-]{8,}+)"
)
_SIGNATURE = re.compile(r"(?:[?&;]|&amp;|\\u0026)sig=([A-Za-z0-9%+/=_-]{20,}+)")
# These two match behind the name of the header.
_AUTHORIZATION = re.compile(
    r"\\{0,6}[\"'`]?\]?\s{0,4}[:=,]\s{0,4}[rbf]?\\{0,6}[\"'`]?"
    r"(?:((?i:bearer|basic|token|digest|apikey|bot|negotiate|ntlm))[ \t]{1,4}(?:token=)?)?([\w.~+/=:-]{8,}+)"
)
_COOKIE = re.compile(
    r"s?\\{0,6}[\"'`]?\]?(?:\s{0,4}[:=]|[ \t])\s{0,4}\\{0,6}[\"'`]?(?=[\w.%-]{1,64}+=)([^\n\"'`\\]{4,4096}+)"
)
_COOKIE_PAIR = re.compile(r"([\w.%-]{1,64}+)=([^;\s\"'\\,]{8,}+)")
_COOKIE_NAME = re.compile(
    r"(?i)sess|sid\Z|auth|token|jwt|csrf|xsrf|remember|login|secret|_id\Z|\Aid\Z|connect\."
)
_USER_OPTION = re.compile(
    r"-(?<=\s-)(?:u|U|-user|-proxy-user)(?:[ \t]{1,4}|=)?\\{0,6}[\"']?"
    r"([^\s:\"'\\]{0,128}+):([^\s\"'\\]{1,256}+)"
)


def _addresses(text: str) -> Iterator[Span]:
    for match in _ADDRESS.finditer(text):
        password, sign, host = match[2].rpartition("@")
        if not sign:
            # Without a host there was no password, unless the text was cut before the host came.
            password = host if match[1] and match.end() == len(text) else ""
        if len(password) < (1 if sign else 3) or is_stand_in(password):
            continue
        if not (_PORT.match(password) and not (sign and match[1] and password.isdigit())):
            yield Span(match.start(2), match.start(2) + len(password), "url-password")


def _cookies(text: str, places: Sequence[int]) -> Iterator[Span]:
    done = 0
    for at in places:
        header = _COOKIE.match(text, at) if at >= done else None
        if header is None:
            continue
        done = header.end()
        for pair in _COOKIE_PAIR.finditer(text, header.start(1), done):
            random = looks_random(pair[2])
            named = _COOKIE_NAME.search(pair[1]) and len(pair[2]) >= 16
            if (random or named) and not is_stand_in(pair[2]):
                yield Span(pair.start(2), pair.end(2), "cookie")


def _user_options(text: str) -> Iterator[Span]:
    for option in _USER_OPTION.finditer(text):
        before = max(0, option.start() - 1024)
        line = text[max(before, text.rfind("\n", before, option.start())) : option.start()]
        if (
            ("curl" in line or "wget" in line or "http" in line)
            and not is_stand_in(option[2])
            and not option[2].isdigit()
        ):
            yield Span(option.start(2), option.end(2), "password")
