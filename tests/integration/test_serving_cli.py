"""`cems search` after a change of model: the vectors that are complete answer, and what the settings keep on this machine does
not leave it because of that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cems.providers.local import LocalEmbedder
from db import embeddings
from db.connect import Database
from tests.conftest import FakeClock
from tests.fake_gemini import FakeGemini
from tests.local_model import cache_dir, model_folder
from tests.program import Program
from tests.reindexing import Named
from tests.rewriting import remember

QUESTION = "Which colour does the lighthouse have?"


@pytest.fixture
def gemini() -> Iterator[FakeGemini]:
    with FakeGemini() as server:
        yield server


@pytest.fixture
def program(environment: dict[str, str], tmp_path: Path, gemini: FakeGemini) -> Program:
    model_folder()
    more = {
        "CEMS_GEMINI_API_KEY": "k",
        "CEMS_GEMINI_BASE_URL": gemini.base_url,
        "CEMS_EMBEDDING_MODEL_DIR": str(cache_dir()),
    }
    return Program(environment | more, tmp_path)


def give(db: Database, embedder: LocalEmbedder | Named, clock: FakeClock, limit: int = 100) -> None:
    every = embeddings.missing(db, embedder.model_id, limit)
    made = embedder.embed_documents([embeddings.embedded_text(row) for row in every])
    embeddings.add(db, embedder.model_id, list(zip([r["id"] for r in every], made, strict=True)), clock.now())


def test_while_the_new_model_is_incomplete_the_local_one_goes_on_answering(
    program: Program, db: Database, clock: FakeClock, gemini: FakeGemini
) -> None:
    tower = remember(db, "The lighthouse is painted red", days=1)
    remember(db, "Deployments happen on Fridays")
    give(db, LocalEmbedder(model_folder()), clock)
    give(db, Named("gemini-embedding-001", 768), clock, limit=1)
    found = program.json("search", QUESTION, CEMS_EMBEDDER="gemini")
    assert found["by"] == ["words", "meaning"]
    assert (found["results"][0]["id"], found["results"][0]["meaning_rank"]) == (str(tower), 1)
    assert gemini.requests == []
    give(db, Named("gemini-embedding-001", 768), clock)
    program.json("search", QUESTION, CEMS_EMBEDDER="gemini")
    assert len(gemini.requests) == 1


def test_back_on_this_machine_no_question_leaves_it(
    program: Program, db: Database, clock: FakeClock, gemini: FakeGemini
) -> None:
    remember(db, "Deployments happen on Fridays", days=1)
    tower = remember(db, "The lighthouse is painted red")
    give(db, Named("gemini-embedding-001", 768), clock)
    give(db, LocalEmbedder(model_folder()), clock, limit=1)
    found = program("search", QUESTION, "--json", CEMS_EMBEDDER="local")
    assert "still being made" in found.err
    assert [row["id"] for row in found.json["results"] if row["meaning_rank"]] == [str(tower)]
    assert gemini.requests == []


def test_from_one_network_model_to_another_the_old_one_answers(
    program: Program, db: Database, clock: FakeClock, gemini: FakeGemini
) -> None:
    remember(db, "The lighthouse is painted red", days=1)
    remember(db, "Deployments happen on Fridays")
    give(db, Named("gemini-embedding-001", 768), clock)
    give(db, Named("gemini-embedding-2", 768), clock, limit=1)
    program.json("search", QUESTION, CEMS_EMBEDDER="gemini", CEMS_EMBEDDING_MODEL="gemini-embedding-2")
    assert [asked.model for asked in gemini.requests] == ["gemini-embedding-001"]
