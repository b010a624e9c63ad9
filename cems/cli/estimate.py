"""What a backfill will take, before it begins. A sample of the transcripts is read the way the observer reads them, which
gives the share of text that is kept and the speed of this machine; the rest is arithmetic, and said to be an estimate."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import math
import time
import uuid
from pathlib import Path
from typing import Any

from cems.cli.unread import Disk
from cems.models import Usage
from cems.providers import prices
from cems.redact import Redactor
from cems.settings import Settings
from db.ingest import LINE_CAP, Cursor, Landing
from observer.land import Lines, Projects, Session
from observer.prompt import PROMPT_LIMIT, SYSTEM
from observer.tail import TranscriptFile

SAMPLE_BYTES = 4 * 1024 * 1024
SAMPLE_SECONDS = 1.5
CHARACTERS_PER_TOKEN = 4
OUTPUT_TOKENS = 700
"""Of one answer, thoughts included."""
PROMPT_SHARE = 0.6
"""Of the kept text, what one request shows: tool results are shortened again, turns that do not matter are left out."""
CALL_SECONDS = 6.0
"""One request, until there are calls in the ledger to go by."""
DATABASE_SHARE = 1.6
"""Reading and storing take this much more than reading alone."""
BATCH_SECONDS = 0.015
"""Claiming, observing by rules and storing one batch."""
VECTOR_SECONDS = 0.035
MEMORIES_PER_BATCH = 0.5


@dataclasses.dataclass(frozen=True)
class Sample:
    """What reading a sample gave."""

    bytes: int
    seconds: float
    kept: int
    """Bytes of text and tool calls that would be landed."""
    counted: int
    """Bytes of transcript that count towards batches."""


def sample(settings: Settings, disk: Disk, machine: uuid.UUID) -> Sample:
    """Read some of the unread bytes, largest files first, writing nothing."""
    redactor = Redactor(bytes(32))
    began, total, kept, counted = time.monotonic(), 0, 0, 0
    for one in sorted(disk.unread, key=lambda one: -one.bytes):
        if total >= SAMPLE_BYTES or time.monotonic() - began > SAMPLE_SECONDS:
            break
        session = Session(one.found.session or Path(one.found.path).stem, one.found.agent, "", machine)
        lines = Lines(session, redactor, Projects(machine))
        cursor = Cursor(uuid.UUID(int=0), machine, one.found.path, session.id)
        try:
            with TranscriptFile(Path(one.found.path)) as file:
                chunk, _ = file.read_lines(one.offset)
        except OSError:
            continue
        landing = Landing(cursor, cursor)
        lines.take(chunk.data, one.offset, landing, dt.datetime.now(dt.UTC))
        total += len(chunk.data)
        kept += len(landing.rows)
        counted += sum(min(row["bytes"], LINE_CAP) for row in json.loads(landing.rows))
    return Sample(total, time.monotonic() - began, kept, counted)


def estimate(settings: Settings, disk: Disk, read: Sample, call_milliseconds: float | None) -> dict[str, Any]:
    """The estimate: sessions, bytes, batches, by, tokens_in, tokens_out, cost_usd (None: unknown), seconds."""
    sizes: dict[str, int] = {}
    for one in disk.unread:
        name = f"{one.found.session}/{one.found.agent}" if one.found.agent else one.found.session
        sizes[name] = sizes.get(name, 0) + one.bytes
    kept = read.kept / read.bytes if read.bytes else 0.2
    counted = read.counted / read.bytes if read.bytes else 0.5
    batches = sum(max(1, math.ceil(size * counted / settings.observer_batch_size)) for size in sizes.values())
    rate = read.bytes / read.seconds if read.bytes and read.seconds else 20e6
    seconds = disk.unread_bytes / rate * DATABASE_SHARE + batches * BATCH_SECONDS
    found: dict[str, Any] = {
        "sessions": len(sizes),
        "transcripts": len(disk.unread),
        "bytes": disk.unread_bytes,
        "batches": batches,
        "by": "rules",
        "tokens_in": 0,
        "tokens_out": 0,
        "cost_usd": 0.0,
    }
    if settings.gemini_api_key:
        shown = min(disk.unread_bytes * kept * PROMPT_SHARE, batches * PROMPT_LIMIT)
        tokens = round(shown / CHARACTERS_PER_TOKEN + batches * len(SYSTEM) / CHARACTERS_PER_TOKEN)
        usage = Usage(input_tokens=tokens, output_tokens=batches * OUTPUT_TOKENS)
        found |= {
            "by": settings.llm_model,
            "tokens_in": tokens,
            "tokens_out": usage.output_tokens,
            "cost_usd": prices.cost_usd(settings.llm_model, usage),
        }
        seconds += batches * (call_milliseconds / 1000 if call_milliseconds else CALL_SECONDS)
        days = max(
            batches / max(settings.llm_daily_calls, 1),
            (tokens + usage.output_tokens) / max(settings.llm_daily_tokens, 1),
        )
        if days > 1:
            found["days_by_caps"] = math.ceil(days)
    if settings.embedder == "local":
        seconds += batches * MEMORIES_PER_BATCH * VECTOR_SECONDS
    return found | {"seconds": round(seconds, 1)}
