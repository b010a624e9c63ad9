"""The local embedder's real model for tests: fetched once, kept outside the repository's files between
runs."""

from __future__ import annotations

import functools
import os
from pathlib import Path

import pytest

from cems.errors import EmbedderUnavailable
from cems.providers.model_file import ensure_model


def cache_dir() -> Path:
    """`CEMS_TEST_MODEL_DIR`, or a folder in the virtual environment."""
    default = Path(__file__).parents[1] / ".venv" / "cems-model"
    return Path(os.environ.get("CEMS_TEST_MODEL_DIR") or default)


@functools.cache
def _fetched() -> Path | str:
    try:
        return ensure_model(cache_dir())
    except EmbedderUnavailable as error:
        return str(error)


def model_folder() -> Path:
    """The folder for `LocalEmbedder`; skips the test where the model cannot be had."""
    got = _fetched()
    if isinstance(got, str):
        pytest.skip(f"the embedding model cannot be had here: {got}")
    return got
