"""The embedder, kept warm for questions. It never downloads anything: while the model's file is not on this machine, questions
are answered by keywords, and the file is used as soon as it appears. An embedder behind a network is not used here: a prompt
must not wait for one, and its calls belong to the writer's ledger."""

from __future__ import annotations

import gc
import threading
from typing import Literal

from cems.errors import CemsError
from cems.providers.local import LocalEmbedder
from cems.providers.model_file import MODEL_NAME, PINNED
from cems.settings import Settings
from db.search import Meaning
from recall.bounded import Bounded, Pending

LOOK_AGAIN = 5.0
"""Seconds between two looks for the model's file."""
SECONDS = 0.2
"""For one question's vector; one that takes longer is searched for by keywords."""
CHARACTERS = 1200
"""Of a question that are embedded; the model reads about that many."""

State = Literal["off", "network", "absent", "loading", "ready", "broken"]


class WarmEmbedder:
    """Loads in the background; `begin` gives None until it is there."""

    def __init__(self, settings: Settings) -> None:
        self._folder = settings.model_dir.absolute() / MODEL_NAME
        self._model: LocalEmbedder | None = None
        self._bounded = Bounded("embed", 2)
        self._ended = threading.Event()
        self._refused: object = None
        choice: dict[str, State] = {"none": "off", "local": "absent"}
        self.state: State = choice.get(settings.embedder, "network")

    def start(self) -> None:
        """Begin to load, and to look for the file where it is missing."""
        if self.state == "absent":
            threading.Thread(target=self._load, name="cems-embedder", daemon=True).start()

    def stop(self) -> None:
        """Stop looking."""
        self._ended.set()

    def begin(self, text: str) -> Pending[Meaning] | None:
        """Begin to compute the vector of a question; None: keywords serve.

        Raises:
            Late: the model is busy with others.
        """
        model = self._model
        if model is None:
            return None
        return self._bounded.begin(lambda: Meaning(model.embed_query(text[:CHARACTERS]), model.model_id))

    def _load(self) -> None:
        while not self._ended.is_set():
            stamp = self._stamp()
            if stamp is not None and stamp != self._refused:
                try:
                    self.state = "loading"
                    model = LocalEmbedder(self._folder, threads=1)
                    model.embed_query("warm")  # the first run allocates
                    # All that was loaded stays: to look through it for garbage again and again would hold up an answer.
                    gc.collect()
                    gc.freeze()
                    self._model, self.state = model, "ready"
                    return
                except CemsError:
                    self.state, self._refused = "broken", stamp  # not read again until it is another file
            self._ended.wait(LOOK_AGAIN)

    def _stamp(self) -> object:
        """What tells one set of files from another; None while one is missing."""
        try:
            seen = [(self._folder / file.name).stat() for file in PINNED]
        except OSError:
            return None
        return tuple((s.st_ino, s.st_size, s.st_mtime_ns) for s in seen)
