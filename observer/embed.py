"""Embed: vectors for memories that have none of the current model. Until a memory has one it is found by keywords, so
nothing waits for this, and an embedder that fails delays nothing else."""

from __future__ import annotations

import datetime as dt

import structlog

from cems.clock import Clock
from cems.errors import ProviderError
from cems.models import Usage
from cems.providers import Embedder, prices
from cems.providers.usage import estimate_tokens, usage_of
from db import embeddings, ledger
from db.connect import Database
from db.ledger import Caps

log = structlog.get_logger()
PURPOSE = "embedding"
CHUNK = 32
"""Memories embedded and stored in one go."""


class Embedding:
    """Embeds with one embedder."""

    def __init__(self, db: Database, embedder: Embedder, clock: Clock, caps: Caps) -> None:
        self.embedded = 0
        self._db = db
        self._embedder = embedder
        self._clock = clock
        self._caps = caps

    def run_one(self) -> bool:
        """Embed one chunk; False where every memory has its vector, or the provider failed and waits.

        Raises:
            LlmPaused: an embedder behind a network is paused or capped.
        """
        if self._embedder.needs_network:
            ledger.check(self._db, PURPOSE, self._caps, self._clock.now())
        rows = embeddings.missing(self._db, self._embedder.model_id, CHUNK)
        if not rows:
            return False
        texts = [embeddings.embedded_text(row) for row in rows]
        started, clock = self._clock.now(), self._clock.monotonic()
        try:
            vectors = self._embedder.embed_documents(texts)
        except ProviderError as error:
            log.warning("embedding failed; keywords serve meanwhile", reason=str(error))
            self._record(started, clock, usage_of(error), error)
            return False
        if self._embedder.needs_network:
            self._record(started, clock, Usage(input_tokens=sum(map(estimate_tokens, texts))), None)
        pairs = [(row["id"], vector) for row, vector in zip(rows, vectors, strict=True)]
        self.embedded += embeddings.add(self._db, self._embedder.model_id, pairs, self._clock.now())
        return True

    def _record(self, started: dt.datetime, clock: float, usage: Usage, error: ProviderError | None) -> None:
        model = self._embedder.model_id
        ledger.record(
            self._db,
            purpose=PURPOSE,
            model=model,
            started_at=started,
            seconds=self._clock.monotonic() - clock,
            usage=usage,
            cost_usd=prices.cost_usd(model.split("@")[0], usage),
            error=error,
        )
