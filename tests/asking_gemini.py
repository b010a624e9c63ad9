"""A request, a generator for it, and the way it fails: shared by the tests of Gemini."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from cems.errors import ProviderError
from cems.providers import GenerateRequest
from cems.providers.gemini import DEFAULT_GENERATOR_MODEL, GeminiGenerator
from tests.fake_gemini import Behaviour, FakeGemini

KEY = "AIzaSy-not-a-real-key"
SECRET = "the prompt's own words, which no error repeats"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"observations": {"type": "array", "items": {"type": "string"}}},
    "required": ["observations"],
}
REQUEST = GenerateRequest("extraction", "You extract.", SECRET, SCHEMA, max_output_tokens=512, timeout=10.0)
GOOD = {"observations": ["uses tabs"]}


def generator(gemini: FakeGemini, model: str = DEFAULT_GENERATOR_MODEL, attempts: int = 4) -> GeminiGenerator:
    return GeminiGenerator(model, KEY, gemini.base_url, attempts, first_pause=0.01)


def failure(
    gemini: FakeGemini, *behaviours: Behaviour, timeout: float = 10.0, attempts: int = 4
) -> ProviderError:
    """What a request fails of; its text holds neither key nor prompt, and nothing that does is chained to
    it."""
    gemini.script(*behaviours)
    with pytest.raises(ProviderError) as caught:
        generator(gemini, attempts=attempts).generate(dataclasses.replace(REQUEST, timeout=timeout))
    error = caught.value
    for seen in (error, error.__cause__, error.__context__ if not error.__suppress_context__ else None):
        assert KEY not in f"{seen!s} {getattr(seen, 'hint', '')}"
        assert SECRET not in f"{seen!s} {getattr(seen, 'hint', '')}"
    return error
