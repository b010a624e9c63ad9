"""The two small contracts behind which every model stands, and what is asked and answered through them.

A provider raises only the errors of `cems.errors` that say so in these docstrings; it never retries longer than the
request's timeout, never writes to the database, and knows nothing of memories."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from cems.models import Usage as Usage

Vector = list[float]
"""A unit vector: its L2 norm is 1, within 0.001."""


@dataclasses.dataclass(frozen=True)
class GenerateRequest:
    """One request for structured text."""

    purpose: str
    """What it is for: `extraction`, `judging`, … Budgets and pauses are kept by purpose."""
    system: str
    prompt: str
    schema: Mapping[str, Any]
    """JSON Schema of the answer; the answer's root is an object."""
    max_output_tokens: int = 8192
    timeout: float = 60.0
    """Seconds for the whole request, retries included."""


@dataclasses.dataclass(frozen=True)
class GenerateReply:
    """A complete answer: it ended by itself and is one JSON object."""

    data: dict[str, Any]
    usage: Usage
    model: str
    """The model that answered, as the provider names it."""


class TextGenerator(Protocol):
    """Writes a JSON object by a schema."""

    @property
    def model(self) -> str:
        """The model's name as the ledger and the memories record it."""
        ...

    def generate(self, request: GenerateRequest) -> GenerateReply:
        """Answer the request.

        Raises:
            ProviderUnavailable, RateLimited, QuotaExhausted: nothing wrong with the request; try later.
            ProviderMisconfigured: waiting does not help.
            BadAnswer, BlockedAnswer, EmptyAnswer, TruncatedAnswer: this request got no usable answer.
        """
        ...

    def count_tokens(self, text: str) -> int:
        """An estimate, made without a network, of how many tokens a text is."""
        ...


class Embedder(Protocol):
    """Turns texts into vectors. Vectors of different `model_id`s are never compared."""

    @property
    def model_id(self) -> str:
        """Names the model and all that changes its vectors; stored with each vector."""
        ...

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        ...

    @property
    def needs_network(self) -> bool:
        """Whether a call leaves this machine (and so counts against budgets)."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """One vector for each text, in order. Any number of texts; the embedder splits them as its limits ask.

        Raises the same errors as `TextGenerator.generate`; BadAnswer when number, dimension or norm is wrong.
        """
        ...

    def embed_query(self, text: str) -> Vector:
        """The vector of a question. Raises as `embed_documents`."""
        ...
