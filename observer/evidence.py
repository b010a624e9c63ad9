"""Evidence: what a line shows, word for word, and whether a quote is really there. The same rendering is what a model is
shown and what its quotes are checked against, so that a true quote is always found."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from uuid import UUID

from cems.models import ORIGINS, QUOTE_LIMIT, Evidence, Line

MIN_QUOTE = 8
"""Characters; shorter quotes prove nothing."""
_SPACE = re.compile(r"\s+")
_LOOKALIKES = str.maketrans(
    {"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "–": "-", "—": "-", "…": "...", "\u00a0": " "}
)


def shown(line: Line) -> str:
    """All words of a line: its text, then what its tool calls say."""
    parts = [line.text] if line.text else []
    for use in line.tools:
        words = [w for w in (", ".join(use.files), use.command, use.detail) if w]
        if words:
            parts.append(f"[{use.name}] " + "\n".join(words))
    return "\n".join(parts)


def verify(quote: str, line: Line) -> Evidence | None:
    """The evidence of a quote, or None where the line does not hold it. White space, quotation marks, dashes and an
    ellipsis at either end may differ; nothing else may."""
    wanted = _plain(quote).strip(" .\"'`*")
    if len(wanted) < min(MIN_QUOTE, max(2, len(_plain(shown(line)).strip()))):
        return None
    if wanted not in _plain(shown(line)):
        return None
    return Evidence(line.uuid, quote.strip()[:QUOTE_LIMIT], line.origin)


def find(quote: str, lines: Mapping[UUID, Line], named: list[UUID]) -> list[Evidence]:
    """Evidence of a quote in the lines it names; where the quote stands in none of them, in any other line that holds it
    word for word: a model that mixes up numbers still quoted something real. Of several such lines the least trusted one
    counts, because it may be what the others repeat."""
    for candidates in ([lines[u] for u in named if u in lines], list(lines.values())):
        found = [e for line in candidates if (e := verify(quote, line))]
        if found:
            return [max(found, key=lambda e: ORIGINS.index(e.origin))]
    return []


def _plain(text: str) -> str:
    return _SPACE.sub(" ", unicodedata.normalize("NFKC", text.translate(_LOOKALIKES)))
