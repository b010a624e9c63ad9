"""Tokens which begin with the name of their issuer, as a table: one row a kind. Text without tokens costs
little: only what is long enough to be a token is compared with the table at all, and that is found at the
speed of memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cems.secret_names import Span
from cems.secret_values import looks_random

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
    _token("anthropic", "sk-ant-", _WORD, 20),
    _token("openai", "sk-proj- sk-svcacct- sk-admin- sk-None-", _WORD, 20),
    _token("openrouter", "sk-or-", _WORD, 20),
    _token("sk-key", "sk-", _WORD, 24, holds=_random_or_plain),
    _token("aws-key-id", "AKIA ASIA ABIA ACCA", "[A-Z0-9]", 16),
    _token("github", "ghp_ gho_ ghu_ ghs_ ghr_", _ALNUM, 20),
    _token("github", "github_pat_", "[A-Za-z0-9_]", 20),
    _token(
        "gitlab",
        "glpat- gldt- glrt- glcbt- glptt- glft- glimt- glagent- gloas- glsoat- glffct-",
        "[A-Za-z0-9_.-]",
        18,
    ),
    _token(
        "slack",
        "xoxa- xoxb- xoxc- xoxd- xoxe- xoxe. xoxo- xoxp- xoxr- xoxs- xapp- xwfp-",
        "[A-Za-z0-9%-]",
        20,
    ),
    _token("google", "AIza", _WORD, 30),
    _token("google-oauth", "ya29. GOCSPX-", "[A-Za-z0-9_.-]", 24),
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
    _token("tailscale", "tskey-", _WORD, 20),
    _token("doppler", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", "[A-Za-z0-9_.-]", 30),
    _token("vault", "hvs. hvb. hvr.", _WORD, 24),
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

_RUN = 24  # no token has fewer characters in a row than this, except those which are looked for by themselves
_SHORT_TOKEN = re.compile(rb"A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{4}")
_BEFORE_RUN = 32  # how far before the run its prefix may begin: `SG.`, 22 characters, a dot; or an escape
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


def find_tokens(text: str, raw: bytes) -> Iterator[Span]:
    """The tokens in the text. `raw` is the text with one byte for each character."""
    if _SHORT_TOKEN.search(raw):
        yield from _tokens(text, text)
    elif (runs := _long_runs(text, raw)) and _has_prefix(runs):
        yield from _tokens(text, runs)


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
