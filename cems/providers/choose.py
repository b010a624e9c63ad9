"""Which generator and which embedder the settings ask for. Nothing here needs a network until it is used."""

from __future__ import annotations

from collections.abc import Callable

from cems.errors import EmbedderUnavailable
from cems.providers import Embedder, TextGenerator
from cems.settings import Settings


def generator(settings: Settings) -> TextGenerator | None:
    """The model that writes; None without a key: rules serve then."""
    if not settings.gemini_api_key:
        return None
    from cems.providers.gemini import GeminiGenerator

    return GeminiGenerator(settings.llm_model, settings.gemini_api_key, settings.gemini_base_url or None)


def embedder(
    settings: Settings, progress: Callable[[int, int | None], None] | None = None
) -> Embedder | None:
    """The embedder; None where the settings ask for none. Fetches the local one's model file when it is not there.

    Raises:
        EmbedderUnavailable: it cannot be had; keywords serve.
    """
    if settings.embedder == "none":
        return None
    if settings.embedder == "gemini":
        if not settings.gemini_api_key:
            raise EmbedderUnavailable(
                "the Gemini embedder needs CEMS_GEMINI_API_KEY; search uses keywords only"
            )
        from cems.providers.gemini import GeminiEmbedder

        return GeminiEmbedder(
            settings.embedding_model,
            settings.gemini_api_key,
            settings.embedding_dimensions,
            settings.gemini_base_url or None,
        )
    from cems.providers.local import LocalEmbedder
    from cems.providers.model_file import ensure_model

    return LocalEmbedder(ensure_model(settings.model_dir, progress=progress))
