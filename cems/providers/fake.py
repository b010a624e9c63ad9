"""Stand-ins for tests of everything above the providers: a generator that answers from a queue and remembers
what it was asked, and an embedder that needs no model. Both keep the contracts of `cems.providers` to the
letter."""

from __future__ import annotations

import collections
import hashlib
import json
import math
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from cems.providers import GenerateReply, GenerateRequest, Usage, Vector
from cems.providers.usage import estimate_tokens

Answer = dict[str, Any] | Exception | Callable[[GenerateRequest], "dict[str, Any] | GenerateReply"]
"""What one request gets: an object, an error that is raised, or a function that makes the answer or
raises."""


class ScriptedGenerator:
    """A `TextGenerator` that gives the scripted answers in order. Safe to share between threads."""

    def __init__(
        self, answers: Iterable[Answer] = (), *, default: Answer | None = None, model: str = "scripted"
    ) -> None:
        """Take the script.

        Args:
            answers: one for each request.
            default: for requests after the last; without it they are an AssertionError, which no retry hides.
            model: the name it goes by.
        """
        self.requests: list[GenerateRequest] = []
        """All that was asked, in order."""
        self._answers = collections.deque(answers)
        self._default = default
        self._model = model
        self._lock = threading.Lock()

    @property
    def model(self) -> str:
        """The name it goes by."""
        return self._model

    @property
    def unused(self) -> int:
        """How many scripted answers were not asked for."""
        return len(self._answers)

    def add(self, *answers: Answer) -> None:
        """More answers, after those that are left."""
        with self._lock:
            self._answers.extend(answers)

    def count_tokens(self, text: str) -> int:
        """An estimate: four bytes a token."""
        return estimate_tokens(text)

    def generate(self, request: GenerateRequest) -> GenerateReply:
        """The next answer, with estimated usage."""
        with self._lock:
            self.requests.append(request)
            answer = self._answers.popleft() if self._answers else self._default
        if answer is None:
            raise AssertionError(f"request {len(self.requests)} ({request.purpose}) has no scripted answer")
        if isinstance(answer, Exception):
            raise answer
        data = answer if isinstance(answer, dict) else answer(request)
        if isinstance(data, GenerateReply):
            return data
        usage = Usage(
            input_tokens=estimate_tokens(request.system) + estimate_tokens(request.prompt),
            output_tokens=estimate_tokens(json.dumps(data)),
        )
        return GenerateReply(data=data, usage=usage, model=self._model)


class HashEmbedder:
    """An `Embedder` by hashed words: the more words two texts share, the nearer they are. Same text, same
    vector."""

    needs_network = False

    def __init__(self, dimensions: int = 384) -> None:
        """Take the number of dimensions; fewer than 64 bring unrelated texts near each other."""
        self._dimensions = dimensions
        self.texts: list[str] = []
        """All documents and queries, in order."""

    @property
    def model_id(self) -> str:
        """`fake-hash@` and the dimensions."""
        return f"fake-hash@{self._dimensions}"

    @property
    def dimensions(self) -> int:
        """How many numbers a vector has."""
        return self._dimensions

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """One vector for each text, in order."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> Vector:
        """The vector of a text; a text without words has one too."""
        self.texts.append(text)
        vector = [0.0] * self._dimensions
        for word in set(re.findall(r"\w+", text.lower())) or {""}:
            digest = hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=32).digest()
            for start in range(
                0, 32, 4
            ):  # eight signed places for a word, so that two words never cancel out
                place = int.from_bytes(digest[start : start + 3]) % self._dimensions
                vector[place] += 1.0 if digest[start + 3] & 1 else -1.0
        norm = math.sqrt(sum(x * x for x in vector))
        if norm == 0.0:
            vector[0] = norm = 1.0
        return [x / norm for x in vector]
