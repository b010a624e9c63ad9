"""The local embedder with its real model: what its vectors promise, and what it refuses to load."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest

from cems.errors import EmbedderUnavailable
from cems.providers import Embedder, Vector
from cems.providers.local import DIMENSIONS, LocalEmbedder
from cems.providers.model_file import MODEL, TOKENIZER
from tests.local_model import model_folder


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    return LocalEmbedder(model_folder())


def cosine(one: Vector, other: Vector) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def test_vectors_are_units_of_384(embedder: LocalEmbedder) -> None:
    contract: Embedder = embedder
    assert contract.model_id == "bge-small-en-v1.5-int8@384"
    assert not contract.needs_network
    vectors = contract.embed_documents(["We use tabs.", "Deploys run on Fridays.", "ß 語 \U0001f600"])
    assert [len(vector) for vector in vectors] == [DIMENSIONS] * 3
    assert all(math.isclose(math.hypot(*vector), 1, abs_tol=1e-6) for vector in vectors)


def test_same_text_same_vector_in_any_company(embedder: LocalEmbedder) -> None:
    text = "The retry loop in the uploader doubled every row until the lease was added."
    alone = embedder.embed_documents([text])[0]
    company = embedder.embed_documents(["short", text, "a much longer text " * 40, text])
    assert company[1] == company[3] == alone
    assert LocalEmbedder(model_folder(), threads=1).embed_documents([text, "x"])[0] == alone


def test_order_is_kept(embedder: LocalEmbedder) -> None:
    texts = [f"note number {n} " * (n % 7 + 1) for n in range(20)]
    assert embedder.embed_documents(texts) == [embedder.embed_documents([text])[0] for text in texts]


def test_meaning_decides(embedder: LocalEmbedder) -> None:
    documents = [
        "The user prefers tabs over spaces for indentation.",
        "Postgres connections are pooled, ten at most.",
        "The release is cut from the main branch every Friday.",
    ]
    vectors = embedder.embed_documents(documents)
    for question, answer in [
        ("how should code be indented?", 0),
        ("database connection limits", 1),
        ("on which day do we release?", 2),
    ]:
        query = embedder.embed_query(question)
        assert max(range(3), key=lambda n: cosine(query, vectors[n])) == answer


def test_questions_are_marked_as_such(embedder: LocalEmbedder) -> None:
    assert embedder.embed_query("tabs") != embedder.embed_documents(["tabs"])[0]


@pytest.mark.parametrize("text", ["", " \n\t", "\x00", "\ud800", "\u200b"])
def test_texts_of_nothing_have_a_vector(embedder: LocalEmbedder, text: str) -> None:
    assert math.isclose(math.hypot(*embedder.embed_documents([text])[0]), 1, abs_tol=1e-6)


def test_no_texts_no_vectors(embedder: LocalEmbedder) -> None:
    assert embedder.embed_documents([]) == []


def test_case_E39_a_text_of_megabytes_is_cut(embedder: LocalEmbedder) -> None:
    words = "the quick brown fox jumps over the lazy dog "
    assert embedder.embed_documents([words * 50_000])[0] == embedder.embed_documents([words * 100])[0]


def test_another_length_is_another_model(embedder: LocalEmbedder) -> None:
    longer = LocalEmbedder(model_folder(), max_tokens=512)
    assert longer.model_id == "bge-small-en-v1.5-int8/512@384"
    text = "the quick brown fox jumps over the lazy dog " * 40
    assert longer.embed_documents([text]) != embedder.embed_documents([text])


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(EmbedderUnavailable, match=r"model\.onnx"):
        LocalEmbedder(tmp_path)


@pytest.mark.parametrize("name", [MODEL.name, TOKENIZER.name])
def test_changed_files_are_refused(tmp_path: Path, name: str) -> None:
    shutil.copytree(model_folder(), tmp_path, dirs_exist_ok=True)
    with (tmp_path / name).open("r+b") as file:
        file.seek(100)
        file.write(b"!")
    with pytest.raises(EmbedderUnavailable, match="SHA-256"):
        LocalEmbedder(tmp_path)
