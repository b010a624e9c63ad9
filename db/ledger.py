"""The ledger of provider calls, and what follows from it: how much of today's cap is used, and until when a purpose waits
after failures. All of it is read from rows, so a restart forgets nothing and `status` can say why."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections.abc import Sequence
from typing import Any

from cems.errors import (
    LlmPaused,
    ProviderError,
    ProviderMisconfigured,
    ProviderUnavailable,
    QuotaExhausted,
    RateLimited,
)
from cems.ids import uuid7
from cems.models import Usage
from db.connect import Database, Row
from db.queries import SQL

LONG_PAUSES = (dt.timedelta(hours=1), dt.timedelta(hours=6), dt.timedelta(hours=24))
"""After failures that last."""
SHORT_PAUSES = (dt.timedelta(seconds=30), dt.timedelta(minutes=2), dt.timedelta(minutes=10))
"""After the first failures that may pass: an overloaded or unreachable server. Then the long ones."""
LONGEST_ASKED = dt.timedelta(minutes=15)
"""However long a provider asks to wait, it is asked again after this."""
_BAD = ("malformed", "blocked", "empty", "truncated")
MOST_TOKENS = 2**31 - 1
"""Of one call and kind; whatever a provider says."""
_STREAK = 5
_STREAK_BATCHES = 3


@dataclasses.dataclass(frozen=True)
class Caps:
    """Limits of a day (UTC) for one purpose."""

    calls: int
    tokens: int


def record(
    db: Database,
    *,
    purpose: str,
    model: str,
    started_at: dt.datetime,
    seconds: float,
    usage: Usage | None,
    cost_usd: float | None,
    error: ProviderError | None,
    batch: uuid.UUID | None = None,
) -> dt.datetime | None:
    """Write a call down; returns until when its purpose waits, or None."""
    with db.transaction() as conn:
        latest = conn.execute(
            SQL["ledger.latest"], {"owner": db.owner_id, "purpose": purpose, "now": started_at}
        ).fetchall()
        outcome, resume_at = _judge(error, latest, started_at + dt.timedelta(seconds=seconds), batch)
        conn.execute(
            SQL["ledger.record"],
            {
                "owner": db.owner_id,
                "id": uuid7(),
                "purpose": purpose,
                "model": model,
                "started_at": started_at,
                "milliseconds": round(seconds * 1000),
                **_counts(usage or Usage()),
                "cost_usd": cost_usd,
                "outcome": outcome,
                "error": str(error)[:500] if error else None,
                "resume_at": resume_at,
                "batch": batch,
            },
        )
    return resume_at


def check(db: Database, purpose: str, caps: Caps, now: dt.datetime) -> None:
    """Return if a call for this purpose may be made now.

    Raises:
        LlmPaused: why, and until when.
    """
    with db.transaction() as conn:
        args = {"owner": db.owner_id, "purpose": purpose, "since": _midnight(now), "now": now}
        latest = conn.execute(SQL["ledger.latest"], args).fetchone()
        used = conn.execute(SQL["ledger.used_since"], args).fetchone()
    if latest and latest["outcome"] != "ok" and latest["resume_at"] and latest["resume_at"] > now:
        raise LlmPaused(purpose, latest["error"] or latest["outcome"], latest["resume_at"].astimezone(dt.UTC))
    assert used is not None
    for name, limit in (("calls", caps.calls), ("tokens", caps.tokens)):
        if used[name] >= limit:
            reason = (
                f"today's cap of {limit:,} {name} is used"
                if limit
                else f"the cap of {name} is 0: switched off"
            )
            raise LlmPaused(purpose, reason, _midnight(now) + dt.timedelta(days=1))


def today(db: Database, caps: Caps, now: dt.datetime) -> list[dict[str, Any]]:
    """For each purpose used today or paused: calls, failed, tokens, cost in USD, caps, and `waits_until` with `why`."""
    with db.transaction() as conn:
        rows = conn.execute(
            SQL["ledger.by_purpose"], {"owner": db.owner_id, "since": _midnight(now)}
        ).fetchall()
        recent = conn.execute(
            SQL["ledger.purposes"], {"owner": db.owner_id, "since": now - dt.timedelta(days=3)}
        ).fetchall()
    found: dict[str, dict[str, Any]] = {row["purpose"]: dict(row) for row in rows}
    for row in recent:
        found.setdefault(
            row["purpose"],
            {
                "purpose": row["purpose"],
                "calls": 0,
                "failed": 0,
                "input_tokens": 0,
                "output_tokens": 0,
                "cost_usd": 0.0,
                "unpriced": 0,
            },
        )
    for purpose, row in found.items():
        row |= {"cap_calls": caps.calls, "cap_tokens": caps.tokens, "waits_until": None, "why": None}
        try:
            check(db, purpose, caps, now)
        except LlmPaused as paused:
            row |= {"waits_until": paused.until, "why": paused.reason}
    return sorted(found.values(), key=lambda r: str(r["purpose"]))


def _judge(
    error: ProviderError | None, latest: Sequence[Row], now: dt.datetime, batch: uuid.UUID | None
) -> tuple[str, dt.datetime | None]:
    """(outcome, resume_at) of a call, given the calls before it, newest first."""
    if error is None:
        return "ok", None
    outcome = error.outcome
    if isinstance(error, RateLimited):
        return outcome, now + _asked(60.0 if error.retry_after is None else error.retry_after)
    if isinstance(error, QuotaExhausted | ProviderMisconfigured):
        return outcome, now + _after(LONG_PAUSES, _run(latest, (outcome,)))
    if isinstance(error, ProviderUnavailable):
        pause = _after(SHORT_PAUSES + LONG_PAUSES, _run(latest, ("unavailable",)))
        if error.retry_after is not None:
            pause = max(pause, _asked(error.retry_after))
        return outcome, now + pause
    # Unusable answers are the batch's own matter, unless batch after batch gets them: then it is the provider's.
    streak = _run(latest, (*_BAD, "bad_streak"))
    batches = {row["batch_id"] for row in latest[:streak]} | {batch}
    if streak + 1 >= _STREAK and (batch is None or len(batches) >= _STREAK_BATCHES):
        return "bad_streak", now + _after(SHORT_PAUSES[2:] + LONG_PAUSES, _run(latest, ("bad_streak",)))
    return outcome, None


def _run(latest: Sequence[Row], outcomes: tuple[str, ...]) -> int:
    """How many of the newest calls in a row had one of these outcomes."""
    count = 0
    for row in latest:
        if row["outcome"] not in outcomes:
            break
        count += 1
    return count


def _asked(seconds: float) -> dt.timedelta:
    """What a provider asked for, within bounds: it may say anything, but is not asked again within a second."""
    return dt.timedelta(seconds=min(max(1.0, seconds), LONGEST_ASKED.total_seconds()))


def _counts(usage: Usage) -> dict[str, int]:
    """Token counts as the ledger can hold them."""
    return {name: min(max(count, 0), MOST_TOKENS) for name, count in dataclasses.asdict(usage).items()}


def _after(pauses: Sequence[dt.timedelta], failures: int) -> dt.timedelta:
    return pauses[min(failures, len(pauses) - 1)]


def _midnight(now: dt.datetime) -> dt.datetime:
    return now.astimezone(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
