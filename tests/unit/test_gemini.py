"""The Gemini generator through the real google-genai: what it sends, and which answers it takes."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from cems.errors import (
    BadAnswer,
    BlockedAnswer,
    EmptyAnswer,
    TruncatedAnswer,
)
from cems.providers import TextGenerator, Usage
from cems.providers.gemini import DEFAULT_GENERATOR_MODEL, GeminiGenerator
from cems.providers.usage import estimate_tokens, usage_of
from tests import fake_gemini as fake
from tests.asking_gemini import GOOD, KEY, REQUEST, SCHEMA, SECRET, failure, generator
from tests.fake_gemini import Asked, Behaviour, FakeGemini


@pytest.fixture
def gemini() -> Iterator[FakeGemini]:
    with FakeGemini() as server:
        yield server


# ---- Answers


def test_answer_with_usage_and_what_is_sent(gemini: FakeGemini) -> None:
    gemini.script(fake.ok(GOOD, prompt=100, candidates=20, thoughts=5, cached=60))
    text_generator: TextGenerator = generator(gemini)
    reply = text_generator.generate(REQUEST)
    assert reply.data == GOOD
    assert reply.usage == Usage(100, 20, 5, 60)
    assert reply.model == DEFAULT_GENERATOR_MODEL == text_generator.model
    [asked] = gemini.requests
    assert asked.version == "v1"
    assert asked.prompt == SECRET
    assert asked.headers["x-goog-api-key"] == KEY
    assert asked.body["systemInstruction"]["parts"] == [{"text": "You extract."}]
    config = asked.body["generationConfig"]
    assert config["responseJsonSchema"] == SCHEMA
    assert config["responseMimeType"] == "application/json"
    assert config["maxOutputTokens"] == 512
    assert not {"temperature", "topP", "topK", "candidateCount"} & config.keys()  # current models refuse them


def test_usage_is_estimated_when_the_server_says_nothing(gemini: FakeGemini) -> None:
    gemini.script(fake.ok(GOOD))
    sent = estimate_tokens(REQUEST.system) + estimate_tokens(REQUEST.prompt)
    assert generator(gemini).generate(REQUEST).usage == Usage(sent, estimate_tokens(json.dumps(GOOD)))


def test_key_of_the_environment_does_not_win(gemini: FakeGemini, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "another")
    monkeypatch.setenv("GOOGLE_GENAI_USE_ENTERPRISE", "true")
    gemini.script(fake.ok(GOOD))
    generator(gemini).generate(REQUEST)
    assert gemini.requests[0].headers["x-goog-api-key"] == KEY


def test_lone_surrogate_is_not_sent(gemini: FakeGemini) -> None:
    gemini.script(fake.ok(GOOD))
    generator(gemini).generate(dataclasses.replace(REQUEST, prompt="a\ud800b"))
    assert gemini.requests[0].prompt == "a?b"


@pytest.mark.parametrize("text", ['```json\n{"observations": []}\n```', '\n```\n{"observations": []}\n```\n'])
def test_case_E31_one_fenced_object_is_accepted(gemini: FakeGemini, text: str) -> None:
    gemini.script(fake.text(text))
    assert generator(gemini).generate(REQUEST).data == {"observations": []}


@pytest.mark.parametrize(
    "text",
    [
        'Here you are: {"observations": []}',
        '```json\n{"observations": []}\n```\nI hope this helps',
        '```json\n{"a": 1}\n```\n```json\n{"a": 2}\n```',
        '{"observations": []} {"observations": []}',
        '[{"observations": []}]',
        '"observations"',
        "null",
        '{"observations": [',
        '{"score": NaN}',
        '{"score": -Infinity}',
        '{"score": 1e999}',
        '{"score": ' + "9" * 5000 + "}",
        '{"a":' * 100_000,
    ],
)
def test_case_E31_anything_but_one_object_is_a_bad_answer(gemini: FakeGemini, text: str) -> None:
    assert type(failure(gemini, fake.text(text))) is BadAnswer
    assert len(gemini.requests) == 1


def test_case_E31_an_empty_object_is_for_the_caller_to_judge(gemini: FakeGemini) -> None:
    gemini.script(fake.ok({}))
    assert generator(gemini).generate(REQUEST).data == {}


@pytest.mark.parametrize(
    "body",
    [
        "<html>hello</html>",
        "",
        "[1]",
        '"x"',
        "7",
        '{"candidates": 3}',
        '{"candidates": [7]}',
        "[" * 100_000,
        "\udcff",
    ],
)
def test_200_with_garbage_is_a_bad_answer(gemini: FakeGemini, body: str) -> None:
    assert isinstance(failure(gemini, fake.raw(body), fake.raw(body)), BadAnswer)


def test_answer_of_ten_megabytes_is_a_bad_answer(gemini: FakeGemini) -> None:
    assert type(failure(gemini, fake.huge(10))) is BadAnswer


# ---- Finish reasons


@pytest.mark.parametrize("content", ['{"observations": [', '{"observations": []}', ""])
def test_case_E34_cut_at_max_tokens(gemini: FakeGemini, content: str) -> None:
    error = failure(gemini, fake.truncated(content, prompt=10, candidates=3, thoughts=500))
    assert isinstance(error, TruncatedAnswer)
    assert usage_of(error) == Usage(10, 3, 500, 0)
    assert len(gemini.requests) == 1


@pytest.mark.parametrize(
    "reason", ["SAFETY", "RECITATION", "PROHIBITED_CONTENT", "SPII", "BLOCKLIST", "LANGUAGE"]
)
def test_blocked_answer(gemini: FakeGemini, reason: str) -> None:
    error = failure(gemini, fake.blocked(reason))
    assert isinstance(error, BlockedAnswer)
    assert reason in str(error)


def test_blocked_prompt_has_no_candidates(gemini: FakeGemini) -> None:
    error = failure(gemini, fake.prompt_blocked("PROHIBITED_CONTENT"))
    assert isinstance(error, BlockedAnswer)
    assert len(gemini.requests) == 1


@pytest.mark.filterwarnings("ignore:.*is not a valid FinishReason")
@pytest.mark.parametrize(
    "reason", ["OTHER", "MALFORMED_RESPONSE", "SOMETHING_NEW", "FINISH_REASON_UNSPECIFIED"]
)
def test_answer_that_did_not_end_by_itself(gemini: FakeGemini, reason: str) -> None:
    assert type(failure(gemini, fake.text('{"observations": []}', reason))) is BadAnswer


def test_case_E36_empty_stop_is_asked_once_more(gemini: FakeGemini) -> None:
    gemini.script(fake.raw(json.dumps(EMPTY_STOP)), fake.ok(GOOD, prompt=10, candidates=2))
    reply = generator(gemini).generate(REQUEST)
    assert reply.data == GOOD
    assert reply.usage == Usage(17, 2, 9, 0)  # what the empty answer cost is not forgotten


def test_case_E36_empty_twice_is_an_empty_answer(gemini: FakeGemini) -> None:
    error = failure(gemini, fake.raw(json.dumps(EMPTY_STOP)), fake.empty())
    assert isinstance(error, EmptyAnswer)
    assert usage_of(error).thought_tokens == 9
    assert len(gemini.requests) == 2


EMPTY_STOP = {
    "candidates": [{"content": {"role": "model"}, "finishReason": "STOP"}],
    "usageMetadata": {"promptTokenCount": 7, "thoughtsTokenCount": 9},
}


# ---- Thinking


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("gemini-2.5-flash-lite", {"thinking_budget": 0}),
        ("gemini-3.5-flash-lite", {"thinkingLevel": "MINIMAL"}),
        ("models/gemini-3.1-flash-lite", {"thinkingLevel": "MINIMAL"}),
        ("gemini-2.0-flash", None),
        ("gemini-flash-latest", None),
        ("gemma-3-27b-it", None),
    ],
)
def test_thinking_is_asked_as_the_family_wants(
    gemini: FakeGemini, model: str, expected: dict[str, object] | None
) -> None:
    gemini.script(fake.ok(GOOD))
    generator(gemini, model).generate(REQUEST)
    sent = gemini.requests[0].body["generationConfig"].get("thinkingConfig")
    assert _plain(sent) == _plain(expected)


def _plain(config: dict[str, object] | None) -> dict[str, object] | None:
    """The SDK mixes cases in one body."""
    return None if config is None else {key.replace("_", "").lower(): value for key, value in config.items()}


def test_refused_thinking_level_steps_down_and_is_remembered(gemini: FakeGemini) -> None:
    def level(asked: Asked) -> Behaviour:
        if _plain(asked.body["generationConfig"]["thinkingConfig"]) == {"thinkinglevel": "MINIMAL"}:
            return fake.error(
                400, "INVALID_ARGUMENT", "Thinking level MINIMAL is not supported for this model."
            )
        return fake.ok(GOOD)

    gemini.defaults["generate"] = level
    asking = generator(gemini, "gemini-3.8-flash")
    asking.generate(REQUEST)
    asking.generate(REQUEST)
    sent = [asked.body["generationConfig"]["thinkingConfig"] for asked in gemini.requests]
    assert [_plain(config) for config in sent] == [{"thinkinglevel": x} for x in ("MINIMAL", "LOW", "LOW")]


def test_model_without_any_thinking_setting(gemini: FakeGemini) -> None:
    def none_at_all(asked: Asked) -> Behaviour:
        if "thinkingConfig" in asked.body["generationConfig"]:
            return fake.error(
                400, "INVALID_ARGUMENT", "Budget 0 is invalid. This model only works in thinking mode."
            )
        return fake.ok(GOOD)

    gemini.defaults["generate"] = none_at_all
    assert generator(gemini, "gemini-2.5-pro").generate(REQUEST).data == GOOD


# ---- Import


def test_importing_the_providers_loads_no_library() -> None:
    modules = ["gemini", "local", "fake", "prices", "usage", "model_file"]
    heavy = {"google.genai", "httpx2", "onnxruntime", "tokenizers", "numpy"}
    names = ", ".join(f"cems.providers.{module}" for module in modules)
    code = f"import sys, {names}; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_scripts_reach_a_server_in_another_process() -> None:
    command = [sys.executable, "-m", "tests.fake_gemini", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            base_url = f"http://127.0.0.1:{int(process.stdout.readline())}"
            _post(f"{base_url}/_script", {"generate": [fake.html(503)], "default": fake.ok(GOOD)})
            reply = GeminiGenerator("gemini-3.5-flash-lite", KEY, base_url, first_pause=0.01).generate(
                REQUEST
            )
            assert reply.data == GOOD
            assert len(_post(f"{base_url}/_requests", None)) == 2
        finally:
            process.kill()


def _post(url: str, data: object) -> Any:
    import httpx2

    answer = httpx2.get(url) if data is None else httpx2.post(url, json=data)
    return answer.json()
