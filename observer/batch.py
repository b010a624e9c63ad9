"""When the waiting lines of a session become a batch, and where it is cut. A batch ends where a turn ends, so an answer is
never observed without its question; a turn too large for that is cut between its steps, and the next batch is shown the
question again."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence
from typing import NamedTuple

from cems.errors import LostRace
from db import ingest
from db.connect import Database, Row

TURN_FACTOR = 4
"""A turn is cut when it alone is this many times the batch size."""
_REASONS = {"compaction": "compaction", "clear": "clear", "end": "end"}


class Cut(NamedTuple):
    """Lines that make a batch, why it closed, and the question to show with it."""

    lines: Sequence[Row]
    closed_by: str
    question: uuid.UUID | None


def close_due(
    db: Database, now: dt.datetime, *, batch_size: int, idle: dt.timedelta, once: bool = False
) -> int:
    """Close every batch that is due; returns how many.

    Args:
        batch_size: bytes of transcript.
        idle: time without a new line after which a session's lines are not waited for any longer.
        once: close whatever there is.
    """
    closed = 0
    for session in ingest.waiting_sessions(db, now, idle):
        flush = "end" if session["ended"] else "idle" if session["idle"] else "once" if once else None
        if not (flush or session["boundary"] or session["bytes"] >= batch_size):
            continue
        lines, question = ingest.waiting_lines(db, session["session_id"])
        try:
            for part in cut(lines, question, batch_size, flush):
                ingest.close_batch(db, session["session_id"], part.lines, part.question, part.closed_by, now)
                closed += 1
        except LostRace:
            continue  # another observer closed it; what is left waits for the next look
    return closed


def cut(lines: Sequence[Row], question: uuid.UUID | None, batch_size: int, flush: str | None) -> list[Cut]:
    """Cut a session's waiting lines into batches, in order; without `flush` the open turn at the end is held back.

    Args:
        lines: rows with uuid, kind, bytes and boundary.
        question: the last prompt before these lines, if any.
        flush: why the rest is closed too, or None.
    """
    cuts: list[Cut] = []
    current: list[Row] = []
    size = 0
    shown = question
    asked = question

    def close(reason: str) -> None:
        nonlocal current, size, shown
        if current:
            cuts.append(Cut(current, reason, None if current[0]["kind"] == "prompt" else shown))
        current, size, shown = [], 0, asked

    for line in lines:
        turn_ends = bool(current) and line["kind"] == "prompt" and size >= batch_size
        step_ends = line["kind"] in ("call", "answer") and size >= batch_size * TURN_FACTOR
        if turn_ends or step_ends:
            close("size")
        current.append(line)
        size += line["bytes"]
        if line["kind"] == "prompt":
            asked = line["uuid"]
            if len(current) == 1:
                shown = None
        elif line["kind"] == "boundary":
            if line["boundary"] != "compaction":
                asked = None  # what follows a clear answers nothing that was asked before it
            close(_REASONS.get(line["boundary"], "end"))
    if flush:
        close(flush)
    return cuts
