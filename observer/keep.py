"""What is kept of texts: private passages and injected blocks out, secrets redacted, then shortened, in this order. Redaction
sees a little more than is kept, and the last stretch of what it saw is dropped, so no secret reaches the kept text in half."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from cems.models import ToolUse
from cems.redact import Redactor, private_across_blocks
from cems.text import shorten
from observer import toolcalls
from observer.secret_results import call_shows_secret, is_secret
from observer.wrappers import strip_injected

_ERROR_SEEN = 8 * 1024
_SEAM = 512
_SHORT = 200


class Keeper:
    """Redacts and shortens with one redactor."""

    def __init__(self, redactor: Redactor) -> None:
        self._redact = redactor.redact
        # Paths, and short texts such as "Todos have been modified", come again and again.
        self._redact_short = functools.lru_cache(4096)(redactor.redact)

    def message(self, texts: Sequence[str], limit: int, keep_tail: float = 0.0) -> str:
        """One text of a message's blocks; `keep_tail` is the share of a shortened text that comes from its end."""
        if not texts:
            return ""
        if len(texts) > 1 or "<" in texts[0]:
            texts = [t for t in private_across_blocks(texts) if t.strip()]
        text = "\n\n".join(texts)
        if "<" in text:
            text = strip_injected(text)
        if keep_tail and limit < len(text) <= _ERROR_SEEN:
            return shorten(self._redact(text).strip(), limit, keep_tail=keep_tail)
        return self._kept(text, limit).strip()

    def call(self, use: ToolUse) -> ToolUse:
        """A tool call; one that writes a file of secrets keeps only that it did."""
        silent = use.changes and any(map(is_secret, use.files))
        return ToolUse(
            self.label(use.id, toolcalls.ID_LIMIT),
            self.label(use.name, toolcalls.NAME_LIMIT),
            tuple(self.label(f, toolcalls.FILE_LIMIT) for f in use.files),
            use.changes,
            self._kept(use.command, toolcalls.COMMAND_LIMIT) if use.command and not silent else "",
            self._kept(use.detail, toolcalls.DETAIL_LIMIT) if use.detail and not silent else "",
            secret=call_shows_secret(use),
        )

    def label(self, text: str, limit: int) -> str:
        """A name, an id or a path that a program gave: redacted like any text, because anything may stand in it."""
        if len(text) <= limit:
            return self._redact_short(text)
        return self._redact(text[: limit + _SEAM])[:limit]

    def _kept(self, text: str, limit: int) -> str:
        """The beginning of a text, redacted, with a word on how much was left out."""
        if len(text) <= limit:
            return self._redact_short(text) if len(text) <= _SHORT else self._redact(text)
        cut = len(text) > limit + _SEAM
        clean = self._redact(text[: limit + _SEAM])
        if cut:
            clean = clean[:-_SEAM]
        if len(clean) <= limit and not cut:
            return clean
        return f"{clean[: limit - 40].rstrip()} […{len(text) - limit + 40:,} characters left out…]"
