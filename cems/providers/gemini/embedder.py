"""Vectors from Gemini's embedding models. Texts go out in as many requests as the API's limits ask, and
nothing is returned before every vector's number, dimension and norm have been checked."""

from __future__ import annotations

import dataclasses
import json
import logging
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from cems.clock import Clock
from cems.errors import BadAnswer, ProviderMisconfigured
from cems.providers import Vector
from cems.providers.gemini.transport import Transport
from cems.providers.usage import cut_to_tokens, estimate_tokens

if TYPE_CHECKING:
    from google.genai import types

DEFAULT_EMBEDDING_MODEL = "gemini-embedding-001"

MAX_TEXTS = 100
"""Texts in a request; the API refuses more."""
MAX_REQUEST_BYTES = 3 * 2**20
"""Bytes of texts in a request; the API's limit is 4 MiB for all of it."""

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class _Family:
    """What differs between the models: 001 takes a task type, 2 wants the task in the text."""

    max_tokens: int
    document: str = "{}"
    query: str = "{}"
    document_task: str | None = None
    query_task: str | None = None


_FAMILIES = {
    "gemini-embedding-001": _Family(2048, document_task="RETRIEVAL_DOCUMENT", query_task="RETRIEVAL_QUERY"),
    "gemini-embedding-2": _Family(
        8192, document="title: none | text: {}", query="task: search result | query: {}"
    ),
}
SMALLEST, LARGEST = 128, 3072
"""The dimensions the models can give."""


class GeminiEmbedder:
    """An `Embedder`. Safe to share between threads."""

    needs_network = True

    def __init__(
        self,
        model: str,
        api_key: str,
        dimensions: int = 768,
        base_url: str | None = None,
        attempts: int = 4,
        *,
        timeout: float = 60.0,
        first_pause: float = 1.0,
        clock: Clock | None = None,
    ) -> None:
        """Take the settings; nothing is loaded or sent yet.

        Args:
            model: `gemini-embedding-001` or `gemini-embedding-2` (or a preview of it).
            api_key: of the Gemini Developer API.
            dimensions: numbers in a vector, 128 to 3072; an index of `vector` takes 2,000, of `halfvec`
                4,000.
            base_url: another address than Google's, or None.
            attempts: how often a request is sent at most, the first time included.
            timeout: seconds for one request of up to 100 texts, retries included.
            first_pause: seconds before the second attempt when the server names none; doubles after.
            clock: for deadlines and dates; the system's when None.

        Raises:
            ProviderMisconfigured: unknown model, impossible dimensions, or no key.
        """
        self._model = model.strip().removeprefix("models/")
        family = next((f for prefix, f in _FAMILIES.items() if self._model.startswith(prefix)), None)
        if family is None:
            raise ProviderMisconfigured(
                f"{self._model} is no embedding model that is known", hint=f"known are {', '.join(_FAMILIES)}"
            )
        if not SMALLEST <= dimensions <= LARGEST:
            raise ProviderMisconfigured(
                f"{self._model} cannot give vectors of {dimensions} dimensions",
                hint=f"choose {SMALLEST} to {LARGEST}; 768 is a good size",
            )
        self._family, self._dimensions, self._timeout = family, dimensions, timeout
        self.texts_cut = 0
        """How many texts were longer than the model takes, and lost their end."""
        self._transport = Transport(
            self._model,
            api_key,
            base_url,
            attempts=attempts,
            first_pause=first_pause,
            max_bytes=2**20 + MAX_TEXTS * dimensions * 40,
            clock=clock,
        )

    @property
    def model_id(self) -> str:
        """Such as `gemini-embedding-001@768`."""
        return f"{self._model}@{self._dimensions}"

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        return self._dimensions

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """One vector for each text, in order; all of them or an error. Raises as
        `Embedder.embed_documents`."""
        prepared = [self._prepared(text, self._family.document) for text in texts]
        return [
            vector for part in _requests(prepared) for vector in self._embed(part, self._family.document_task)
        ]

    def embed_query(self, text: str) -> Vector:
        """The vector of a question. Raises as `embed_documents`."""
        return self._embed([self._prepared(text, self._family.query)], self._family.query_task)[0]

    def _prepared(self, text: str, form: str) -> str:
        """The text as it is sent: no lone surrogates, never empty (the API refuses that), cut to the model's
        limit."""
        text = form.format(text.encode("utf-8", "replace").decode("utf-8").strip() or "(empty)")
        if estimate_tokens(text) > self._family.max_tokens:
            # The API would cut without a word; so it is done here, where it is counted.
            self.texts_cut += 1
            log.debug("text of %d characters cut to %d tokens", len(text), self._family.max_tokens)
            text = cut_to_tokens(text, self._family.max_tokens)
        return text

    def _embed(self, texts: list[str], task: str | None) -> list[Vector]:
        try:
            from google.genai import types
        except ImportError as error:
            raise ProviderMisconfigured(f"google-genai cannot be loaded: {error}") from error

        # Content objects, always: the SDK joins plain strings into one content for gemini-embedding-2.
        contents = [types.Content(parts=[types.Part(text=text)]) for text in texts]
        response = self._transport.run(
            lambda client, milliseconds: client.models.embed_content(
                model=self._model,
                contents=contents,
                config=types.EmbedContentConfig(
                    task_type=task,
                    output_dimensionality=self._dimensions,
                    http_options=types.HttpOptions(timeout=milliseconds),
                ),
            ),
            self._transport.clock.monotonic() + self._timeout,
        )
        return self._checked(response, len(texts))

    def _checked(self, response: types.EmbedContentResponse, wanted: int) -> list[Vector]:
        embeddings = response.embeddings or []
        if len(embeddings) != wanted:
            raise BadAnswer(f"Gemini gave {len(embeddings)} vectors for {wanted} texts")
        return [self._unit(embedding.values or []) for embedding in embeddings]

    def _unit(self, values: Sequence[float]) -> Vector:
        if len(values) != self._dimensions:
            raise BadAnswer(f"Gemini gave a vector of {len(values)} dimensions instead of {self._dimensions}")
        norm = math.sqrt(sum(value * value for value in values))
        if not math.isfinite(norm) or norm < 1e-9:
            raise BadAnswer("Gemini gave a vector that is zero or not of numbers")
        # Shortened vectors of 001 are not of length one, and normalising twice harms nothing.
        return [value / norm for value in values]


def _requests(texts: Sequence[str]) -> Iterator[list[str]]:
    """The texts in as few requests as the API's limits allow, in order."""
    part: list[str] = []
    size = 0
    for text in texts:
        weight = len(json.dumps(text))  # as sent: escaped, a character outside ASCII is six bytes and more
        if part and (len(part) == MAX_TEXTS or size + weight > MAX_REQUEST_BYTES):
            yield part
            part, size = [], 0
        part.append(text)
        size += weight
    if part:
        yield part
