"""The contract of extraction: turns in, checked observations out. Two extractors keep it: rules, which need nothing, and a
model behind a `TextGenerator`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Protocol

from cems.models import Observation
from observer.turns import Turn


@dataclasses.dataclass(frozen=True)
class Context:
    """What an extractor may know beside the turns."""

    concepts: Sequence[str]
    """The concepts an observation may name."""
    redact: Callable[[str], str] = str
    """Takes secrets out of what a model wrote."""


@dataclasses.dataclass(frozen=True)
class Extracted:
    """What came out."""

    observations: tuple[Observation, ...]
    refused: tuple[str, ...] = ()
    """For each observation that was dropped, why: `no_evidence`, `preference_without_user`, …"""


class Extractor(Protocol):
    """Finds what is worth remembering in turns."""

    @property
    def author(self) -> str:
        """Recorded with each memory: `rules`, or the model's name."""
        ...

    def extract(self, turns: Sequence[Turn], context: Context) -> Extracted:
        """Observations of these turns; an empty answer is a valid one.

        Raises:
            ProviderError: see `cems.providers.TextGenerator`; rules raise nothing.
        """
        ...
