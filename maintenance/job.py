"""What the four jobs share: what a job is given, what it reports, and how it writes and asks. A job is a function
`run_once(job: Job) -> None` in a file of its own; it reads rows, decides, and applies one small change after another, so
that a run that is killed or stopped has done part of the work and the next one does the rest. With `dry_run` it decides the
same and writes nothing; without a model it does what rules can do safely and counts what it left as waiting."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from cems.clock import Clock
from cems.errors import LlmPaused, ProviderError
from cems.models import Usage
from cems.providers import Embedder, GenerateReply, GenerateRequest, TextGenerator, prices
from cems.providers.usage import usage_of
from cems.settings import Settings
from db import changes, ledger, runs
from db.changes import Change
from db.connect import Database
from db.ledger import Caps
from db.runs import Run

T = TypeVar("T")


@dataclasses.dataclass
class Report:
    """What a run counted. The first six are what `--json` promises."""

    seen: int = 0
    """Memories, pairs or groups it looked at."""
    changed: int = 0
    """Changes written, or that would be."""
    kept_apart: int = 0
    """Pairs that looked alike and were kept apart, or groups that were left as they are, on purpose."""
    failed: int = 0
    """Steps that gave no usable result."""
    llm_calls: int = 0
    cost: float = 0.0
    """USD, as far as prices are known."""
    waiting: int = 0
    """Work that is left for the next run, because of time, caps, a missing model, or rows that were busy."""
    without_model: int = 0
    """How much of that waits because there is no model: no sign of a fault."""
    notes: list[str] = dataclasses.field(default_factory=list)
    """What a person should know: what was left and why. No memory's text."""

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON types."""
        return dataclasses.asdict(self)

    def note(self, text: str) -> None:
        """Say something once."""
        if text not in self.notes:
            self.notes.append(text)


@dataclasses.dataclass(frozen=True)
class Planned:
    """A change that a dry run would have made, for people."""

    what: str
    why: str
    memories: tuple[uuid.UUID, ...]
    into: uuid.UUID | None
    title: str
    """Of the memory that would stand afterwards."""


@dataclasses.dataclass
class Job:
    """One run of one job."""

    db: Database
    settings: Settings
    clock: Clock
    run: Run | None
    """None: a dry run, which holds no lease and leaves no trace."""
    generator: TextGenerator | None = None
    """None: by rule."""
    embedder: Embedder | None = None
    project: uuid.UUID | None = None
    """Only this project; None: all of them."""
    stopping: Callable[[], bool] = lambda: False
    """Whether to end soon: asked to, or out of time."""
    progress: Callable[[str, int, int | None], None] = lambda what, done, total: None
    """Told what is being done, how much of it is done, and of how much if that is known."""
    report: Report = dataclasses.field(default_factory=Report)
    planned: list[Planned] = dataclasses.field(default_factory=list)

    @property
    def dry_run(self) -> bool:
        """Whether nothing is written."""
        return self.run is None

    def apply(self, change: Change, title: str) -> bool:
        """Write a change and count it; False where rows changed meanwhile: it is counted as waiting."""
        memories = tuple(dict.fromkeys([*change.seen, *change.updates]))
        if self.run is None:
            self.planned.append(Planned(change.what, change.why, memories, change.into, title))
        elif not changes.apply(self.db, self.run, change, self.clock.now()):
            self.report.waiting += 1
            return False
        self.report.changed += 1
        return True

    def leave(self, count: int) -> None:
        """Count work that only a model can do as waiting."""
        self.report.waiting += count
        if self.generator is None:
            self.report.without_model += count

    def mark(self, looked_at: Mapping[uuid.UUID, dt.datetime]) -> None:
        """Note that this job has looked at memories as they were at `changed_at`."""
        if self.run is not None:
            changes.mark(self.db, self.run.job, looked_at)

    def renew(self) -> None:
        """Hold the job's lease for longer; before anything that takes its time."""
        if self.run is not None:
            runs.renew(self.db, self.run, self.clock.now())

    def ask(self, request: GenerateRequest) -> GenerateReply | None:
        """A model's answer, within the day's caps and written into the ledger; None where there is no model, it is paused or
        capped, or the answer failed: what depended on it waits, and the report says why. A dry run asks nothing."""
        if self.generator is None or self.run is None:
            return None
        model, generate = self.generator.model, self.generator.generate
        try:
            return self.call(request.purpose, model, lambda: generate(request), lambda reply: reply.usage)
        except LlmPaused as paused:
            self.report.note(str(paused))
        except ProviderError as error:
            self.report.failed += 1
            self.report.note(f"{request.purpose}: {error}")
        return None

    def call(self, purpose: str, model: str, work: Callable[[], T], used: Callable[[T], Usage]) -> T:
        """What a call to a provider gives, within the day's caps and written into the ledger, whether or not it succeeds.

        Args:
            model: as prices know it.
            used: what a call that succeeded has used.

        Raises:
            LlmPaused: nothing was called; ProviderError: as `work`.
        """
        caps = Caps(self.settings.llm_daily_calls, self.settings.llm_daily_tokens)
        ledger.check(self.db, purpose, caps, self.clock.now())
        self.renew()
        started, ticks = self.clock.now(), self.clock.monotonic()

        def record(usage: Usage, error: ProviderError | None) -> None:
            cost = prices.cost_usd(model.split("@")[0], usage)
            seconds = self.clock.monotonic() - ticks
            ledger.record(
                self.db,
                purpose=purpose,
                model=model,
                started_at=started,
                seconds=seconds,
                usage=usage,
                cost_usd=cost,
                error=error,
            )
            self.report.llm_calls += 1
            self.report.cost += cost or 0.0

        try:
            found = work()
        except ProviderError as error:
            record(usage_of(error), error)
            raise
        record(used(found), None)
        return found
