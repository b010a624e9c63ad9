"""The embedder that works without a network: bge-small-en-v1.5, quantised to eight bits, run by onnxruntime
on the CPU.

Texts are run one at a time, on one thread each, several at once. The quantisation scales activations over a
whole batch, so in a batch the same text gets another vector (cosine .99) for each company it is in; alone it
gets always the same, at the same speed, in a fraction of the memory (measured on two cores: batches of 32
took 1.4 GB and were half as fast as one at a time)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from cems.errors import BadAnswer, EmbedderUnavailable
from cems.providers import Vector
from cems.providers.model_file import MODEL, MODEL_NAME, TOKENIZER

DIMENSIONS = 384
MAX_TOKENS = 256
"""Texts are cut here, at about a thousand characters: the length of nearly every memory. The model would take
512, but time grows faster than length (225 tokens 32 texts a second, 500 tokens 9), and keyword search sees
the whole text."""
QUERY_PREFIX = "Represent this sentence for searching relevant passages: "
"""What the model was trained to find in front of a question; documents have nothing."""

_CHARACTERS_PER_TOKEN = 32
"""More than any token has on average; the tokenizer need not read a text of megabytes to its end."""


class LocalEmbedder:
    """An `Embedder` over the model files in a folder. Safe to share between threads; takes about 120 MB when
    loaded and 230 MB at work."""

    needs_network = False

    def __init__(self, folder: Path, *, threads: int | None = None, max_tokens: int = MAX_TOKENS) -> None:
        """Load the model, which takes a quarter of a second.

        Args:
            folder: what `ensure_model` returned.
            threads: texts embedded at the same time; two, or one on a single core, when None.
            max_tokens: longer texts are cut; at most 512. Another value than the default is another
                `model_id`.

        Raises:
            EmbedderUnavailable: a file is missing or is not the pinned one, or onnxruntime does not work
                here.
        """
        MODEL.read(folder)  # to check it; onnxruntime needs less memory when it opens the file itself
        tokenizer = TOKENIZER.read(folder)
        os.environ["ORT_DISABLE_TELEMETRY"] = "1"
        try:
            import onnxruntime
            from tokenizers import Tokenizer
        except ImportError as error:
            raise EmbedderUnavailable(f"the local embedder cannot be loaded here: {error}") from error
        self._max_tokens = min(max_tokens, 512)
        self._threads = threads or min(2, _cpus())
        self._tokenizer = Tokenizer.from_buffer(tokenizer)
        self._tokenizer.enable_truncation(self._max_tokens)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.enable_cpu_mem_arena = False  # the arena keeps the largest text's memory for ever
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(
            folder / MODEL.name, options, providers=["CPUExecutionProvider"]
        )

    @property
    def model_id(self) -> str:
        """`bge-small-en-v1.5-int8@384`, and the length of texts when it is not the default."""
        length = "" if self._max_tokens == MAX_TOKENS else f"/{self._max_tokens}"
        return f"{MODEL_NAME}{length}@{DIMENSIONS}"

    @property
    def dimensions(self) -> int:
        """384."""
        return DIMENSIONS

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """One vector for each text, in order; an empty text has one too."""
        if len(texts) < 2 or self._threads < 2:
            return [self._embed(text) for text in texts]
        with ThreadPoolExecutor(self._threads, thread_name_prefix="cems-embed") as pool:
            return list(pool.map(self._embed, texts))

    def embed_query(self, text: str) -> Vector:
        """The vector of a question."""
        return self._embed(QUERY_PREFIX + text)

    def _embed(self, text: str) -> Vector:
        import numpy as np

        text = text[: self._max_tokens * _CHARACTERS_PER_TOKEN].encode("utf-8", "replace").decode("utf-8")
        ids = np.array([self._tokenizer.encode(text).ids], dtype=np.int64)
        feed: dict[str, Any] = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": np.zeros_like(ids),
        }
        hidden = self._session.run(None, feed)[0]  # (1, tokens, 384)
        vector = hidden[0, 0].astype(np.float64)  # the first token, [CLS], stands for the text
        norm = float(np.linalg.norm(vector))
        if vector.shape != (DIMENSIONS,) or not np.isfinite(norm) or norm < 1e-9:
            raise BadAnswer(
                "the local embedder gave a vector that is zero, not of numbers or of another size"
            )
        unit: Vector = (vector / norm).tolist()
        return unit


def _cpus() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
