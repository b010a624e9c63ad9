"""A question's vector, for searching by meaning: from the local embedder, which is loaded at the first question and not before,
since most sessions ask none and it takes 120 MB. Whatever is wrong with it, questions are answered by words. An embedder
behind a network is not asked: its calls belong to the writer's ledger, and this side only reads."""

from __future__ import annotations

import threading

from cems.errors import CemsError
from cems.providers import Vector
from cems.providers.local import LocalEmbedder
from cems.providers.model_file import MODEL_NAME, PINNED
from cems.settings import Settings
from recall.bounded import Bounded, Late

SECONDS = 4.0
"""For one vector, loading included; after that the question is searched for by words alone."""
CHARACTERS = 1200
"""Of a question that are embedded; the model reads about that many."""


class Meanings:
    """The session's embedder. Safe to share between threads."""

    def __init__(self, settings: Settings) -> None:
        self._choice = settings.embedder
        self._folder = settings.model_dir.absolute() / MODEL_NAME
        self._bounded = Bounded("embed", 2)
        self._lock = threading.Lock()
        self._model: LocalEmbedder | None = None

    def without(self) -> str:
        """Why questions are answered by words alone, as far as it can be told beforehand; empty: they are not."""
        if self._choice == "none":
            return "the embedder is switched off"
        if self._choice != "local":
            return "the embedder is behind a network"
        if not all((self._folder / file.name).exists() for file in PINNED):
            return "the embedder's model file is not here yet"
        return ""

    def of(self, text: str) -> tuple[Vector, str] | str:
        """The vector of a text and its model, or why there is none; nothing needs saying where that is the user's choice."""
        if why := self.without():
            return why if self._choice != "none" else ""
        try:
            return self._bounded.run(lambda: self._compute(text[:CHARACTERS]), SECONDS)
        except Late:
            return "the embedder took too long"
        except CemsError:
            return "the embedder does not work here"

    def _compute(self, text: str) -> tuple[Vector, str]:
        with self._lock:
            if self._model is None:
                self._model = LocalEmbedder(self._folder, threads=1)
            model = self._model
        return model.embed_query(text), model.model_id
