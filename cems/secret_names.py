"""Secrets which only their name gives away: `DB_PASSWORD=…`, `"apiKey": "…"`, `--token …`. Finding one
takes three judgements, each a function here: what the name promises, where the value ends, and whether
such a value under such a name is a secret or merely code that handles one. Hashes, ids and identifiers are
evidence and stay."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple

from cems.secret_values import (
    digits_in,
    is_attribute,
    is_base64,
    is_fingerprint,
    is_mixed,
    is_place,
    is_stand_in,
    looks_random,
    set_of,
)


class Span(NamedTuple):
    """A stretch of text which is a secret."""

    start: int
    end: int
    kind: str


class Demand(IntEnum):
    """How much a value must look like a secret before its name makes it one."""

    ANY = 1  # password: whatever stands there, unless it is a stand-in
    MIXED = 2  # api_key: letters and digits together
    RANDOM = 3  # key, token: only what nobody would type


class Name(NamedTuple):
    """What the name of a value says about it."""

    kind: str
    demand: Demand
    shouted: bool  # API_KEY: the manner of environment variables, where a bare value is data and never code


_NAME_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PASSWORDS = ("password", "passwd", "passphrase", "pwd", "passwort")
_COMPOUND_KEY = re.compile(
    r"(?:api|auth|access|account|encryption|master|private|secret|shared|signing)key\Z"
)

# A key or token of one of these is meant to be kept from others …
_PRECIOUS = set_of(
    """access account admin anthropic api app application auth aws azure bearer bot cf client cloudflare
    consumer csrf decryption deploy device docker encryption gemini gh git github gitlab google hf hmac id
    integration jwt license live login mail master npm oauth openai personal private push registry refresh
    secret security sentry server service session shared signing slack stripe user vault verification web
    webhook x xsrf"""
)
# `db_pass` is a password, `first_pass` is not.
_PASS_OF = set_of(
    """account admin api app auth basic cert db ftp http imap key ldap login mail mongo my mysql pg
    postgres proxy redis root service smtp sql ssh store sudo user vpn wifi"""
)
# … and one of these is not, whatever else the name says.
_HARMLESS_BEFORE = set_of(
    """arrow backspace bos cache cls column completion composite context ctrl current dedup dedupe delete
    dict end enter cancel cancellation continuation eof eos esc escape event field first foreign group has
    hot idempotency index input is item json last legend lookup map mask max message metric min missing
    next no num object output pad page pagination partition peek per prev primary prompt property public
    query reasoning requires row search sep shift short show sort special start stop tab total translation
    trigger unique unk use with without"""
)
_HARMLESS_AFTER = set_of(
    """algorithm alg arn at attribute board budget cache changed class code color column config count
    counts counter created details dir directory down enabled endpoint env error errors event exists
    expiration expired expires expiry field file filename fn format frame func function generator handler
    hash header help hint icon id ids index info input label len length limit limiter list location manager
    map max message min mode model name names number page params parser path paths pattern placeholder
    policy position prefix press price prompt provider ref regex required reset resolver response ring
    rotation schema scope service set size source state status store strength stroke style suffix text
    title ttl type types up url uri usage used uuid validation validator var variable version view word
    words"""
)
_NEUTRAL_AFTER = set_of(
    "base b64 base64 current default dev hex live new old prod production stage staging str test v value val"
)


@functools.lru_cache(maxsize=4096)
def judge_name(name: str) -> Name | None:
    """What a value of this name would be; nothing when the name is not that of a secret."""
    last = name.rsplit(".", 1)[-1]
    parts = [part.lower() for part in _NAME_PARTS.findall(last)]
    at, kind = -1, ""
    for index, part in enumerate(parts):
        found = _kind_of(part)
        if found and not (found == "auth" and kind):  # `token_auth` is a token
            at, kind = index, found
    if at < 0:
        return None
    before, after = parts[:at], parts[at + 1 :]
    if not _HARMLESS_AFTER.isdisjoint(after):
        return None
    if kind != "password" and not _HARMLESS_BEFORE.isdisjoint(before):
        return None
    shouted = last.isupper()
    return Name(kind, _demand(kind, parts[at], before, after, shouted), shouted)


def _kind_of(part: str) -> str:
    if part.endswith(_PASSWORDS) or part == "pass":
        return "password"
    if part.endswith("secret"):
        return "secret"
    if part.endswith("token"):
        return "token"
    if part == "key" or _COMPOUND_KEY.search(part):
        return "key"
    if part in ("credential", "credentials", "cred", "creds"):
        return "credential"
    return "auth" if part in ("auth", "oauth") else ""


def _demand(kind: str, word: str, before: list[str], after: list[str], shouted: bool) -> Demand:
    if any(not part.isdigit() and part not in _NEUTRAL_AFTER for part in after):
        return Demand.RANDOM
    if kind == "password":
        unqualified = word in ("pass", "pwd") and _PASS_OF.isdisjoint(before)
        return Demand.RANDOM if unqualified else Demand.ANY
    if kind == "secret":
        return Demand.ANY if before and shouted else Demand.MIXED
    precious = not _PRECIOUS.isdisjoint(before) or len(word) > len(kind) or (shouted and bool(before))
    if kind in ("key", "token") and precious:
        return Demand.MIXED
    return Demand.RANDOM


# After a name: the end of its quotes or brackets, then what joins it to a value. All quantifiers are
# possessive or bounded, and a name is read once, so a text made of nothing but names costs no more than its
# length.
_AFTER_NAME = re.compile(
    r"""(?P<rest>[A-Za-z0-9_.\-]{0,80}+)
    (?P<join>
        (?:\x1b\[[0-9;]{0,8}m)?
        (?:\\{0,6}["'`])?+ \]?+ [ \t]{0,16}+
        (?: (?P<op> => | := | ===? | [=:] ) [ \t]{0,16}+
          | (?P<comma> ,[ \t]{0,4} )(?=["'`])
          | (?P<call> \([ \t]{0,4} )(?=["'`])
          | (?P<element> > )
        )
        (?:\x1b\[[0-9;]{0,8}m)?
      | (?P<space> [ \t]{1,4} (?:is[ ]|was[ ])? )
    )""",
    re.VERBOSE,
)
_TYPED = re.compile(
    r"(?:&(?:'\w{1,16} )?)?[\w.\[\]|]{1,32}+(?: \| \w{1,24}+)?+[ \t]{0,4}=[ \t]{0,4}(?=[\"'`])"
)
_OPENING_QUOTE = re.compile(r"[rbf]{0,2}(\\{0,6}[\"'`])")
_BARE = re.compile(r"""(?:[^\s\x1b"'`,;(){}<>\[\]&|\\]|\\(?![nrt"'`\\]))+""")
_BARE_SHELL = re.compile(r"""(?:[^\s\x1b"'`\\]|\\(?![nrt"'`\\]))+""")
_NUMBER = re.compile(r"[-+]?[0-9][0-9_.,:]*\Z")
_TYPE = re.compile(r"[&*]?(?:[Uu]?[Ii]nt|[Ff]loat|[Bb]ytes|[Ss]tring|[Vv]ec)[0-9]{0,3}[A-Za-z]*\Z")
_LINE_END = re.compile(r"[ \t,;}\]\"'`]*(?:\r|\n|\\+[nr]|\#|\Z)")
_COMMAND_GOES_ON = re.compile(r"[\"'`]?(?:[ \t]*(?:[\r\n;|&)]|\\|\Z)|[ \t]+-)")
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
_END_OF_COLOUR = re.compile(r"[0-9]{0,3}m")
_WORD_BEFORE = re.compile(r"(?<![A-Za-z0-9_.-])([A-Za-z]{2,12})[ ]\Z")
_NETRC = re.compile(r"login\s{1,4}\S{1,80}\s{1,4}\Z")
_LONGEST_NAME = 80
_LONGEST_QUOTED = 4096
_SAMPLE = 256  # so much of a value is enough to judge it
_DEEPEST = 4
_SHORTEST = {Demand.ANY: 4, Demand.MIXED: 8, Demand.RANDOM: 12}


def find_assignments(text: str, anchors: Iterable[int]) -> Iterator[Span]:
    """The values which their names make secret. An anchor is a place in the text inside a name that may be
    one; they come in order."""
    done = nested = 0
    for at in anchors:
        # A bare value may hold a name and a value itself, but not without end: `key=key=key=…` is no secret.
        nested = nested + 1 if at < done else 0
        after = _AFTER_NAME.match(text, at) if nested <= _DEEPEST else None
        if after is None:
            continue
        start, name_end = _name_start(text, at), after.end("rest")
        name = judge_name(_whole_name(text, start, name_end))
        value = _read_value(text, start, after, name) if name else None
        if value and value.start == after.end():
            done = max(done, value.end)
        if value and value.kind:
            yield value


def _name_start(text: str, at: int) -> int:
    least = max(0, at - _LONGEST_NAME)
    while at > least and text[at - 1] in _NAME_CHARACTERS:
        at -= 1
    # In a JSON string the n of an escaped line end stands right before the name; in a terminal, the end of a
    # colour.
    if at and text[at - 1] == "\\" and text[at] in "nrt":
        return at + 1
    if at and text[at - 1] in "[;" and (colour := _END_OF_COLOUR.match(text, at)):
        return colour.end()
    return at


def _whole_name(text: str, start: int, end: int) -> str:
    """The name, with the word before it where names are written as words: `API key: …`."""
    name = text[start:end]
    if (
        text.startswith(" ", start - 1)
        and name.isalpha()
        and (word := _WORD_BEFORE.search(text, max(0, start - 16), start))
    ):
        return f"{word[1]}_{name}"
    return name


def _read_value(text: str, start: int, after: re.Match[str], name: Name) -> Span | None:
    """The value behind the name; without a kind, when it is no secret. Nothing, when there is no value."""
    at = after.end()
    if after["op"] == ":" and (typed := _TYPED.match(text, at)):
        at = typed.end()
    if after["element"] and not text.startswith("<", start - 1):
        return None
    option = text.startswith("-", start)
    if after["space"] and not option:
        option = _NETRC.search(text, max(0, start - 96), start) is not None
        if not option:
            return _read_prose(text, at, name, stated=not after["space"].isspace())
    if option and name.kind == "token" and name.demand is Demand.RANDOM:
        name = name._replace(demand=Demand.MIXED)  # whoever types `--token x` means it
    quote = _OPENING_QUOTE.match(text, at)
    if quote:
        begin, end = quote.end(), _closing_quote(text, quote.end(), quote[1])
        value = text[begin : min(end, begin + _SAMPLE)]
        secret = is_secret_value(value, name, quoted=True)
        if after["comma"] or after["call"]:
            secret = secret and looks_random(value)
        if secret and end - begin == _LONGEST_QUOTED:
            end = _closing_quote(text, end, quote[1], len(text))
        return Span(begin, end, name.kind if secret else "")
    return None if after["op"] in ("==", "===") else _read_bare(text, start, at, after, name, option)


def _read_bare(text: str, start: int, at: int, after: re.Match[str], name: Name, option: bool) -> Span | None:
    """A value without quotes, which in code is an expression and elsewhere the secret itself."""
    form = start > 0 and text[start - 1] in "?&;"
    shell = after["join"] == "=" and (name.shouted or form)
    bare = (_BARE_SHELL if shell and not form else _BARE).match(text, at)
    if bare is None:
        return None
    begin, end = at, at + len(bare[0].rstrip(".,:;!?)"))
    value = text[begin : min(end, begin + _SAMPLE)]
    if len(value) < _SHORTEST[name.demand]:
        return Span(begin, end, "")
    secret = _can_be_bare(text, start, end, after, name, value, data=shell or option)
    secret = secret and is_secret_value(value, name, quoted=shell or option)
    return Span(begin, end, name.kind if secret else "")


def _can_be_bare(
    text: str, start: int, end: int, after: re.Match[str], name: Name, value: str, *, data: bool
) -> bool:
    """Whether the value is not part of an expression, a type, or a sentence that goes on."""
    if after["element"] and not text.startswith("</", end):
        return False
    if text.startswith(("(", "[", "{"), end) or (after["op"] == ":" and value.startswith("/")):
        return False
    if not data and (
        _TYPE.match(value) or (name.demand is not Demand.ANY and not _is_clear(text, end, value))
    ):
        return False
    if value.replace("_", "").isalpha() and not _bare_word_is_data(text, start, end, after, data):
        return False
    # "password: must be long": a sentence, as long as nothing looks like a secret
    sentence = after["op"] == ":" and name.demand is Demand.ANY and _LINE_END.match(text, end) is None
    return not sentence or is_mixed(value)


def _is_clear(text: str, end: int, value: str) -> bool:
    """Whether a bare value is no variable: it is noise, or it has digits and its line ends with it."""
    return (
        looks_random(value)
        or is_base64(value)
        or (digits_in(value) >= 3 and _LINE_END.match(text, end) is not None)
    )


def _read_prose(text: str, at: int, name: Name, *, stated: bool) -> Span | None:
    """`the API key is …`, `ENV TOKEN …`: nothing but a blank between name and value, so only noise counts."""
    bare = _BARE.match(text, at)
    if bare is None or name.demand is Demand.RANDOM:
        return None
    end = at + len(bare[0].rstrip(".,:;!?)"))
    value = text[at : min(end, at + _SAMPLE)]
    secret = looks_random(value) and not (is_fingerprint(value) or is_place(value) or is_attribute(value))
    if stated and name.kind == "password":
        secret = len(value) >= 6 and 0 < digits_in(value) < len(value) and not is_stand_in(value)
    return Span(at, end, name.kind if secret else "")


def _closing_quote(text: str, begin: int, quote: str, reach: int = _LONGEST_QUOTED) -> int:
    """Where a quoted value ends: at its quote, at the end of its line, or at the end of what is looked at."""
    limit = text.find("\n", begin, begin + reach)
    limit = limit if limit >= 0 else min(len(text), begin + reach)
    end = text.find(quote, begin, limit)
    while end > begin and text[end - 1] == "\\":
        end = text.find(quote, end + len(quote), limit)
    return end if end >= 0 else limit


def _bare_word_is_data(text: str, start: int, end: int, after: re.Match[str], shell: bool) -> bool:
    """Whether letters alone are a value. In code they would be a variable or a type; in a form, a settings
    file or a connection string they are what somebody typed."""
    if after["space"]:
        return _COMMAND_GOES_ON.match(text, end) is not None
    if shell or after["element"] or text.startswith("--", start):
        return True
    if after["join"] != "=":
        return False
    return (start == 0 or text[start - 1] in "\r\n") and (end == len(text) or text[end] in "\r\n")


def is_secret_value(value: str, name: Name, *, quoted: bool) -> bool:
    """Whether a value under such a name is a secret. `quoted` also stands for a bare value that cannot be
    code."""
    if len(value) < _SHORTEST[name.demand] or is_stand_in(value):
        return False
    if not quoted and (is_attribute(value) or _is_own_name(value)):
        return False
    if is_place(value):
        return False
    if " " in value and not looks_random(value.replace(" ", "")) and name.demand is not Demand.ANY:
        return False
    if name.demand is Demand.ANY:
        return _is_password(value)
    if _NUMBER.match(value):
        return False
    if name.demand is Demand.MIXED:
        return is_mixed(value)
    return looks_random(value) and not is_fingerprint(value)


def _is_password(value: str) -> bool:
    if " " in value:
        # A sentence under the name of a password is a label or a message; a passphrase may be one.
        words = value.split()
        return "\n" not in value and 4 <= len(words) <= 8 and all(word.islower() for word in words)
    digits = digits_in(value)
    return digits < len(value) or digits >= 6


def _is_own_name(value: str) -> bool:
    """`password=user_password`, `token: token2`: a variable that carries the secret's name."""
    return value.replace("_", "").isalnum() and judge_name(value) is not None and not looks_random(value)
