"""How the block that recall gives to a session is recognised: its tag, and the ids of the memories shown in it. Both sides
need it: recall writes the block, and the observer neither learns from one nor overlooks what was shown."""

from __future__ import annotations

import re

from cems.ids import SHORT

TAG = "cems-memory"
"""The tag around everything recall gives; what stands inside it is never learnt again."""

BLOCK = re.compile(rf"<{TAG}\b[^>]*>(.*?)(?:</{TAG}>|\Z)", re.S | re.I)
"""A whole block, its inside as group 1; one that is never closed reaches to the end of the text."""

_ITEM = re.compile(rf"^- \[([0-9a-f]{{{SHORT}}})\]", re.M)
_CITED = re.compile(rf"(?<![0-9A-Za-z-])[0-9a-f]{{{SHORT}}}(?![0-9A-Za-z])")


def shown_ids(text: str) -> list[str]:
    """Short ids of the memories shown in every block of a text, each once, in order."""
    found = [match for body in BLOCK.findall(text) for match in _ITEM.findall(body)]
    return list(dict.fromkeys(found))


def cited_ids(text: str) -> set[str]:
    """Everything in a text that could be the short id of a memory; only who knows what was shown can tell."""
    return set(_CITED.findall(text))
