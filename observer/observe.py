"""Observe: take the oldest due batch under a lease, extract from its turns with no transaction open, and store what came
out. A batch leaves the queue only by a valid answer; what gets none is tried again, split, and at last set aside."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections.abc import Callable, Sequence

import structlog

from cems.clock import Clock
from cems.errors import BadAnswer, LostRace, ProviderError, TruncatedAnswer
from cems.failpoint import failpoint
from cems.providers import prices
from cems.providers.usage import usage_of
from db import ingest, ledger
from db.connect import REFUSALS, Database
from db.ingest import Claimed
from db.ledger import Caps
from observer.extract import Context, Extracted, Extractor
from observer.llm import OUTPUT_TOKENS, PURPOSE, LlmExtractor
from observer.turns import Turn, turns_of

log = structlog.get_logger()
DEATHS = 30
"""Attempts without an outcome, beyond those allowed, after which a batch is set aside."""
RETRY_DELAYS = (0.0, 2.0, 10.0, 30.0)
"""Seconds before a batch with an unusable answer is tried again; the last one repeats."""


@dataclasses.dataclass
class Report:
    """What observing brought."""

    batches: int = 0
    """Batches observed."""
    observations: dict[str, int] = dataclasses.field(default_factory=dict)
    """New memories by kind."""
    seen_again: int = 0
    refused: dict[str, int] = dataclasses.field(default_factory=dict)
    split: int = 0
    set_aside: int = 0
    failed_calls: int = 0


class Observing:
    """Observes batches with one extractor. Not for several threads at once."""

    def __init__(
        self,
        db: Database,
        extractor: Extractor,
        concepts: Sequence[str],
        clock: Clock,
        *,
        attempts: int = 5,
        caps: Caps,
        machine: uuid.UUID | None = None,
        lease_time: dt.timedelta = dt.timedelta(minutes=5),
        retry_delays: Sequence[float] = RETRY_DELAYS,
        redact: Callable[[str], str] = str,
    ) -> None:
        self.report = Report()
        self._db = db
        self._extractor = extractor
        self._context = Context(tuple(concepts), redact)
        self._clock = clock
        self._attempts = attempts
        self._caps = caps
        self._machine = machine
        self._lease_time = lease_time
        self._delays = retry_delays

    def run_one(self) -> bool:
        """Observe one batch; False where none is due.

        Raises:
            LlmPaused: calls are paused or capped; batches wait.
        """
        if isinstance(self._extractor, LlmExtractor):
            ledger.check(self._db, PURPOSE, self._caps, self._clock.now())
        claimed = ingest.claim(self._db, self._clock.now(), self._lease_time, self._machine)
        if claimed is None:
            return False
        try:
            if claimed.attempts > self._attempts + DEATHS:
                # Each attempt ended with the process: something in this batch kills whoever observes it.
                ingest.set_batch_aside(self._db, claimed, "the observer died with this batch again and again")
                self.report.set_aside += 1
            else:
                self._observe(claimed)
        except LostRace:
            log.warning("batch finished by another observer", batch=str(claimed.id))
        return True

    def _observe(self, claimed: Claimed) -> None:
        turns = [t for t in turns_of(claimed.lines, claimed.question) if t.matters()]
        if not turns:
            self._finish(claimed, Extracted(()), "rules")
            return
        extracted, error, waits = self._extract(claimed, turns)
        if extracted is not None:
            try:
                self._finish(claimed, extracted, self._extractor.author)
            except REFUSALS as refusal:
                reason = f"the database refuses what was observed: {type(refusal).__name__}"
                self._unusable(claimed, turns, BadAnswer(reason))
            return
        self.report.failed_calls += 1
        if isinstance(error, BadAnswer):
            self._unusable(claimed, turns, error)
        else:
            # The provider's fault, not the batch's: the attempt does not count.
            log.warning("provider failed; batches wait", reason=str(error), until=str(waits))
            ingest.release(self._db, claimed, str(error), self._clock.now(), burnt=False)

    def _extract(
        self, claimed: Claimed, turns: Sequence[Turn]
    ) -> tuple[Extracted | None, ProviderError | None, dt.datetime | None]:
        """What was extracted, or the error and until when calls wait because of it; every call goes into the ledger."""
        extractor = self._extractor
        if not isinstance(extractor, LlmExtractor):
            return extractor.extract(turns, self._context), None, None
        # A truncated answer gets one larger budget before its batch is split.
        extractor.output_tokens = OUTPUT_TOKENS * (2 if claimed.attempts > 1 else 1)
        started, clock = self._clock.now(), self._clock.monotonic()
        extracted, error = None, None
        try:
            extracted = extractor.extract(turns, self._context)
        except ProviderError as caught:
            error = caught
        failpoint("after_llm")
        usage = usage_of(error) if error else extractor.usage
        waits = ledger.record(
            self._db,
            purpose=PURPOSE,
            model=extractor.author,
            started_at=started,
            seconds=self._clock.monotonic() - clock,
            usage=usage,
            cost_usd=prices.cost_usd(extractor.author, usage) if usage else None,
            error=error,
            batch=claimed.id,
        )
        return extracted, error, waits

    def _unusable(self, claimed: Claimed, turns: Sequence[Turn], error: BadAnswer) -> None:
        """Try again, with growing delays; then split; a single turn that still gets no answer is set aside."""
        own = [line for line in claimed.lines if line.uuid != claimed.question]
        enough = 2 if isinstance(error, TruncatedAnswer) else self._attempts
        now = self._clock.now()
        if claimed.attempts < enough:
            delay = self._delays[min(claimed.attempts - 1, len(self._delays) - 1)]
            ingest.release(self._db, claimed, str(error), now + dt.timedelta(seconds=delay), burnt=True)
        elif (at := _middle(claimed, turns)) is not None:
            ingest.split(self._db, claimed, at, str(error), now)
            self.report.split += 1
        elif claimed.attempts < self._attempts:
            ingest.release(self._db, claimed, str(error), now, burnt=True)
        else:
            ingest.set_batch_aside(self._db, claimed, f"{error.outcome}: {error}")
            self.report.set_aside += 1
            log.warning("batch set aside", batch=str(claimed.id), outcome=error.outcome, lines=len(own))

    def _finish(self, claimed: Claimed, extracted: Extracted, author: str) -> None:
        stored = ingest.finish(self._db, claimed, extracted.observations, author, self._clock.now())
        report = self.report
        report.batches += 1
        report.seen_again += stored.seen_again
        for kind, count in stored.new.items():
            report.observations[kind] = report.observations.get(kind, 0) + count
        for reason in extracted.refused:
            report.refused[reason] = report.refused.get(reason, 0) + 1


def _middle(claimed: Claimed, turns: Sequence[Turn]) -> int | None:
    """Where to split a batch: the index, among its own lines, at which the later half of its turns begins; inside a single
    long turn, the step nearest its middle. None where there is nothing left to split."""
    own = [line for line in claimed.lines if line.uuid != claimed.question]
    index = {line.uuid: i for i, line in enumerate(own)}
    if len(turns) > 1:
        first = next((line for line in turns[len(turns) // 2].lines if line.uuid in index), None)
        at = index[first.uuid] if first else 0
        return at or None
    steps = [
        i
        for i, line in enumerate(own)
        if i and line.kind in ("call", "answer") and own[i - 1].kind == "result"
    ]
    return min(steps, key=lambda i: abs(i - len(own) // 2)) if len(steps) > 2 else None
