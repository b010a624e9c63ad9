"""Embed: vectors for memories that have none of the current model. Until a memory has one it is found by keywords, so
nothing waits for this, and an embedder that fails delays nothing else."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable

import structlog

from cems.clock import Clock
from cems.errors import BadAnswer, ProviderError
from cems.models import Usage
from cems.providers import Embedder, prices
from cems.providers.usage import estimate_tokens, usage_of
from db import embeddings, ledger
from db.connect import Database, Row
from db.ledger import Caps

log = structlog.get_logger()
PURPOSE = "embedding"
REOPEN_AFTER = 3600.0
"""Seconds after which an embedder that could not be had is tried again."""
MOST_UNFIT = 100
"""Memories that an embedder may refuse before it is no longer asked."""
CHUNK = 32
"""Memories embedded and stored in one go."""


class Embedding:
    """Embeds with one embedder, opened when it is first needed: its model file may have to be fetched, and nothing else
    waits for that. Where it cannot be had, opening is tried again after REOPEN_AFTER."""

    def __init__(
        self, db: Database, opening: Callable[[], Embedder | None], clock: Clock, caps: Caps
    ) -> None:
        self.embedded = 0
        self._db = db
        self._open = opening
        self._opened: Embedder | None = None
        self._try_again = float("-inf")
        self._chunk = CHUNK
        self._unfit: list[uuid.UUID] = []
        self._clock = clock
        self._caps = caps

    def run_one(self) -> bool:
        """Embed one chunk; False where every memory has its vector, or the provider failed and waits.

        Raises:
            LlmPaused: an embedder behind a network is paused or capped.
        """
        embedder = self.ready()
        if embedder is None:
            return False
        if embedder.needs_network:
            ledger.check(self._db, PURPOSE, self._caps, self._clock.now())
        rows = embeddings.missing(self._db, embedder.model_id, self._chunk, self._unfit)
        if not rows:
            return False
        texts = [embeddings.embedded_text(row) for row in rows]
        started, clock = self._clock.now(), self._clock.monotonic()
        try:
            vectors = embedder.embed_documents(texts)
        except ProviderError as error:
            log.warning("embedding failed; keywords serve meanwhile", reason=str(error))
            self._record(embedder, started, clock, usage_of(error), error)
            return isinstance(error, BadAnswer) and self._narrowed(rows)
        self._chunk = min(CHUNK, self._chunk * 2)
        if embedder.needs_network:
            self._record(embedder, started, clock, Usage(input_tokens=sum(map(estimate_tokens, texts))), None)
        pairs = [(row["id"], vector) for row, vector in zip(rows, vectors, strict=True)]
        self.embedded += embeddings.add(self._db, embedder.model_id, pairs, self._clock.now(), made_from=rows)
        return True

    def _narrowed(self, rows: list[Row]) -> bool:
        """One text must not keep the others from their vectors: ask for fewer at a time, and leave out the one that is left
        until the next start. False where too many are left out: then it is not the texts."""
        if len(rows) > 1:
            self._chunk = 1
        else:
            self._unfit.append(rows[0]["id"])
        return len(self._unfit) <= MOST_UNFIT

    def ready(self) -> Embedder | None:
        """The embedder, opened when it is time to."""
        if self._opened is None and self._clock.monotonic() >= self._try_again:
            self._opened = self._open()
            self._try_again = self._clock.monotonic() + REOPEN_AFTER
        return self._opened

    def _record(
        self,
        embedder: Embedder,
        started: dt.datetime,
        clock: float,
        usage: Usage,
        error: ProviderError | None,
    ) -> None:
        model = embedder.model_id
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
