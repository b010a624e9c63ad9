"""The local embedder, loaded when the first text asks for a vector: most runs only need to know which model's vectors they
compare, and the model takes 120 MB."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cems.errors import EmbedderUnavailable, ProviderUnavailable
from cems.providers import Embedder, Vector, choose
from cems.settings import Settings


class LateEmbedder:
    """An `Embedder` that is made at its first use."""

    needs_network = False

    def __init__(self, make: Callable[[], Embedder], model_id: str, dimensions: int) -> None:
        self._make = make
        self._made: Embedder | None = None
        self.model_id, self.dimensions = model_id, dimensions

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """See `Embedder`."""
        return self._embedder().embed_documents(texts)

    def embed_query(self, text: str) -> Vector:
        """See `Embedder`."""
        return self._embedder().embed_query(text)

    def _embedder(self) -> Embedder:
        if self._made is None:
            try:
                self._made = self._make()
            except EmbedderUnavailable as error:
                raise ProviderUnavailable(str(error)) from error
        return self._made


def late_embedder(
    settings: Settings, *, fetch: bool, alive: Callable[[], None] = lambda: None
) -> Embedder | None:
    """The embedder the settings ask for, or None.

    Args:
        fetch: fetch the local one's model file when it is not there; without, it counts as missing then.
        alive: called while it is fetched, as long as bytes arrive.

    Raises:
        EmbedderUnavailable, ProviderError: it cannot be had.
    """
    if settings.embedder != "local":
        return choose.embedder(settings)
    from cems.providers.local import DIMENSIONS, LocalEmbedder
    from cems.providers.model_file import MODEL, MODEL_NAME, ensure_model

    folder = settings.model_dir / MODEL_NAME
    if fetch:
        folder = ensure_model(settings.model_dir, progress=lambda done, total: alive())
    elif not (folder / MODEL.name).exists():
        raise EmbedderUnavailable("the embedder's model is not here yet; `cems observe` fetches it")
    return LateEmbedder(lambda: LocalEmbedder(folder), f"{MODEL_NAME}@{DIMENSIONS}", DIMENSIONS)
