"""The Gemini generator against outages, quotas and refusals, as the real ones look on the wire."""

from __future__ import annotations

import dataclasses
import datetime as dt
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from cems.errors import (
    BadAnswer,
    ProviderMisconfigured,
    ProviderUnavailable,
    QuotaExhausted,
    RateLimited,
)
from cems.providers.gemini import GeminiGenerator
from tests import fake_gemini as fake
from tests.asking_gemini import GOOD, KEY, REQUEST, SECRET, failure, generator
from tests.fake_gemini import Behaviour, FakeGemini


@pytest.fixture
def gemini() -> Iterator[FakeGemini]:
    with FakeGemini() as server:
        yield server


# ---- Outages


def test_case_E37_503_503_200(gemini: FakeGemini) -> None:
    gemini.script(fake.html(503), fake.error(503, "UNAVAILABLE", "The model is overloaded."), fake.ok(GOOD))
    assert generator(gemini).generate(REQUEST).data == GOOD
    assert len(gemini.requests) == 3


def test_case_E37_a_server_that_says_nothing_costs_the_timeout_and_no_more(gemini: FakeGemini) -> None:
    started = time.monotonic()
    error = failure(gemini, fake.hang(), timeout=0.7)
    assert isinstance(error, ProviderUnavailable)
    assert 0.6 < time.monotonic() - started < 2


@pytest.mark.parametrize("headers", [False, True])
def test_case_E37_a_trickle_does_not_move_the_deadline(gemini: FakeGemini, headers: bool) -> None:
    started = time.monotonic()
    error = failure(gemini, fake.trickle(0.02, headers), timeout=0.7)
    assert isinstance(error, ProviderUnavailable)
    assert time.monotonic() - started < 2


def test_case_E37_after_a_hang_the_next_request_is_served(gemini: FakeGemini) -> None:
    gemini.script(fake.hang(), fake.ok(GOOD))
    asking = generator(gemini)
    with pytest.raises(ProviderUnavailable):
        asking.generate(dataclasses.replace(REQUEST, timeout=0.5))
    assert asking.generate(REQUEST).data == GOOD


@pytest.mark.parametrize(
    "behaviour",
    [
        fake.reset(),
        fake.html(500),
        fake.html(502),
        fake.html(504),
        fake.error(408, "DEADLINE_EXCEEDED"),
        fake.raw("\udcff\udcfe", 500),
        fake.raw("[1, 2]", 503),
        fake.raw('"busy"', 503),
        fake.raw("", 302, location="http://127.0.0.1:1/"),
    ],
)
def test_passing_failures_are_retried_and_then_unavailable(gemini: FakeGemini, behaviour: Behaviour) -> None:
    assert type(failure(gemini, *[behaviour] * 3, attempts=3)) is ProviderUnavailable
    assert len(gemini.requests) == 3


def test_nobody_listens() -> None:
    with FakeGemini() as gone:
        base_url = gone.base_url
    with pytest.raises(ProviderUnavailable, match="no connection"):
        GeminiGenerator("gemini-3.5-flash-lite", KEY, base_url, 2, first_pause=0.01).generate(REQUEST)


def test_retry_after_of_a_503_is_handed_on(gemini: FakeGemini) -> None:
    error = failure(gemini, fake.raw("busy", 503, "text/plain", retry_after="120"))
    assert isinstance(error, ProviderUnavailable)
    assert error.retry_after == 120
    assert len(gemini.requests) == 1  # two minutes are the caller's to wait


def test_threads_share_a_generator(gemini: FakeGemini) -> None:
    gemini.defaults["generate"] = lambda asked: fake.ok({"observations": [asked.prompt]})
    asking = generator(gemini)

    def ask(number: int) -> object:
        return asking.generate(dataclasses.replace(REQUEST, prompt=str(number))).data["observations"]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(24))) == [[str(n)] for n in range(24)]


# ---- Quotas


def test_case_E32_short_wait_of_a_minutes_quota_is_waited_for(gemini: FakeGemini) -> None:
    gemini.script(fake.rate_limited(0.3), fake.ok(GOOD))
    started = time.monotonic()
    assert generator(gemini).generate(REQUEST).data == GOOD
    assert time.monotonic() - started >= 0.3


@pytest.mark.parametrize(("seconds", "timeout"), [(47, 60.0), (5, 3.0)])
def test_case_E32_long_wait_is_the_callers(gemini: FakeGemini, seconds: float, timeout: float) -> None:
    error = failure(gemini, fake.rate_limited(seconds), timeout=timeout)
    assert type(error) is RateLimited
    assert error.retry_after == seconds
    assert len(gemini.requests) == 1


def test_case_E32_retry_after_header(gemini: FakeGemini) -> None:
    error = failure(gemini, fake.error(429, "RESOURCE_EXHAUSTED", retry_after="30"))
    assert type(error) is RateLimited
    assert error.retry_after == 30


class Noon:
    """A clock at 12:00 UTC, which is 04:00 Pacific time."""

    def now(self) -> dt.datetime:
        return dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)

    def monotonic(self) -> float:
        return time.monotonic()


def test_case_E32_retry_after_as_a_date(gemini: FakeGemini) -> None:
    gemini.script(fake.error(429, "RESOURCE_EXHAUSTED", retry_after="Mon, 30 Nov 2026 12:01:30 GMT"))
    with pytest.raises(RateLimited) as caught:
        GeminiGenerator("gemini-3.5-flash-lite", KEY, gemini.base_url, clock=Noon()).generate(REQUEST)
    assert caught.value.retry_after == 90


@pytest.mark.parametrize(
    "behaviour", [fake.quota_of_day(47), fake.error(429, "RESOURCE_EXHAUSTED", "250 per day")]
)
def test_case_E32_quota_of_the_day_ends_at_midnight_pacific(gemini: FakeGemini, behaviour: Behaviour) -> None:
    gemini.script(behaviour)
    with pytest.raises(QuotaExhausted) as caught:
        GeminiGenerator("gemini-3.5-flash-lite", KEY, gemini.base_url, clock=Noon()).generate(REQUEST)
    assert caught.value.retry_after == 20 * 3600
    assert len(gemini.requests) == 1


def test_case_E32_day_and_minute_together_are_the_day(gemini: FakeGemini) -> None:
    quotas = [
        "GenerateContentInputTokensPerModelPerMinute-FreeTier",
        "GenerateRequestsPerDayPerProjectPerModel",
    ]
    details: list[dict[str, Any]] = [
        {"violations": [{"quotaId": quota} for quota in quotas]},
        {"retryDelay": "3s"},
    ]
    assert isinstance(failure(gemini, fake.error(429, "RESOURCE_EXHAUSTED", "", details)), QuotaExhausted)


# ---- Refusals


@pytest.mark.parametrize(
    ("behaviour", "word"),
    [
        (
            fake.error(400, "INVALID_ARGUMENT", f"API key not valid: {KEY}", [{"reason": "API_KEY_INVALID"}]),
            "API key",
        ),
        (fake.error(401, "UNAUTHENTICATED"), "API key"),
        (fake.error(403, "PERMISSION_DENIED", details=[{"reason": "SERVICE_DISABLED"}]), "SERVICE_DISABLED"),
        (fake.error(400, "FAILED_PRECONDITION", "User location is not supported"), "account or project"),
        (fake.error(404, "NOT_FOUND", "models/x is not found"), "no model gemini-3.5-flash-lite"),
        (fake.error(400, "INVALID_ARGUMENT", f"Invalid value: {SECRET}"), "invalid"),
    ],
)
def test_refusals_say_what_to_do(gemini: FakeGemini, behaviour: Behaviour, word: str) -> None:
    error = failure(gemini, behaviour)
    assert isinstance(error, ProviderMisconfigured)
    assert word in str(error)
    assert error.hint
    assert len(gemini.requests) == 1


def test_refused_field_is_named(gemini: FakeGemini) -> None:
    fields = [{"field": "generation_config.response_json_schema"}, {"field": f"contents[0]: {SECRET}"}]
    error = failure(gemini, fake.error(400, "INVALID_ARGUMENT", SECRET, [{"fieldViolations": fields}]))
    assert "generation_config.response_json_schema" in str(error)


def test_request_too_long_for_the_model_is_this_requests_fault(gemini: FakeGemini) -> None:
    message = "The input token count (2000000) exceeds the maximum number of tokens allowed (1048576)."
    assert type(failure(gemini, fake.error(400, "INVALID_ARGUMENT", message))) is BadAnswer


@pytest.mark.parametrize("key", ["", "  ", "two words", "schlüssel", "auth_tokens/abc", "a\nb"])
def test_impossible_keys(key: str) -> None:
    with pytest.raises(ProviderMisconfigured) as caught:
        GeminiGenerator("gemini-3.5-flash-lite", key)
    assert not key.strip() or key not in str(caught.value)


@pytest.mark.parametrize("base_url", ["gopher://x", "127.0.0.1:1", "http://"])
def test_impossible_base_urls(base_url: str) -> None:
    with pytest.raises(ProviderMisconfigured):
        GeminiGenerator("gemini-3.5-flash-lite", KEY, base_url).generate(REQUEST)
