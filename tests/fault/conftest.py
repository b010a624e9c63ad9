"""What fault tests share: a scripted model over HTTP, quick settings, a folder for what processes say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fake_gemini import FakeGemini
from tests.fault.answers import observe


@pytest.fixture
def gemini() -> Iterator[FakeGemini]:
    """A stand-in for the provider that remembers each note once."""
    with FakeGemini() as server:
        server.defaults["generate"] = observe
        yield server


@pytest.fixture
def quick(environment: dict[str, str], gemini: FakeGemini) -> dict[str, str]:
    """The environment of an observer that looks often, makes small batches and asks the scripted model."""
    return environment | {
        "CEMS_GEMINI_API_KEY": "test-key",
        "CEMS_GEMINI_BASE_URL": gemini.base_url,
        "CEMS_OBSERVER_POLL_INTERVAL": "0.2",
        "CEMS_OBSERVER_IDLE_TIME": "0.3",
        "CEMS_OBSERVER_BATCH_SIZE": "3000",
        "CEMS_LLM_DAILY_CALLS": "100000",
        "CEMS_LLM_DAILY_TOKENS": "1000000000",
    }


@pytest.fixture
def projects(config_dir: Path) -> Path:
    """Where the transcripts are."""
    return config_dir / "projects"
