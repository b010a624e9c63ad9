"""A model for fault tests that says exactly one thing about each note in a transcript, so that what must be remembered can
be counted; and one that fails now and then, in every way a provider fails."""

from __future__ import annotations

import random
import re
import threading
from typing import Any

from tests.fake_gemini import Asked, Behaviour, error, html, ok, reset, text, truncated

_NOTE = re.compile(r"^\[(\d+)\] [A-Z][\w ()]*: (note (\S+): [^\n]{8,60})", re.M)


def notes_in(prompt: str) -> dict[str, tuple[int, str]]:
    """Each note the prompt shows: its name → number of its line, and words to quote."""
    return {name: (int(line), quote.strip()) for line, quote, name in _NOTE.findall(prompt)}


def observation(name: str, line: int, quote: str) -> dict[str, Any]:
    return {
        "kind": "context",
        "title": f"note {name}",
        "body": "As it was said.",
        "concepts": [],
        "files": [],
        "confidence": 0.9,
        "evidence": [{"line": line, "quote": quote}],
    }


def observe(asked: Asked) -> Behaviour:
    """One observation for each note."""
    return ok({"observations": [observation(n, *found) for n, found in notes_in(asked.prompt).items()]})


class Flaky:
    """Answers as `observe`, except that a share of the calls goes wrong. What a provider does wrong to any batch at all
    makes all of them wait; here only what concerns one batch goes wrong, so that a short test gets through."""

    def __init__(self, share: float, seed: int = 1) -> None:
        self._share = share
        self._chance = random.Random(seed)
        self._lock = threading.Lock()

    def __call__(self, asked: Asked) -> Behaviour:
        with self._lock:
            wrong = self._chance.random() < self._share
            how = self._chance.choice(
                [text("```json nope"), text("{}"), truncated(), text('{"observations": [{}]}')]
            )
        return how if wrong else observe(asked)


OUTAGES: list[Behaviour] = [html(503), error(500, "INTERNAL"), reset()]
