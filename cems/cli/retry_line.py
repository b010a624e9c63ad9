"""Reading a line again that could not be read before: from its transcript where it still stands there unchanged, else from
what was kept of it. It lands as it would have landed then; the transcript's cursor stays where it is."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from cems import home
from cems.errors import LostRace
from cems.redact import Redactor
from cems.settings import Settings
from db import ingest, set_aside
from db.connect import Database
from db.ingest import Landing
from observer import start
from observer.land import EXCERPT_LIMIT, Lines, Projects, Session, State
from observer.records import decode
from observer.tail import LINE_LIMIT, TranscriptFile

_TRIES = 3


def retry(
    db: Database, settings: Settings, row: Mapping[str, Any], now: dt.datetime
) -> tuple[int, str | None]:
    """Read one line again.

    Args:
        row: of `db.set_aside.lines`.

    Returns:
        How many lines landed, and why it could not be read, or None.
    """
    raw, why = _bytes_of(row)
    if raw is None:
        return 0, why
    if not decode(raw):
        return 0, "there is still no whole record in it"
    for _ in range(_TRIES):
        cursor = ingest.cursor(db, row["transcript_id"])
        if cursor is None:
            return 0, "its transcript is not known any more"
        path = Path(row["transcript"])
        session = Session(row["session"] or path.stem, row["agent"], str(path.parent), row["machine_id"])
        redactor = Redactor(home.redaction_key(settings.home))
        projects = Projects(row["machine_id"], start.excluder(settings))
        lines = Lines(session, redactor, projects, msgspec.convert(cursor.state, State))
        landing = Landing(cursor, cursor)
        lines.take(raw + b"\n", row["offset"], landing, now)
        try:
            landed = ingest.land(db, landing, now)
        except LostRace:  # an observer moved the cursor; its position is only needed to be the same
            continue
        set_aside.resolve_line(db, row["id"], now)
        return landed, None
    return 0, "the observer is reading this transcript right now; try again"


def _bytes_of(row: Mapping[str, Any]) -> tuple[bytes | None, str]:
    """The line without its newline, or None and why there is none."""
    length = row["bytes"] - 1
    if row["reason"] == "too_long" or length > LINE_LIMIT:
        return None, f"it is longer than {LINE_LIMIT // 2**20} MiB, the limit for a line"
    try:
        with TranscriptFile(Path(row["transcript"])) as file:
            raw = file.last_bytes(row["offset"] + length, length)
        if hashlib.blake2b(raw, digest_size=16).digest() == bytes(row["digest"]):
            return raw, ""
        gone = "the transcript was rewritten since"
    except OSError as error:
        gone = f"the transcript cannot be read ({error.strerror or error})"
    # What was kept is redacted and cut at the limit; shorter than that, it is all there was.
    if length <= EXCERPT_LIMIT and len(row["excerpt"]) < EXCERPT_LIMIT:
        return row["excerpt"].encode("utf-8", "replace"), ""
    return None, f"{gone}, and only the beginning of the line was kept"
