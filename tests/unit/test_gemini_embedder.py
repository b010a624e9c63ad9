"""The Gemini embedder through the real google-genai: limits, checks, and the two models' manners."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from cems.errors import (
    BadAnswer,
    ProviderMisconfigured,
    QuotaExhausted,
)
from cems.providers import Embedder
from cems.providers.gemini import GeminiEmbedder
from tests import fake_gemini as fake
from tests.asking_gemini import KEY
from tests.fake_gemini import Behaviour, FakeGemini


@pytest.fixture
def gemini() -> Iterator[FakeGemini]:
    with FakeGemini() as server:
        yield server


def embedder(gemini: FakeGemini, model: str = "gemini-embedding-2", dimensions: int = 128) -> GeminiEmbedder:
    return GeminiEmbedder(model, KEY, dimensions, gemini.base_url, first_pause=0.01)


# ---- Embeddings


def test_case_E38_vectors_in_order_and_of_length_one(gemini: FakeGemini) -> None:
    contract: Embedder = embedder(gemini)
    vectors = contract.embed_documents(["a", "b", "a"])
    assert contract.model_id == "gemini-embedding-2@128"
    assert contract.needs_network
    assert vectors[0] == vectors[2] != vectors[1]
    assert all(len(v) == 128 and math.isclose(math.hypot(*v), 1, abs_tol=1e-6) for v in vectors)


@pytest.mark.parametrize(
    "behaviour",
    [
        fake.vectors(count=1),
        fake.vectors(count=4),
        fake.vectors(count=0),
        fake.vectors(dimensions=127),
        fake.vectors(value=0.0),
        fake.vectors(value=math.nan),
        fake.vectors(value=math.inf),
        fake.raw("{}"),
        fake.raw('{"embeddings": [{}, {}, {}]}'),
        fake.raw('{"embeddings": [{"values": [null]}]}'),
    ],
)
def test_case_E38_wrong_vectors_are_a_bad_answer(gemini: FakeGemini, behaviour: Behaviour) -> None:
    gemini.script_embed(behaviour)
    with pytest.raises(BadAnswer):
        embedder(gemini).embed_documents(["a", "b", "c"])


@pytest.mark.parametrize("model", ["gemini-embedding-001", "gemini-embedding-2"])
def test_case_E38_three_texts_are_three_requests_in_one(gemini: FakeGemini, model: str) -> None:
    assert len(embedder(gemini, model).embed_documents(["a", "b", "c"])) == 3
    [asked] = gemini.requests
    assert len(asked.texts) == 3


def test_case_E39_101_texts_go_in_two_requests(gemini: FakeGemini) -> None:
    texts = [f"text {n}" for n in range(101)]
    vectors = embedder(gemini, "gemini-embedding-001").embed_documents(texts)
    assert [len(asked.texts) for asked in gemini.requests] == [100, 1]
    assert [text for asked in gemini.requests for text in asked.texts] == texts
    assert len(vectors) == 101


def test_case_E39_long_text_is_cut_knowingly(gemini: FakeGemini) -> None:
    embedding = embedder(gemini, "gemini-embedding-001")
    embedding.embed_documents(["short", "x" * 8192, "y" * 8193, "ü" * 5000])
    assert embedding.texts_cut == 2
    assert [len(text.encode()) for text in gemini.requests[0].texts] == [5, 8192, 8192, 8192]


def test_case_E39_request_stays_below_the_payload_limit(gemini: FakeGemini) -> None:
    embedder(gemini).embed_documents(["語" * 9000] * 100)  # escaped, six bytes a character
    assert len(gemini.requests) > 1
    assert all(int(asked.headers["content-length"]) < 4 * 2**20 for asked in gemini.requests)
    assert sum(len(asked.texts) for asked in gemini.requests) == 100


def test_task_is_a_parameter_for_001_and_text_for_2(gemini: FakeGemini) -> None:
    for model in ("gemini-embedding-001", "gemini-embedding-2"):
        embedder(gemini, model).embed_documents(["{tabs}"])
        embedder(gemini, model).embed_query("{tabs}")
    assert [asked.texts[0] for asked in gemini.requests] == [
        "{tabs}",
        "{tabs}",
        "title: none | text: {tabs}",
        "task: search result | query: {tabs}",
    ]
    tasks = [asked.body["requests"][0].get("taskType") for asked in gemini.requests]
    assert tasks == ["RETRIEVAL_DOCUMENT", "RETRIEVAL_QUERY", None, None]


def test_empty_text_gets_a_vector_and_no_text_no_request(gemini: FakeGemini) -> None:
    assert embedder(gemini).embed_documents([]) == []
    assert gemini.requests == []
    assert len(embedder(gemini, "gemini-embedding-001").embed_documents(["", " \n"])) == 2
    assert all(text.strip() for text in gemini.requests[0].texts)


def test_embedder_fails_as_the_generator_does(gemini: FakeGemini) -> None:
    gemini.script_embed(fake.html(503), fake.vectors(), fake.quota_of_day())
    assert len(embedder(gemini).embed_documents(["a"])) == 1
    with pytest.raises(QuotaExhausted):
        embedder(gemini).embed_query("a")


def test_case_S52_dimensions_the_model_cannot_give_are_a_readable_error(gemini: FakeGemini) -> None:
    with pytest.raises(ProviderMisconfigured, match="4096 dimensions"):
        embedder(gemini, dimensions=4096)
    assert len(embedder(gemini, dimensions=3072).embed_query("a")) == 3072


def test_unknown_embedding_model() -> None:
    with pytest.raises(ProviderMisconfigured, match="text-embedding-004"):
        GeminiEmbedder("text-embedding-004", KEY)
