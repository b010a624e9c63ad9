"""The stand-ins keep the contracts they stand in for; and what calls use and cost is counted right."""

from __future__ import annotations

import math

import pytest

from cems.errors import ProviderUnavailable, TruncatedAnswer
from cems.providers import Embedder, GenerateReply, GenerateRequest, TextGenerator, Usage
from cems.providers.fake import HashEmbedder, ScriptedGenerator
from cems.providers.prices import LIST_PRICES, Price, cost_usd, price_of
from cems.providers.usage import cut_to_tokens, estimate_tokens, plus, usage_of, with_usage

REQUEST = GenerateRequest("extraction", "system", "prompt", {"type": "object"})


def test_answers_come_in_order_and_requests_are_remembered() -> None:
    reply = GenerateReply({"c": 3}, Usage(7, 8), "other")
    scripted = ScriptedGenerator([{"a": 1}, lambda request: {"b": request.prompt}, lambda request: reply])
    contract: TextGenerator = scripted
    assert contract.generate(REQUEST).data == {"a": 1}
    assert contract.generate(REQUEST).data == {"b": "prompt"}
    assert contract.generate(REQUEST) == reply
    assert scripted.requests == [REQUEST] * 3
    assert scripted.unused == 0


def test_scripted_errors_are_raised() -> None:
    scripted = ScriptedGenerator([ProviderUnavailable(retry_after=3), {"a": 1}])
    with pytest.raises(ProviderUnavailable):
        scripted.generate(REQUEST)
    answered = scripted.generate(REQUEST)
    assert answered.usage.input_tokens > 0
    assert answered.model == scripted.model == "scripted"


def test_more_requests_than_answers_fail_loudly_or_get_the_default() -> None:
    with pytest.raises(AssertionError, match="request 1"):
        ScriptedGenerator().generate(REQUEST)
    scripted = ScriptedGenerator(default={"d": 0})
    scripted.add({"a": 1})
    assert [scripted.generate(REQUEST).data for _ in range(3)] == [{"a": 1}, {"d": 0}, {"d": 0}]


@pytest.mark.parametrize("dimensions", [1, 16, 384, 768])
def test_hash_vectors_are_units(dimensions: int) -> None:
    contract: Embedder = HashEmbedder(dimensions)
    vectors = contract.embed_documents(["we use tabs", "", "!?", "語", "\ud800", "we use tabs"])
    assert contract.model_id == f"fake-hash@{dimensions}"
    assert all(len(v) == dimensions and math.isclose(math.hypot(*v), 1, abs_tol=1e-9) for v in vectors)
    assert vectors[0] == vectors[-1] == contract.embed_query("We use TABS!")


def test_hash_vectors_of_shared_words_are_nearer() -> None:
    embedder = HashEmbedder(384)
    query = embedder.embed_query("the user prefers tabs")
    near, far = embedder.embed_documents(
        ["user prefers tabs over spaces", "postgres pool of ten connections"]
    )
    assert sum(a * b for a, b in zip(query, near, strict=True)) > 0.5
    assert abs(sum(a * b for a, b in zip(query, far, strict=True))) < 0.3
    assert embedder.texts[0] == "the user prefers tabs"


# ---- Usage and prices


def test_estimates() -> None:
    assert [estimate_tokens(text) for text in ("", "abcd", "abcde", "語" * 4, "\ud800")] == [1, 1, 2, 3, 1]
    assert cut_to_tokens("abcdefgh", 1) == "abcd"
    assert cut_to_tokens("語語", 1) == "語"  # a character is not cut in two


def test_usage_travels_with_the_error() -> None:
    error = with_usage(TruncatedAnswer(), Usage(1, 2, 3, 4))
    assert usage_of(error) == Usage(1, 2, 3, 4)
    assert usage_of(TruncatedAnswer()) == Usage()
    assert plus(Usage(1, 2, 3, 4), Usage(1, 1, 1, 1)) == Usage(2, 3, 4, 5)


@pytest.mark.parametrize(
    ("model", "listed"),
    [
        ("gemini-3.5-flash-lite", "gemini-3.5-flash-lite"),
        ("models/gemini-3.5-flash-lite", "gemini-3.5-flash-lite"),
        ("gemini-3.5-flash", "gemini-3.5-flash"),
        ("gemini-3.5-flash-preview-05-20", "gemini-3.5-flash"),
        ("gemini-2.5-flash-001", "gemini-2.5-flash"),
        ("gemini-embedding-2-preview", "gemini-embedding-2"),
    ],
)
def test_known_prices(model: str, listed: str) -> None:
    assert price_of(model) == LIST_PRICES[listed]


@pytest.mark.parametrize("model", ["gemini-3.5-flash-image", "gemini-9-pro", "", "scripted"])
def test_unknown_prices_are_not_zero(model: str) -> None:
    assert price_of(model) is None
    assert cost_usd(model, Usage(10, 10)) is None


def test_costs_count_thoughts_as_output_and_take_overrides() -> None:
    usage = Usage(input_tokens=1_000_000, output_tokens=100_000, thought_tokens=100_000)
    assert cost_usd("gemini-3.5-flash-lite", usage) == pytest.approx(0.30 + 0.50)
    mine = {"gemini-3.5-flash-lite": Price(1, 2), "my-model": Price(0, 0)}
    assert cost_usd("gemini-3.5-flash-lite", usage, mine) == pytest.approx(1.4)
    assert cost_usd("my-model", usage, mine) == 0
