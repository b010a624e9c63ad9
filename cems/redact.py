"""Takes secrets out of text before it is stored, sent to a model or written to a log. What is recognised
becomes `[secret:kind:xxxxxx]`, six digits of a keyed hash, so that equal secrets stay recognisable and
none can be read back. Redacting twice changes nothing; what the user marked `<private>` is gone, and doubt
about where it ends means all."""

from __future__ import annotations

import fnmatch
import hashlib
import hmac
import re
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from cems.secret_names import Span
from cems.secret_rules import OURS, find_secrets
from cems.text import sanitise

# Taking one secret out can show another, as when a value was part of a longer one; each round leaves less to
# find.
_ROUNDS = 8


class Redactor:
    """Redacts texts and counts what it found. Safe to share between threads."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def redact(self, text: str) -> str:
        """The text, sanitised, without what is private and with every recognised secret replaced."""
        text = sanitise(text)
        if "<" in text and (stripped := strip_private(text)) != text:
            self._count(["private"])
            text = stripped
        for _ in range(_ROUNDS):
            spans = _outside_ours(text, find_secrets(text))
            if not spans:
                break
            text = self._replace(text, spans)
        return text

    def redacted(self) -> Mapping[str, int]:
        """How many secrets of each kind were replaced since the start."""
        with self._lock:
            return MappingProxyType(dict(self._counts))

    def _replace(self, text: str, spans: Sequence[Span]) -> str:
        parts, at = [], 0
        for span in spans:
            secret = text[span.start : span.end].encode()
            digits = hmac.new(self._key, secret, hashlib.sha256).hexdigest()[:6]
            parts += [text[at : span.start], f"[secret:{span.kind}:{digits}]"]
            at = span.end
        self._count([span.kind for span in spans])
        return "".join(parts) + text[at:]

    def _count(self, kinds: Sequence[str]) -> None:
        with self._lock:
            self._counts.update(kinds)


def _outside_ours(text: str, spans: Sequence[Span]) -> list[Span]:
    """The spans in order, overlapping ones made one, and none of them touching a placeholder of ours."""
    if not spans:
        return []
    merged: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if merged and span.start < merged[-1].end:
            last = merged[-1]
            merged[-1] = last._replace(end=max(last.end, span.end))
        else:
            merged.append(span)
    ours = [match.span() for match in OURS.finditer(text)]
    if not ours:
        return merged
    kept: list[Span] = []
    index = 0
    for span in merged:
        at = span.start
        while index < len(ours) and ours[index][1] <= at:
            index += 1
        inside = index
        while inside < len(ours) and ours[inside][0] < span.end:
            if ours[inside][0] > at:
                kept.append(span._replace(start=at, end=ours[inside][0]))
            at = max(at, ours[inside][1])
            inside += 1
        if at < span.end and (at == span.start or inside > index):
            kept.append(span._replace(start=at))
    return kept


# --- what the user marked as private ------------------------------------------------------------------------

_TAG = re.compile(r"<\s*+(/?+)\s*+private(?![\w-])[^<>]*+>?", re.IGNORECASE)


def strip_private(text: str) -> str:
    """The text without what stands between `<private>` and `</private>`. A tag may be nested, spaced,
    capitalised or have attributes; one that is never closed takes everything to the end."""
    return private_across_blocks([text])[0]


def private_across_blocks(texts: Sequence[str]) -> list[str]:
    """The blocks of one message without what is private in it. A tag opened in one block and closed in a
    later one takes everything between; one that is never closed takes the rest of the message. As many
    blocks come back."""
    result, depth = [], 0
    for text in texts:
        kept, depth = _strip(text, depth)
        # Taking a piece out may join its neighbours to a new tag. Whoever writes that gets the strict
        # reading.
        if kept != text and (tag := _opening(kept)):
            kept, depth = kept[: tag.start()], depth + 1
        result.append(kept)
    return result


def _strip(text: str, depth: int) -> tuple[str, int]:
    if not _TAG.search(text):
        return ("" if depth else text), depth
    parts, at = [], 0
    for tag in _TAG.finditer(text):
        if tag[1]:
            if depth == 0:
                continue  # closes nothing: ordinary text
            depth -= 1
            if depth == 0:
                at = tag.end()
        else:
            if depth == 0:
                parts.append(text[at : tag.start()])
            depth += 1
    if depth == 0:
        parts.append(text[at:])
    return "".join(parts), depth


def _opening(text: str) -> re.Match[str] | None:
    return next((tag for tag in _TAG.finditer(text) if not tag[1]), None)


# --- files that are nothing but secrets ---------------------------------------------------------------------

_SECRET_FILES = """
    .env .env.* .env-* .env_* *.env .envrc .dev.vars
    *.pem *.key *.p12 *.p8 *.pfx *.jks *.keystore *.kdb *.kdbx *.ppk *.ovpn *.agekey
    id_rsa* id_dsa* id_ecdsa* id_ed25519*
    credential credentials credential[._-]* credentials[._-]* *[._-]credential *[._-]credentials
    *[._-]credential[._-]* *[._-]credentials[._-]*
    secret secrets secret[._-]* secrets[._-]* *[._-]secret *[._-]secrets *[._-]secret.* *[._-]secrets.*
    kubeconfig kubeconfig.* *.kubeconfig .netrc _netrc .pgpass pgpass.conf .npmrc .yarnrc.yml .pypirc .my.cnf
    .git-credentials .htpasswd .dockercfg .dockerconfigjson .vault-token .boto .s3cfg .terraformrc *.tfstate
    *.tfstate.backup client_secret*.json application_default_credentials.json *service[_-]account*.json
    local.settings.json shadow gshadow
"""
_SECRET_PLACES = """
    */.ssh/* */.gnupg/* */.kube/config */.docker/config.json */.aws/config */.config/gh/hosts.yml
    */.config/rclone/rclone.conf */run/secrets/*
"""
# Names like those above which hold no secrets: public halves, examples, and code that is about secrets.
_PUBLIC_FILES = """
    *.pub known_hosts* authorized_keys* *[._-]example *[._-]example.* *[._-]sample *[._-]sample.* *.template
    *.template.* *.dist *.tmpl *.tpl *.schema.json */.ssh/config
    *.py *.pyi *.ts *.tsx *.js *.jsx *.mjs *.go *.rs *.java *.rb *.kt *.swift *.c *.h *.cpp *.cs *.php *.ex
    *.exs *.md *.mdx *.rst *.html *.css *.vue *.svelte *.sql
"""


def _any_of(patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns.split()), re.IGNORECASE)


_IS_SECRET_FILE, _IS_SECRET_PLACE, _IS_PUBLIC = map(_any_of, (_SECRET_FILES, _SECRET_PLACES, _PUBLIC_FILES))


def is_secret_file(path: str) -> bool:
    """Whether a file of this path holds secrets by its nature, so that nothing read from it should be kept.
    Examples, templates, public keys and program code do not count."""
    whole = "/" + path.strip().strip("\"'").replace("\\", "/")
    name = whole.rsplit("/", 1)[1]
    if _IS_PUBLIC.match(name) or _IS_PUBLIC.match(whole):
        return False
    return _IS_SECRET_FILE.match(name) is not None or _IS_SECRET_PLACE.match(whole) is not None
