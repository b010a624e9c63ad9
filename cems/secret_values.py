"""What a value looks like, whoever it belongs to: noise which nobody would type, a stand-in for a secret,
a path, or a fingerprint. Each question is answered from the characters alone; none is answered by entropy,
which cannot tell a key from a hash."""

from __future__ import annotations

import re

_PLACEHOLDER_SIGNS = re.compile(r"[$<{\[\]]|%(?:[sdvr(]|[A-Za-z_]+%)|\*\*|\.\.\.|…")
_SAME_CHARACTER = re.compile(r"(.)\1*\Z", re.DOTALL)
_CONSTANT = re.compile(r"[A-Z]+(?:_[A-Z]+)+\Z")


def set_of(words: str) -> frozenset[str]:
    """The words of a text, as a set to look them up in."""
    return frozenset(words.split())


_STAND_INS = set_of(
    """any basic bearer bool boolean bytes const custom default digest disabled empty enabled false float
    hidden include input int integer missing nil no none null number object omit omitted optional pending
    password private public redacted removed required same-origin secret secretstr session set str string
    text true tbd undefined unknown unset void yes"""
)
_STAND_IN_PARTS = set_of(
    """changeme dummy enter example fake goes here insert invalid key mock my mypassword pass password
    passphrase passwd placeholder pwd redacted replace replaceme sample secret some testpassword token your
    yourpassword"""
)
_ATTRIBUTE = re.compile(r"[A-Za-z_$][\w$]*+(?:(?:\?\.|!\.|\.|::|->)[A-Za-z_$][\w$]*+)+\Z")
_PLACE_BEGINS = re.compile(r"[a-z][a-z0-9+.-]{1,12}://|~?/|\.{1,2}/|[A-Za-z]:[\\/]|@/")
_FILE_ENDS = (
    *(".json", ".yaml", ".yml", ".toml", ".env", ".txt", ".md", ".html", ".pem", ".key", ".crt"),
    *(".py", ".js", ".jsx", ".ts", ".tsx", ".go", ".rs", ".sh"),
)
_BASE64 = re.compile(r"[A-Za-z0-9+/]{32,}={0,2}\Z")
_FINGERPRINT = re.compile(
    r"""(?: sha[0-9]{1,3}[-:].* | (?:0x)?[0-9a-f]{7,128} | (?:0x)?[0-9A-F]{7,128}
      | [0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12} )\Z""",
    re.DOTALL | re.VERBOSE,
)
_DIGIT = re.compile("[0-9]")
_SIGNS = re.compile("[!@#^&*?~]")
_SEGMENTS = re.compile(r"[A-Za-z0-9]+")
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")


def is_stand_in(value: str) -> bool:
    """Whether a value only says where a secret would be: `$TOKEN`, `<your key>`, `***`, `None`,
    `YOUR_API_KEY`."""
    bare = value.strip()
    if (
        not bare
        or _PLACEHOLDER_SIGNS.match(bare)
        or _SAME_CHARACTER.match(bare)
        or bare.lower() in _STAND_INS
    ):
        return True
    if "${" in bare or "{{" in bare or "***" in bare or "…" in bare or "..." in bare or _CONSTANT.match(bare):
        return True
    if _DIGIT.search(bare) or "=" in bare:
        return False
    return not _STAND_IN_PARTS.isdisjoint(word.lower() for word in _WORDS.findall(bare))


def looks_random(value: str) -> bool:
    """Whether nobody would type this: a long piece in which letters, capitals and digits alternate so
    often that no part of it is a word. Names in camel case have capitals too, but words between them."""
    pieces = _SEGMENTS.findall(value)
    if any(_is_noise(piece, with_digits=3.3) for piece in pieces):
        return True
    # Many short pieces, as when a password has signs in it or a key is written in groups.
    return " " not in value and len(pieces) > 1 and _is_noise("".join(pieces), with_digits=2.5)


def _is_noise(piece: str, *, with_digits: float) -> bool:
    if len(piece) < 12:
        return False
    longest_word = (
        with_digits if digits_in(piece) >= 2 else 3.1 if len(piece) >= 24 else 2.3
    )  # on the average
    return len(piece) <= longest_word * len(_WORDS.findall(piece))


def is_mixed(value: str) -> bool:
    """Whether a value has letters and digits as keys have, not as names with a number do."""
    if looks_random(value) or is_base64(value):
        return True
    if len(value) >= 10 and " " not in value and len(_SIGNS.findall(value)) >= 2 and _DIGIT.search(value):
        return True
    return any(
        len(piece) >= 8 and not piece.isalpha() and not piece.isdigit() for piece in _SEGMENTS.findall(value)
    )


def is_base64(value: str) -> bool:
    """Whether a value is as long as an encoded key and has all that base64 is made of."""
    return (
        _BASE64.match(value) is not None
        and _DIGIT.search(value) is not None
        and not value.islower()
        and not value.isupper()
    )


def digits_in(value: str) -> int:
    """How many digits the value has."""
    return len(_DIGIT.findall(value))


def is_fingerprint(value: str) -> bool:
    """A hash, a commit or a uuid: evidence, which only the clearest of names makes a secret."""
    return _FINGERPRINT.match(value) is not None


def is_attribute(value: str) -> bool:
    """`settings.password`, `os.environ`, `Kind::Secret`: code which leads to a value."""
    return _ATTRIBUTE.match(value) is not None


def is_place(value: str) -> bool:
    """A path or an address. Base64 may begin with a slash too, but has no dots, dashes or words in it."""
    if _PLACE_BEGINS.match(value) is None and not value.endswith(_FILE_ENDS):
        return False
    return not (_BASE64.match(value) and looks_random(value))
