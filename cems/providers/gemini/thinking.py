"""How to ask a Gemini model to think as little as it can. Families take different parameters and members of a
family different values, so this is a ladder: the next rung is tried when the API refuses one, and
remembered."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.genai import types

Rung = str | int | None
"""A `thinking_level`, a `thinking_budget` in tokens, or nothing sent."""


def ladder(model: str) -> tuple[Rung, ...]:
    """The settings to try for a model, least thinking first; ends with sending none."""
    match = re.match(r"(?:models/)?gemini-(\d+)(?:\.(\d+))?", model)
    if match is None:
        return (None,)
    major, minor = int(match[1]), int(match[2] or 0)
    if major >= 3:
        return ("MINIMAL", "LOW", None)
    if (major, minor) == (2, 5):
        return (0, None)
    return (None,)


def config(rung: Rung) -> types.ThinkingConfig | None:
    """The SDK's form of a rung; level or budget, never both."""
    from google.genai import types

    if rung is None:
        return None
    if isinstance(rung, int):
        return types.ThinkingConfig(thinking_budget=rung)
    return types.ThinkingConfig(thinking_level=types.ThinkingLevel(rung))
