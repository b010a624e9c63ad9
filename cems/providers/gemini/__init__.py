"""Gemini through google-genai: one generator and one embedder behind the contracts of `cems.providers`.
Importing this package is cheap; google-genai (half a second, 50 MB) is loaded by the first call."""

from __future__ import annotations

from cems.providers.gemini.embedder import DEFAULT_EMBEDDING_MODEL, GeminiEmbedder
from cems.providers.gemini.generator import DEFAULT_GENERATOR_MODEL, GeminiGenerator

__all__ = ["DEFAULT_EMBEDDING_MODEL", "DEFAULT_GENERATOR_MODEL", "GeminiEmbedder", "GeminiGenerator"]
