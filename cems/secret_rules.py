"""Secrets which their own shape gives away: private keys, tokens with the prefix of their issuer,
addresses with a password in them, headers. Each rule finds spans and changes nothing. All of them together
cost little on text without secrets: a rule runs only where a literal it cannot do without was found, and
every pattern takes linear time."""

from __future__ import annotations

import base64
import bisect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cems.secret_names import Span, find_assignments
from cems.secret_values import digits_in, is_mixed, is_place, is_stand_in, looks_random

# What redaction leaves where a secret was.
OURS = re.compile(r"\[secret:[a-z0-9-]{1,24}:[0-9a-f]{6}\]")

_WORD = "[A-Za-z0-9_-]"
_ALNUM = "[A-Za-z0-9]"
_HEX = "[0-9a-f]"


@dataclass(frozen=True, slots=True)
class TokenRule:
    """Tokens of one issuer: any of the literals, then the body, both together the secret if `holds`
    agrees. It gets the token and whether the text ends with it, so that the token may have been cut."""

    kind: str
    literals: tuple[str, ...]
    body: re.Pattern[str]
    holds: Callable[[str, bool], bool]


def _always(_token: str, _cut: bool) -> bool:
    return True


def _random(token: str, _cut: bool) -> bool:
    return looks_random(token)


def _random_or_plain(token: str, _cut: bool) -> bool:
    return looks_random(token) or token.removeprefix("sk-").isalnum()


def _has_parts(token: str, cut: bool) -> bool:
    return cut or "." in token


def _token(
    kind: str,
    literals: str,
    body: str,
    least: int,
    *,
    holds: Callable[[str, bool], bool] = _always,
) -> TokenRule:
    """A rule whose body has `least` characters or more. At the end of the text fewer do: there a token may
    have been cut, and half a token is worth hiding too, if only a digit shows that it is no word."""
    pattern = rf"{body}{{{least},}}+|(?=[^0-9]{{0,32}}+[0-9]|.{{12}}){body}{{4,}}+\Z"
    return TokenRule(kind, tuple(literals.split()), re.compile(pattern, re.DOTALL), holds)


TOKEN_RULES = (
    # kind            literals                                    body     least
    _token("anthropic", "sk-ant-", _WORD, 16),
    _token("openai", "sk-proj- sk-svcacct- sk-admin- sk-None-", _WORD, 16),
    _token("openrouter", "sk-or-", _WORD, 20),
    _token("sk-key", "sk-", _WORD, 20, holds=_random_or_plain),
    _token("aws-key-id", "AKIA ASIA ABIA ACCA", "[A-Z0-9]", 16),
    _token("github", "ghp_ gho_ ghu_ ghs_ ghr_", _ALNUM, 20),
    _token("github", "github_pat_", "[A-Za-z0-9_]", 20),
    _token(
        "gitlab",
        "glpat- gldt- glrt- glcbt- glptt- glft- glimt- glagent- gloas- glsoat- glffct-",
        "[A-Za-z0-9_.-]",
        16,
    ),
    _token(
        "slack",
        "xoxa- xoxb- xoxc- xoxd- xoxe- xoxe. xoxo- xoxp- xoxr- xoxs- xapp- xwfp-",
        "[A-Za-z0-9%-]",
        16,
    ),
    _token("google", "AIza", _WORD, 30),
    _token("google-oauth", "ya29. GOCSPX-", r"[A-Za-z0-9_.-]", 20),
    _token("npm", "npm_", _ALNUM, 30),
    _token("pypi", "pypi-", _WORD, 50),
    _token("rubygems", "rubygems_", _HEX, 32),
    _token("huggingface", "hf_ api_org_", _ALNUM, 30),
    _token("docker", "dckr_pat_ dckr_oat_", _WORD, 20),
    _token("sendgrid", "SG.", "[A-Za-z0-9_.-]", 40, holds=_random),
    _token("stripe", "sk_live_ sk_test_ rk_live_ rk_test_", _ALNUM, 16),
    _token("webhook", "whsec_", "[A-Za-z0-9+/=]", 20),
    _token("shopify", "shpat_ shpss_ shpca_ shppa_", "[0-9a-fA-F]", 24),
    _token("square", "sq0atp- sq0csp- sq0idp-", _WORD, 20),
    _token("twilio", "SK", _HEX, 32),
    _token("telegram", ":AA", _WORD, 30),
    _token("mailgun", "key-", _HEX, 32),
    _token("age", "AGE-SECRET-KEY-", "[A-Z0-9]", 40),
    _token("tailscale", "tskey-", _WORD, 16),
    _token("doppler", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", "[A-Za-z0-9_.-]", 30),
    _token("vault", "hvs. hvb. hvr.", _WORD, 20),
    _token("linear", "lin_api_ lin_oauth_", _ALNUM, 24),
    _token("digitalocean", "dop_v1_ doo_v1_ dor_v1_", _HEX, 40),
    _token("databricks", "dapi", _HEX, 32),
    _token("grafana", "glsa_ glc_", "[A-Za-z0-9_+/=]", 20),
    _token("notion", "ntn_ secret_", _ALNUM, 40),
    _token("figma", "figd_ figo_", _WORD, 30),
    _token("supabase", "sbp_ sb_secret_", _WORD, 20),
    _token("planetscale", "pscale_tkn_ pscale_pw_ pscale_oauth_", "[A-Za-z0-9_.-]", 24),
    _token("replicate", "r8_", _ALNUM, 30),
    _token("groq", "gsk_", _ALNUM, 30),
    _token("xai", "xai-", _ALNUM, 40),
    _token("perplexity", "pplx-", _ALNUM, 30),
    _token("postman", "PMAK-", _WORD, 40),
    _token("newrelic", "NRAK-", "[A-Z0-9]", 24),
    _token("sentry", "sntrys_ sntryu_", "[A-Za-z0-9_+/=]", 30),
    _token("atlassian", "ATATT3 ATCTT3", "[A-Za-z0-9_=-]", 40),
    _token("netlify", "nfp_", _ALNUM, 30),
    _token("circleci", "CCIPAT_", _WORD, 30),
    _token("flyio", "fm1_ fm2_ fo1_", "[A-Za-z0-9_+/=-]", 40),
    _token("langsmith", "lsv2_pt_ lsv2_sk_", "[A-Za-z0-9_]", 30),
    # It matches without its parts too: a run of `eyJ-eyJ-…` is then read once, and left alone.
    TokenRule(
        "jwt",
        ("eyJ",),
        re.compile(rf"{_WORD}{{8,}}+(?:\.{_WORD}{{4,}}+(?:\.{_WORD}*+){{0,3}})?+"),
        _has_parts,
    ),
)

_RUN = 20  # no token is shorter than this, prefix included
_BEFORE_RUN = 12  # the part of a prefix which is not of the characters of a run: `dp.audit.`
_SHAPE = bytes(
    ord("x") if chr(code).isalnum() or chr(code) in "_-" else ord(" ") for code in range(128)
).ljust(256)


def _any_prefix() -> str:
    """All literals as one alternative, sorted by their first characters so that most are never compared."""
    literals = {literal.lstrip(":") for rule in TOKEN_RULES for literal in rule.literals}
    by_first: dict[str, list[str]] = {}
    for literal in sorted(literals):
        by_first.setdefault(literal[0], []).append(re.escape(literal[1:]))
    return "|".join(f"{first}(?:{'|'.join(rest)})" for first, rest in by_first.items())


# A token begins where a word does; an escaped line end, a percent escape or a terminal colour may stand
# before it.
_PREFIX = re.compile(rf"[^A-Za-z0-9](?:{_any_prefix()})")
_PREFIX_ESCAPED = re.compile(rf"(?:\\[nrtbf]|%[0-9A-Fa-f]{{2}}|[\[;][0-9]{{1,2}}m)(?:{_any_prefix()})")
_ESCAPE_BEFORE = re.compile(r"(?:\\[nrtbf]|%[0-9A-Fa-f]{2}|[\[;][0-9]{1,2}m)\Z")

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
        rf"k(?:e(?:y{_JOINED}|(?<=toke)n{_JOINED})|(ie(?<=cookie))|(s(?<=hooks)[./]))",
        # pass…, pwd, private key
        rf"p(?:ass{_JOINED_LOOSELY}|wd{_JOINED_LOOSELY}|(rivate key))",
        # auth…, curl
        rf"u(?:th(?<=auth)(?:(orization)|{_JOINED})|(rl(?<=curl)))",
        # cred…, secret
        rf"cre(?:d{_JOINED}|(?<=secre)t{_JOINED})",
    )
)
# On a short text four searches cost more than one that is slower.
_HINTS_SHORT = (re.compile("|".join(pattern.pattern for pattern in _HINTS)),)
_SHORT = 300


def find_secrets(text: str) -> list[Span]:
    """All stretches of the text that are secrets, in no order; they may overlap."""
    raw = text.encode("ascii", "replace")  # one byte a character, so positions are those of the text
    low = raw.lower().decode("ascii")
    if "[secret:" in low:  # what an earlier pass put there is no name of a secret
        low = OURS.sub(lambda ours: " " * len(ours[0]), low)
    names: list[int] = []
    places: dict[str, list[int]] = {}
    for pattern in _HINTS if len(text) > _SHORT else _HINTS_SHORT:
        for hint in pattern.finditer(low):
            if hint.lastindex:
                places.setdefault(hint[hint.lastindex], []).append(hint.start())
            else:
                names.append(hint.start())
    found: list[Span] = []
    runs = _long_runs(text, raw)
    if runs and _has_prefix(runs):
        found += _tokens(text, runs)
    if "@" in text or "://" in text[-_RUN * 10 :]:
        found += _addresses(text)
    if "%" in text and "sig=" in low:
        found += _matches("signature", _SIGNATURE, text)
    if places:
        found += _at_places(text, places)
    found += find_assignments(text, sorted(names))
    return found


def _at_places(text: str, places: dict[str, list[int]]) -> Iterator[Span]:
    if "rivate key" in places:
        yield from _private_keys(text)
    if "s." in places or "s/" in places:
        yield from _matches("webhook", _WEBHOOK, text)
    if "rl" in places:
        yield from _user_options(text)
    yield from _cookies(text, [at + len("kie") for at in places.get("ie", ())])
    for at in places.get("orization", ()):
        header = _AUTHORIZATION.match(text, at + len("uthorization"))
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


def _long_runs(text: str, raw: bytes) -> str:
    """The parts of the text that are long enough to be a token, one a line. They are few in ordinary text,
    and telling so takes two passes at the speed of memory, where looking for every prefix would take a
    hundred."""
    shape = raw.translate(_SHAPE)
    run, parts = b"x" * _RUN, [""]
    at = shape.find(run)
    while at >= 0:
        end = shape.find(b" ", at + _RUN)
        if end < 0:
            end = len(text)
        parts.append(text[at - _BEFORE_RUN if at > _BEFORE_RUN else 0 : end])
        at = shape.find(run, end)
    last = shape.rfind(b" ") + 1  # the last word may be a token that was cut
    if _RUN > len(text) - last >= 6:
        parts.append(text[max(0, last - _BEFORE_RUN) :])
    return "\n".join(parts) if len(parts) > 1 else ""


def _has_prefix(runs: str) -> bool:
    if _PREFIX.search(runs):
        return True
    return ("\\" in runs or "%" in runs or "[" in runs) and _PREFIX_ESCAPED.search(runs) is not None


def _tokens(text: str, runs: str) -> Iterator[Span]:
    for rule in TOKEN_RULES:
        for literal in rule.literals:
            at = text.find(literal) if literal in runs else -1
            while at >= 0:
                end = at + len(literal)
                if _begins_word(text, at) and (body := rule.body.match(text, end)):
                    end = body.end()
                    if rule.holds(text[at:end], end == len(text)) and not _MASK.fullmatch(body[0]):
                        yield Span(at + literal.startswith(":"), end, rule.kind)
                at = text.find(literal, end)


_MASK = re.compile(r"x+|X+|[*.]+")


def _begins_word(text: str, at: int) -> bool:
    if text[at] == ":":  # only Telegram's tokens begin with a number
        return at >= 8 and text[at - 8 : at].isdigit()
    before = text[at - 1 : at]
    return not (before.isascii() and before.isalnum()) or _ESCAPE_BEFORE.search(text, at - 4, at) is not None


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


def _cookies(text: str, places: list[int]) -> Iterator[Span]:
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
