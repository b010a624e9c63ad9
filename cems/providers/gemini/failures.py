"""From what Gemini or the network says to the errors of `cems.errors`. Only fixed words, numbers, field names
and reason codes pass: an error's text never holds the key, and never a piece of a prompt that the API quoted
back."""

from __future__ import annotations

import dataclasses
import datetime as dt
import email.utils
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from cems.errors import (
    BadAnswer,
    ProviderError,
    ProviderMisconfigured,
    ProviderUnavailable,
    QuotaExhausted,
    RateLimited,
)

PASSING = frozenset({408, 425, 499})
"""Client statuses that say nothing against the request: time-out, too early, cancelled."""

_CODE = re.compile(r"[A-Z][A-Z0-9_]{1,60}")
_FIELD = re.compile(r"[A-Za-z][A-Za-z0-9_.\[\]]{0,80}")
_DELAY = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")
_TOO_LONG = re.compile(
    r"token count.{0,40}exceeds|exceeds the maximum number of tokens|payload size exceeds", re.I
)
_PER_DAY = re.compile(r"per[ _-]?day|daily", re.I)
_PACIFIC = dt.timezone(dt.timedelta(hours=-8))


class ThinkingRefused(ProviderMisconfigured):
    """The model does not take this thinking setting."""


@dataclasses.dataclass(frozen=True)
class Problem:
    """The parts of a google.rpc.Status that decide; all that may be shown is in `codes` and `fields`."""

    message: str
    codes: tuple[str, ...]
    fields: tuple[str, ...]
    quotas: tuple[str, ...]
    retry_after: float | None

    @classmethod
    def read(cls, body: object) -> Problem:
        """Read an error body, whatever it is; what is not there is empty."""
        error = body.get("error", body) if isinstance(body, Mapping) else {}
        error = error if isinstance(error, Mapping) else {}
        details = [d for d in _list(error.get("details")) if isinstance(d, Mapping)]
        violations = [
            v for d in details for key in _VIOLATIONS for v in _list(d.get(key)) if isinstance(v, Mapping)
        ]
        codes = [error.get("status"), *(d.get("reason") for d in details)]
        quotas = [v.get("quotaId") for v in violations]
        quotas += [
            d["metadata"].get("quota_limit") for d in details if isinstance(d.get("metadata"), Mapping)
        ]
        delays = [_seconds(d.get("retryDelay")) for d in details]
        return cls(
            message=error["message"] if isinstance(error.get("message"), str) else "",
            codes=tuple(dict.fromkeys(_matching(_CODE, codes))),
            fields=tuple(_matching(_FIELD, [v.get("field") for v in violations])),
            quotas=tuple(q for q in quotas if isinstance(q, str)),
            retry_after=max((d for d in delays if d is not None), default=None),
        )

    @property
    def daily(self) -> bool:
        """Whether a quota of a day is used up. A body may name a minute's quota beside it; the day's one
        decides."""
        return any(_PER_DAY.search(text) for text in (self.message, *self.quotas))


_VIOLATIONS = ("violations", "fieldViolations")


def failure_of_status(
    code: int, body: object, headers: Mapping[str, str], *, model: str, now: dt.datetime
) -> ProviderError:
    """The error an HTTP status other than 200 means.

    Args:
        code: the HTTP status.
        body: the parsed body, of any shape; HTML comes as a mapping with a `message`.
        headers: with lower-case names; only `retry-after` is read.
        model: the model that was asked, for the message.
        now: aware; for `Retry-After` dates and for the time at which a day's quota returns.
    """
    problem = Problem.read(body)
    wait = problem.retry_after
    if wait is None:
        wait = _retry_after(headers.get("retry-after"), now)
    said = " ".join([str(code), *problem.codes[:2]])
    if code == 429 and problem.daily:
        # RetryInfo speaks of the next minute even when the day is used up; the day ends at midnight, Pacific
        # time.
        return QuotaExhausted(
            f"Gemini's quota of the day for {model} is used ({said})",
            retry_after=max(wait or 0.0, _until_quota_day_ends(now)),
        )
    if code == 429:
        return RateLimited(f"Gemini asked to slow down ({said})", retry_after=wait)
    if code < 400 or code >= 500 or code in PASSING:
        return ProviderUnavailable(f"Gemini failed inside or is not what answered ({said})", retry_after=wait)
    if code == 413 or _TOO_LONG.search(problem.message):
        return BadAnswer(f"the request is longer than {model} takes ({said})")
    return _refusal(code, problem, model, said)


def _refusal(code: int, problem: Problem, model: str, said: str) -> ProviderMisconfigured:
    if code == 400 and "thinking" in problem.message.lower():
        return ThinkingRefused(f"{model} does not take the thinking setting ({said})")
    if code == 404:
        return ProviderMisconfigured(
            f"Gemini knows no model {model} ({said})",
            hint="set a current model; models are shut down with notice",
        )
    if "API_KEY_INVALID" in problem.codes or "api key" in problem.message.lower() or code == 401:
        return ProviderMisconfigured(
            f"Gemini refused the API key ({said})",
            hint="make a key at https://aistudio.google.com/apikey and set it",
        )
    if code in {402, 403} or "FAILED_PRECONDITION" in problem.codes:
        return ProviderMisconfigured(
            f"Gemini refused this account or project ({said})",
            hint="check that the Gemini API is enabled for the key's project, its billing, and its region",
        )
    fields = f", in {', '.join(problem.fields[:3])}" if problem.fields else ""
    return ProviderMisconfigured(
        f"Gemini refused the request to {model} as invalid ({said}{fields})",
        hint="check the model's name; if it is right, the model does not support what was asked",
    )


def failure_of_network(error: Exception, seconds: float) -> ProviderError:
    """The error that a failure of httpx2 means.

    Args:
        error: an `httpx2.RequestError` or `InvalidURL`; below google-genai they are no `APIError`.
        seconds: how long the call had, for the message.
    """
    import httpx2

    name = type(error).__name__
    if isinstance(error, httpx2.UnsupportedProtocol | httpx2.InvalidURL):
        return ProviderMisconfigured(
            f"the provider's address is no URL ({name})", hint="check the base URL setting"
        )
    if isinstance(error, httpx2.LocalProtocolError):
        # Its text quotes the header it refused, which may be the one with the key.
        return ProviderMisconfigured(
            f"the request could not be sent ({name})", hint="check the API key for odd characters"
        )
    if isinstance(error, httpx2.ConnectTimeout | httpx2.ConnectError | httpx2.ProxyError):
        return ProviderUnavailable(
            f"no connection to Gemini ({name}: {str(error)[:120] or 'no reason given'})"
        )
    if isinstance(error, httpx2.TimeoutException):
        return ProviderUnavailable(f"Gemini did not answer within {seconds:.3g} s ({name})")
    return ProviderUnavailable(f"the connection to Gemini broke ({name})")


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _matching(pattern: re.Pattern[str], values: list[Any]) -> Iterator[str]:
    return (v for v in values if isinstance(v, str) and pattern.fullmatch(v))


def _seconds(value: object) -> float | None:
    match = _DELAY.fullmatch(value) if isinstance(value, str) else None
    return float(match.group(1)) if match else None


def _retry_after(value: str | None, now: dt.datetime) -> float | None:
    """A `Retry-After` header, which is seconds or a date; None when it is neither."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            when = email.utils.parsedate_to_datetime(value)
        except ValueError:
            return None
        when = when if when.tzinfo else when.replace(tzinfo=dt.UTC)
        return max(0.0, (when - now).total_seconds())
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _until_quota_day_ends(now: dt.datetime) -> float:
    """Seconds until midnight, Pacific standard time (an hour late in summer, which is safe)."""
    here = now.astimezone(_PACIFIC)
    midnight = (here + dt.timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    return (midnight - here).total_seconds()
