"""Putting an observer together from the settings: what `cems observe`, `cems up` and `cems backfill` run."""

from __future__ import annotations

import datetime as dt
import fnmatch
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from cems import home
from cems.clock import Clock, SystemClock
from cems.errors import EmbedderUnavailable, ProviderError
from cems.notify import Service
from cems.providers import Embedder, choose
from cems.redact import Redactor
from cems.settings import Settings
from db.connect import Database
from db.ledger import Caps
from observer.capture import Capture
from observer.embed import Embedding
from observer.extract import Context, Extracted, Extractor
from observer.llm import LlmExtractor
from observer.observe import Observing
from observer.process import Process
from observer.scan import roots
from observer.turns import Turn
from observer.watch import Watcher

log = structlog.get_logger()


def capture(db: Database, settings: Settings, clock: Clock, *, written_since: float = 0.0) -> Capture:
    """The landing side alone. Transcripts last written before `written_since` (Unix time) are left out."""
    redactor = Redactor(home.redaction_key(settings.home))
    return Capture(
        db,
        home.machine_id(settings.home),
        roots(settings.claude_dirs()),
        redactor,
        clock,
        excluded=excluder(settings) if settings.observer_exclude_projects else None,
        written_since=written_since,
    )


def process(
    db: Database,
    settings: Settings,
    *,
    clock: Clock | None = None,
    watch: bool = True,
    fetching: Callable[[int, int | None], None] | None = None,
    written_since: float = 0.0,
    service: Service | None = None,
) -> tuple[Process, Capture, Observing, Embedding | None]:
    """A whole observer.

    Args:
        watch: use file events, where the settings allow it.
        fetching: told the progress of fetching the embedder's model file.
        written_since: transcripts last written before this Unix time are left out.
        service: told that the process lives.
    """
    clock = clock or SystemClock()
    caps = Caps(settings.llm_daily_calls, settings.llm_daily_tokens)
    capturing = capture(db, settings, clock, written_since=written_since)
    observing = Observing(
        db,
        extractor(settings),
        settings.extraction_concepts,
        clock,
        attempts=settings.extraction_attempts,
        caps=caps,
        machine=home.machine_id(settings.home),
        redact=Redactor(home.redaction_key(settings.home)).redact,
        lease_time=dt.timedelta(seconds=max(300.0, 2 * settings.llm_timeout + 60)),
    )
    embedding = None
    if settings.embedder != "none":
        embedding = Embedding(db, lambda: embedder(settings, fetching), clock, caps)
    watcher = Watcher(roots(settings.claude_dirs())) if watch and settings.observer_watch else None
    return (
        Process(db, settings, capturing, observing, embedding, watcher, clock, service),
        capturing,
        observing,
        embedding,
    )


def extractor(settings: Settings) -> Extractor:
    """A model where there is a key, rules otherwise."""
    generator = choose.generator(settings)
    return LlmExtractor(generator, timeout=settings.llm_timeout) if generator else Rules()


class Rules:
    """Extraction by rules, whose patterns take a tenth of a second to compile: not before the first batch needs them, so
    that landing begins at once."""

    author = "rules"

    def extract(self, turns: Sequence[Turn], context: Context) -> Extracted:
        """See `observer.rules.RuleExtractor`."""
        from observer.rules import RuleExtractor

        return RuleExtractor().extract(turns, context)


def embedder(
    settings: Settings, fetching: Callable[[int, int | None], None] | None = None
) -> Embedder | None:
    """The embedder the settings ask for, or None with one clear line in the log: keywords serve."""
    try:
        return choose.embedder(settings, fetching)
    except (EmbedderUnavailable, ProviderError) as error:
        log.warning("no embedder; search uses keywords only", reason=str(error))
        return None


def excluder(settings: Settings) -> Callable[[str], bool]:
    """Whether a session's folder is one of those never read."""
    patterns = [str(Path(p).expanduser()) for p in settings.observer_exclude_projects]

    def excluded(cwd: str) -> bool:
        parts = cwd.rstrip("/")
        while parts:
            if any(fnmatch.fnmatchcase(parts, p) for p in patterns):
                return True
            parts = parts.rpartition("/")[0]
        return False

    return excluded
