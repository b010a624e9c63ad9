"""Search where it is large and where it is judged: the indexes are used under row-level security as the reader, a small
project beside a big one loses nothing, a killed index build hurts nobody, and questions about something else find nothing."""

from __future__ import annotations

import datetime as dt
import json
import threading
import uuid
from collections.abc import Iterator

import numpy as np
import psycopg
import pytest
from pgvector.psycopg import register_vector

from bench import search as load
from cems.providers.local import LocalEmbedder
from cems.terms import memory_terms
from db import embeddings
from db import search as product
from db.connect import Access, Connection, Database, enter_scope, set_for_transaction
from db.embedded import ServerInfo
from db.search import Question
from tests import sample_sessions
from tests.conftest import admin
from tests.local_model import model_folder

OWNER = load.OWNER
BIG, SMALL = uuid.UUID(int=1000), uuid.UUID(int=1001)


@pytest.fixture(scope="module")
def two_projects(server: ServerInfo, template: str) -> Iterator[tuple[str, load.Load]]:
    """20,000 memories in one project and 100 in another, with 384 dimensions, copied in once."""
    made = load.make(20_100, projects=2)
    made.project[:] = 0
    made.project[::201] = 1  # 100 of them, spread over all
    name = "two_projects"
    with admin(server, "postgres") as conn:
        conn.execute(f"create database {name} template {template}".encode())
    with admin(server, name) as conn:
        load.fill(conn, made)
    yield name, made
    with admin(server, "postgres") as conn:
        conn.execute(f"drop database {name} with (force)".encode())


@pytest.fixture
def large(server: ServerInfo, two_projects: tuple[str, load.Load]) -> Iterator[Database]:
    """The reader's way into it."""
    dsn = server.dsn("cems_reader", two_projects[0])
    with Database(Access(dsn, "cems_reader", OWNER)) as db:
        yield db


def forced(conn: Connection) -> None:
    """Leave the planner nothing but indexes."""
    conn.execute(
        "select set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true),"
        " set_config('statement_timeout', '20s', true)"
    )


@pytest.mark.parametrize("few", [0, product.TUNING["few"]], ids=["by the index", "by the rule"])
def test_case_R67_a_small_project_beside_a_big_one_is_searched_completely(
    large: Database, two_projects: tuple[str, load.Load], few: int
) -> None:
    made = two_projects[1]
    big, small = np.flatnonzero(made.project == 0), np.flatnonzero(made.project == 1)
    for row in big[::4000]:
        near = made.vectors[row]
        exact = small[np.argsort(-(made.vectors[small] @ near))[:10]]
        question = Question("", near.tolist(), load.MODEL, [SMALL], limit=10)
        args = product.arguments(question, product.read(question, load.NOW), load.NOW)
        with large.transaction() as conn:
            forced(conn)
            every = {"owner": OWNER, "few": few, "floor": -1.0, "zero": -1.0}
            rows = product.run(conn, args | every)
        assert {row["id"].int - (2 << 64) for row in rows[:10]} == set(exact.tolist())


def plan(server: ServerInfo, database: str, question: Question) -> str:
    """How both statements are carried out, by the plans that are kept, as the reader."""
    args = product.arguments(question, product.read(question, load.NOW), load.NOW) | {"owner": OWNER}
    said: list[str] = []
    with admin(server, database) as conn, conn.transaction():
        conn.execute("load 'auto_explain'")
        conn.add_notice_handler(lambda notice: said.append(notice.message_primary or ""))
        told = {"auto_explain.log_min_duration": "0", "auto_explain.log_format": "json"}
        set_for_transaction(conn, {**told, "client_min_messages": "log"})
        enter_scope(conn, "cems_reader", OWNER)
        register_vector(conn)
        product.run(conn, args)
        conn.execute("select 1")  # what a statement did is said when the next one comes
    return "\n".join(text for text in said if "lively" in text)


def test_the_indexes_are_used_under_row_level_security(
    server: ServerInfo, two_projects: tuple[str, load.Load]
) -> None:
    name, made = two_projects
    text = " ".join(made.texts[5].split()[:6])
    found = plan(server, name, Question(text, made.vectors[5].tolist(), load.MODEL, [BIG]))
    for index in ("memory_search", "memory_live", "embedding_bge_small_384", "embedding_pkey", "memory_pkey"):
        assert f'"Index Name": "{index}"' in found, index
    assert '"Seq Scan", "Relation Name": "memory"' not in found
    assert '"Index Name": "memory_project"' not in found.partition("CTE found")[2].partition("CTE")[0]
    everywhere = plan(server, name, Question(text, made.vectors[5].tolist(), load.MODEL))
    assert '"Index Name": "embedding_bge_small_384"' in everywhere
    assert '"Index Name": "memory_search"' in everywhere


def test_words_find_the_memory_they_were_taken_from_in_a_large_project(
    large: Database, two_projects: tuple[str, load.Load]
) -> None:
    made = two_projects[1]
    for row in (3, 7000, 19_999):
        own = " ".join(made.texts[row].split()[40:46])  # a project's own, rarer words
        hits = product.search(large, Question(own, projects=[BIG], dates=False), load.NOW)
        assert uuid.UUID(int=(2 << 64) + row) in [hit.memory.id for hit in hits]


def test_case_R72_a_killed_index_build_leaves_nothing_behind_and_reads_go_on(
    server: ServerInfo, large: Database, two_projects: tuple[str, load.Load]
) -> None:
    name, made = two_projects
    question = Question("", made.vectors[8].tolist(), load.MODEL, [BIG])
    before = [hit.memory.id for hit in product.search(large, question, load.NOW)]
    assert before
    building = threading.Event()

    def build() -> None:
        with admin(server, name) as conn, pytest.raises(psycopg.errors.QueryCanceled):
            conn.execute("set search_path = cems, public")
            conn.execute("set maintenance_work_mem = '1MB'")
            conn.execute("set statement_timeout = '1500ms'")
            building.set()
            conn.execute(
                "create index rebuilt on embedding using hnsw ((vector::halfvec(384)) halfvec_cosine_ops)"
                " where model_id = 'bge-small-en-v1.5-int8@384'"
            )

    thread = threading.Thread(target=build)
    thread.start()
    assert building.wait(10)
    assert [hit.memory.id for hit in product.search(large, question, load.NOW)] == before
    thread.join(30)
    assert not thread.is_alive()
    with admin(server, name) as conn:
        left = conn.execute("select 1 from pg_class where relname = 'rebuilt'").fetchall()
        invalid = conn.execute("select 1 from pg_index where not indisvalid").fetchall()
    assert (left, invalid) == ([], [])
    assert [hit.memory.id for hit in product.search(large, question, load.NOW)] == before


def test_without_its_index_search_gives_the_same(
    server: ServerInfo, two_projects: tuple[str, load.Load]
) -> None:
    name, made = two_projects
    asked = [
        Question("", made.vectors[row].tolist(), load.MODEL, [BIG], limit=5) for row in (11, 5000, 15_000)
    ]
    with (
        Database(Access(server.dsn("cems_owner", name), "cems_owner", OWNER)) as db,
        db.transaction() as conn,
    ):
        answers = []
        for _ in range(2):
            args = [
                product.arguments(q, product.read(q, load.NOW), load.NOW) | {"owner": OWNER} for q in asked
            ]
            answers.append([[row["id"] for row in product.run(conn, a)[:5]] for a in args])
            conn.execute("drop index if exists embedding_bge_small_384")
        assert answers[0] == answers[1]
        raise psycopg.Rollback


# ---- with the real embedder, over the sample sessions

UNRELATED = (
    "What is the capital of France?",
    "How do I bake sourdough bread at high altitude?",
    "Who won the football world cup in 1998?",
    "What should I feed a rabbit?",
    "How long does it take to learn the piano?",
    "Which planets have rings?",
    "What is the best way to remove a wine stain from a carpet?",
    "How do I train for a marathon?",
    "When were the pyramids built?",
    "What are the symptoms of the flu?",
    "How do I change a bicycle tyre?",
    "Which films did Hitchcock direct?",
    "What is the difference between a violin and a viola?",
    "How many calories are in an avocado?",
    "Where do penguins live?",
    "How do I write a wedding speech?",
    "What is a good present for my grandmother?",
    "Why is the sky blue?",
    "How do I grow tomatoes on a balcony?",
    "What does a quarterback do?",
)
RELATED = {
    "why did we reject memory mapping": "mmap-sigbus",
    "which hash function do we use and why": "blake3-over-xxh3",
    "unwrap in library code": "no-unwrap",
    "same file listed twice on windows": "same-file-two-spellings",
    "SIGBUS": "mmap-sigbus",
}


def sample_memories(db: Database) -> tuple[dict[uuid.UUID, str], LocalEmbedder]:
    """What a careful reader would keep of the sample sessions, stored with vectors; their ids and names."""
    embedder = LocalEmbedder(model_folder())
    expected = json.loads((sample_sessions.SAMPLES / "expected.json").read_text())
    kept = [memory for session in expected["sessions"].values() for memory in session.get("memories", [])]
    now, ids = load.NOW, {uuid.uuid5(OWNER, memory["id"]): memory["id"] for memory in kept}
    with db.transaction() as conn:
        for number, memory in enumerate(kept):
            values = (
                db.owner_id,
                uuid.uuid5(OWNER, memory["id"]),
                memory["kind"],
                memory["title"],
                memory["quote"],
            )
            conn.execute(
                "insert into memory (owner_id, id, layer, kind, title, body, terms, confidence, origin, author, content_hash,"
                " occurred_at, recorded_at, changed_at)"
                " values (%s, %s, 'observation', %s, %s, %s, %s, 0.8, 'user', 'rules', %s, %s, %s, %s)",
                (
                    *values,
                    memory_terms(memory["title"], memory["quote"]),
                    number.to_bytes(4, "big"),
                    now,
                    now,
                    now,
                ),
            )
    texts = [embeddings.embedded_text({"title": m["title"], "body": m["quote"], "around": ""}) for m in kept]
    vectors = list(zip(ids, embedder.embed_documents(texts), strict=True))
    embeddings.add(db, embedder.model_id, vectors, now)
    return ids, embedder


def test_questions_about_something_else_find_nothing_and_questions_about_them_find_them(
    db: Database, reader: Database
) -> None:
    ids, embedder = sample_memories(db)
    now = load.NOW + dt.timedelta(days=1)
    answers = {
        text: [
            ids[hit.memory.id]
            for hit in product.search(
                reader, Question(text, embedder.embed_query(text), embedder.model_id), now
            )
        ]
        for text in (*UNRELATED, *RELATED)
    }
    assert {text: found for text in UNRELATED if (found := answers[text])} == {}
    assert {text: name for text, name in RELATED.items() if name not in answers[text][:2]} == {}


def test_most_questions_about_something_else_find_nothing_by_words_alone(
    db: Database, reader: Database
) -> None:
    sample_memories(db)
    found = [text for text in UNRELATED if product.search(reader, Question(text), load.NOW)]
    assert len(found) <= 2, found
