"""Re-indexing: vectors of a new model while the old ones answer, the end of the old ones, and what has gone stale."""

from __future__ import annotations

import datetime as dt
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pgvector import Vector as Stored

from cems import home
from cems.errors import LostRace
from cems.providers import Embedder, Vector
from cems.providers.fake import HashEmbedder
from cems.redact import Redactor
from cems.settings import Settings
from db import changes, embeddings, lifecycle, memories, old_vectors, runs, serving, undoing
from db.connect import Connection, Database
from db.search import Question, search
from maintenance import vectors, wrong_vectors
from observer.capture import Capture
from tests.conftest import FakeClock
from tests.reindexing import NEW, OLD, Refusing, counts, reindex
from tests.rewriting import remember, rows
from tests.writing import Transcript, observe_all

ROOT = Path(__file__).parents[2]
TOPICS = ("kafka", "lighthouse", "varnish", "pelican", "marmalade", "quarry", "saffron", "trombone")


@pytest.fixture
def stored(db: Database, clock: FakeClock) -> list[uuid.UUID]:
    """Memories with vectors of the old model, of which each has a subject."""
    found = [
        remember(db, f"The {topic} of number {n}", f"All about the {topic}.")
        for n, topic in enumerate(TOPICS * 6)
    ]
    give(db, OLD, clock)
    return found


def give(db: Database, embedder: Embedder, clock: FakeClock) -> None:
    every = embeddings.missing(db, embedder.model_id, 10_000)
    vectors = embedder.embed_documents([embeddings.embedded_text(row) for row in every])
    embeddings.add(
        db, embedder.model_id, list(zip([r["id"] for r in every], vectors, strict=True)), clock.now()
    )


def ask(db: Database, clock: FakeClock, wanted: Embedder, word: str) -> tuple[str | None, list[str]]:
    """The model that answers, and the titles that the meaning of a word finds by it."""
    model = serving.serving_model(db, wanted.model_id)
    embedder = {e.model_id: e for e in (OLD, NEW)}[model or wanted.model_id]
    text = f"The {word}: All about the {word}."
    hits = search(db, Question(text, embedder.embed_query(text), embedder.model_id, dates=False), clock.now())
    return model, [hit.memory.title for hit in hits if hit.meaning_rank is not None]


def test_the_old_vectors_answer_until_the_new_ones_are_complete_and_then_go(
    db: Database,
    reader: Database,
    settings: Settings,
    clock: FakeClock,
    sql: Connection,
    stored: list[uuid.UUID],
) -> None:
    asked = 0

    def stop_after_two_chunks() -> bool:
        nonlocal asked
        made = counts(sql).get(NEW.model_id, 0)
        model, found = ask(reader, clock, NEW, TOPICS[made % len(TOPICS)])
        assert model == OLD.model_id and len(found) >= 5
        asked += 1
        return made >= 32

    clock.advance(60)
    job = reindex(db, settings, clock, NEW, stopping=stop_after_two_chunks)
    assert asked > 2 and job.report.waiting == 16
    assert counts(sql) == {OLD.model_id: 48, NEW.model_id: 32}
    assert ask(reader, clock, OLD, "kafka")[0] == OLD.model_id
    clock.advance(60)
    job = reindex(db, settings, clock, NEW)
    assert counts(sql) == {NEW.model_id: 48}
    assert job.report.changed == 16 + 48 and job.report.waiting == 0
    assert any("undoing does not bring them back" in note for note in job.report.notes)
    for word in TOPICS:
        model, found = ask(reader, clock, NEW, word)
        assert model == NEW.model_id and any(word in title for title in found)


def test_five_runs_are_as_good_as_one(
    db: Database, settings: Settings, clock: FakeClock, sql: Connection, stored: list[uuid.UUID]
) -> None:
    remember(db, "Unused for a year", days=-300, confidence=0.2)
    clock.advance(60)
    reindex(db, settings, clock)
    vectors = sql.execute("select * from embedding order by memory_id").fetchall()
    after = rows(db)
    for _ in range(4):
        clock.advance(86400)
        job = reindex(db, settings, clock)
        assert (job.report.changed, job.report.waiting, job.report.failed) == (0, 0, 0)
    assert rows(db) == after
    assert sql.execute("select * from embedding order by memory_id").fetchall() == vectors


@pytest.mark.parametrize(
    ("point", "hit"), [("after_vectors", 1), ("after_vectors", 3), ("mid_reindexing", 1), ("after_drop", 1)]
)
def test_killed_midway_the_next_run_does_the_rest(
    db: Database,
    clock: FakeClock,
    sql: Connection,
    environment: Mapping[str, str],
    stored: list[uuid.UUID],
    point: str,
    hit: int,
) -> None:
    stale = remember(db, "Unused for a year", days=-300, confidence=0.2)
    kept = {m: row for m, row in rows(db).items() if m != stale}

    def run(*arguments: str) -> int:
        command = [sys.executable, "-m", "tests.reindexing", "384", *arguments]
        return subprocess.run(command, cwd=ROOT, env=dict(environment), timeout=120, check=False).returncode

    assert run(point, str(hit)) == -signal.SIGKILL
    assert run() == 0
    assert counts(sql) == {NEW.model_id: 49}
    left = rows(db)
    assert left.pop(stale)["archived_at"] is not None
    assert left == kept
    assert [r["outcome"] for r in runs.history(db)] == ["done", "killed"]


def test_what_an_embedder_refuses_keeps_nothing_else_from_its_vector(
    db: Database, settings: Settings, clock: FakeClock, sql: Connection, stored: list[uuid.UUID]
) -> None:
    job = reindex(db, settings, clock, Refusing("pelican"))
    assert counts(sql) == {OLD.model_id: 48, NEW.model_id: 42}
    assert (job.report.failed, job.report.waiting, job.report.changed) == (6, 0, 42)
    assert any("stay until the 6 missing ones" in note for note in job.report.notes)


def test_a_few_memories_that_an_embedder_refuses_do_not_keep_the_old_model(
    db: Database, settings: Settings, clock: FakeClock, sql: Connection, stored: list[uuid.UUID]
) -> None:
    refusing = Refusing("of number 3:")  # one, among the oldest
    clock.advance(60)
    reindex(db, settings, clock, refusing, stopping=lambda: counts(sql).get(NEW.model_id, 0) >= 47)
    assert counts(sql) == {OLD.model_id: 48, NEW.model_id: 47}
    assert serving.serving_model(db, NEW.model_id) == NEW.model_id, "one less than the others"
    job = reindex(db, settings, clock, refusing)
    assert counts(sql) == {NEW.model_id: 47} and job.report.failed == 1


def test_a_text_that_changes_while_its_vector_is_made_gets_the_vector_of_what_it_says_then(
    db: Database, settings: Settings, clock: FakeClock, sql: Connection
) -> None:
    memory = remember(db, "The kafka runs on one host")

    class Meanwhile(HashEmbedder):
        def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
            if not self.texts:
                sql.execute(
                    "update memory set title = 'The kafka runs on two hosts', changed_at = %s where id = %s",
                    (clock.now(), memory),
                )
            return super().embed_documents(texts)

    reindex(db, settings, clock, Meanwhile())
    (row,) = embeddings.sample(db, NEW.model_id, 1, "")
    told = HashEmbedder().embed_query("The kafka runs on two hosts")
    assert wrong_vectors.dot(told, row["vector"].to_list()) > 0.999


def test_who_rests_ends_soon_when_told_to() -> None:
    asked = iter((False, False, True))
    vectors.rest(3600, lambda: next(asked))
    assert next(asked, None) is None


def wrong(db: Database, sql: Connection, memories: Sequence[uuid.UUID]) -> None:
    """Give memories the vector of other words."""
    with db.transaction() as conn:
        for memory in memories:
            conn.execute(
                "update embedding set vector = %s where memory_id = %s",
                (Stored(NEW.embed_query("nothing of the kind")), memory),
            )


@pytest.mark.parametrize(
    ("some", "removed"), [([], 0), ([-1], 1), ([-1, -2, -3], 3), (range(20, 48), 48), (range(48), 48)]
)
def test_vectors_that_are_not_of_their_words_are_made_anew(
    db: Database,
    settings: Settings,
    clock: FakeClock,
    sql: Connection,
    some: Sequence[int],
    removed: int,
) -> None:
    memories = [remember(db, f"The {topic} of number {n}") for n, topic in enumerate(TOPICS * 6)]
    give(db, NEW, clock)
    right = sql.execute("select memory_id, vector::text from embedding order by memory_id").fetchall()
    wrong(db, sql, [memories[n] for n in some])
    job = reindex(db, settings, clock, dry=True)
    assert job.report.changed == removed and counts(sql) == {NEW.model_id: 48}
    job = reindex(db, settings, clock)
    assert job.report.changed == 2 * removed, "removed, and made"
    assert sql.execute("select memory_id, vector::text from embedding order by memory_id").fetchall() == right
    assert reindex(db, settings, clock).report.changed == 0


def test_an_embedder_that_computes_wrongly_takes_no_vector_away(
    db: Database, settings: Settings, clock: FakeClock, sql: Connection
) -> None:
    class Broken(HashEmbedder):
        def embed_query(self, text: str) -> Vector:
            return super().embed_query("always the same")

    remember(db, "The kafka runs on one host")
    give(db, NEW, clock)
    job = reindex(db, settings, clock, Broken())
    assert job.report.changed == 0 and counts(sql) == {NEW.model_id: 1}
    assert any("computes wrongly" in note for note in job.report.notes)


def test_an_embedder_that_is_away_leaves_the_rest_for_the_next_run(
    db: Database, settings: Settings, clock: FakeClock, sql: Connection, stored: list[uuid.UUID]
) -> None:
    job = reindex(db, settings, clock, Refusing(away_after=20))
    assert counts(sql) == {OLD.model_id: 48, NEW.model_id: 16}
    assert job.report.waiting == 32 and any("away" in note for note in job.report.notes)
    assert reindex(db, settings, clock, None).report.changed == 0


def test_a_model_that_somebody_still_uses_stays(
    db: Database, settings: Settings, clock: FakeClock, sql: Connection, stored: list[uuid.UUID]
) -> None:
    """Two machines with different embedders share a database: they must not take each other's vectors."""
    give(db, NEW, clock)
    clock.advance(60)
    remember(db, "A new one")
    give(db, OLD, clock)
    job = reindex(db, settings, clock, NEW)
    assert counts(sql) == {OLD.model_id: 49, NEW.model_id: 49}
    assert any("somebody still makes them" in note for note in job.report.notes)
    clock.advance(8 * 86400)
    reindex(db, settings, clock, NEW)
    assert counts(sql) == {NEW.model_id: 49}


def test_a_dry_run_says_what_would_be_done_and_does_nothing(
    db: Database, settings: Settings, clock: FakeClock, sql: Connection, stored: list[uuid.UUID]
) -> None:
    stale = remember(db, "Unused for a year", days=-300, confidence=0.2)
    before = rows(db)
    job = reindex(db, settings, clock, dry=True)
    assert [(p.what, p.memories, p.title) for p in job.planned] == [
        ("archived", (stale,), "Unused for a year")
    ]
    assert any("49 vectors" in note for note in job.report.notes)
    assert rows(db) == before and counts(sql) == {OLD.model_id: 48}


def test_the_model_that_answers(db: Database, clock: FakeClock) -> None:
    assert serving.serving_model(db) is None
    assert serving.serving_model(db, "wanted") == "wanted"
    remember(db, "One")
    assert serving.serving_model(db, "wanted") == "wanted"
    give(db, OLD, clock)
    assert serving.serving_model(db, "wanted") == OLD.model_id == serving.serving_model(db)
    give(db, NEW, clock)
    assert serving.serving_model(db, NEW.model_id) == NEW.model_id
    assert serving.serving_model(db, OLD.model_id) == OLD.model_id, "both are complete: what is wanted"
    remember(db, "Two")
    give(db, NEW, clock)
    assert serving.serving_model(db, OLD.model_id) == NEW.model_id
    give(db, OLD, clock)
    assert serving.serving_model(db, OLD.model_id) == OLD.model_id, "the settings went back"


@pytest.mark.parametrize(
    ("fields", "gone"),
    [
        ({}, True),
        ({"shown_count": 9, "last_shown_at": dt.datetime(2026, 11, 1, tzinfo=dt.UTC)}, True),
        ({"layer": "reflection"}, True),
        ({"kind": "context"}, True),
        ({"confidence": 0.5}, False),
        ({"used_count": 1}, False),
        ({"pinned": True}, False),
        ({"kind": "preference"}, False),
        ({"author": "hand"}, False),
        ({"days": -100}, False),
        ({"recorded_at": dt.datetime(2026, 11, 1, tzinfo=dt.UTC)}, False),
        ({"changed_at": dt.datetime(2026, 11, 1, tzinfo=dt.UTC)}, False),
        ({"snoozed_until": dt.datetime(2027, 11, 1, tzinfo=dt.UTC)}, False),
    ],
)
def test_what_nobody_used_and_nobody_was_sure_of_is_archived(
    db: Database, settings: Settings, clock: FakeClock, fields: dict[str, Any], gone: bool
) -> None:
    memory = remember(db, "It may be so", **{"days": -200, "confidence": 0.3, **fields})
    before = rows(db)
    job = reindex(db, settings, clock, None)
    assert (rows(db)[memory]["archived_at"] is not None) == gone
    assert job.report.changed == gone
    assert job.run is not None
    if gone:
        assert [row["what"] for row in changes.of_run(db, job.run.id)] == ["archived"]
        assert undoing.undo(db, job.run.id, clock.now()) == 1
        assert rows(db) == before
        clock.advance(400 * 86400)
        reindex(db, settings, clock, None)
        assert rows(db) == before, "a person said no"


def test_undoing_gives_back_the_same_bytes_and_leaves_vectors_alone(
    db: Database, settings: Settings, clock: FakeClock, sql: Connection, stored: list[uuid.UUID]
) -> None:
    remember(db, "Unused for a year", days=-300, confidence=0.2)
    tables = ("memory", "memory_source", "tombstone", "line", "llm_call")

    def everything() -> list[Any]:
        return [sql.execute(f"select * from {t} order by 1, 2".encode()).fetchall() for t in tables]

    before = everything()
    clock.advance(60)
    job = reindex(db, settings, clock)
    assert job.run is not None and everything() != before
    undoing.undo(db, job.run.id, clock.now())
    assert everything() == before
    assert counts(sql) == {NEW.model_id: 49}


def test_case_M14_transcripts_that_are_gone_take_no_row_with_them(
    db: Database, settings: Settings, clock: FakeClock, config_dir: Path, sql: Connection
) -> None:
    told = Transcript(config_dir, "/work/alpha")
    for word in TOPICS:
        told.prompt(f"Always keep the {word} in its own file.")
        told.answer(f"From now on the {word} has a file of its own.")
    roots = [folder / "projects" for folder in settings.claude_dirs()]
    capturing = Capture(db, home.machine_id(settings.home), roots, Redactor(b"test"), clock)
    observe_all(db, capturing, clock)
    tables = ("memory", "memory_source", "line", "transcript", "session")

    def everything() -> list[Any]:
        return [sql.execute(f"select * from {t} order by 1, 2".encode()).fetchall() for t in tables]

    before = everything()
    assert len(before[0]) >= len(TOPICS) and len(before[2]) >= 2 * len(TOPICS)
    told.path.unlink()
    capturing.run_pass()
    sql.execute("delete from embedding")
    reindex(db, settings, clock)
    capturing.run_pass()
    assert everything() == before
    assert counts(sql) == {NEW.model_id: len(before[0])}


def test_case_M65_what_was_forgotten_gets_no_vector_and_loses_one_it_should_not_have(
    db: Database,
    reader: Database,
    settings: Settings,
    clock: FakeClock,
    sql: Connection,
    stored: list[uuid.UUID],
) -> None:
    gone = stored[3]
    lifecycle.forget(db, gone, clock.now())
    sql.execute(
        "insert into embedding select owner_id, %s, model_id, vector, content_hash, created_at from embedding limit 1",
        (gone,),
    )
    for embedder in (NEW, OLD):
        reindex(db, settings, clock, embedder)
        assert sql.execute("select 1 from embedding where memory_id = %s", (gone,)).fetchone() is None
    hits = search(reader, Question("The pelican of number 3", dates=False), clock.now())
    assert gone not in {hit.memory.id for hit in hits}


def test_case_R71_no_vector_can_stand_without_its_memory(
    db: Database, clock: FakeClock, stored: list[uuid.UUID]
) -> None:
    with pytest.raises(psycopg.errors.ForeignKeyViolation), db.transaction() as conn:
        conn.execute("update embedding set memory_id = %s where memory_id = %s", (uuid.uuid4(), stored[0]))
    lifecycle.erase(db, stored[0], clock.now())
    text = "The kafka: All about the kafka."
    hits = search(
        db, Question(text, OLD.embed_query(text), OLD.model_id, dates=False, limit=100), clock.now()
    )
    assert hits and stored[0] not in {hit.memory.id for hit in hits}
    for hit in hits:
        assert memories.show(db, hit.memory.id)[0].id == hit.memory.id


def test_a_run_that_was_taken_over_removes_nothing(
    db: Database, clock: FakeClock, sql: Connection, stored: list[uuid.UUID]
) -> None:
    run = runs.begin(db, "reindexing", asked_by="hand", described="here 1", now=clock.now(), host="here")
    clock.advance(600)
    runs.begin(db, "reindexing", asked_by="hand", described="there 1", now=clock.now(), host="there")
    with pytest.raises(LostRace):
        old_vectors.drop(db, run, OLD.model_id, 10, clock.now())
    with pytest.raises(LostRace):
        old_vectors.drop_forgotten(db, run, clock.now())
    assert counts(sql) == {OLD.model_id: 48}


def test_the_reader_can_ask_which_model_answers_and_can_remove_nothing(
    reader: Database, sql: Connection, stored: list[uuid.UUID]
) -> None:
    assert serving.serving_model(reader, NEW.model_id) == OLD.model_id
    sql.execute("set role cems_reader")
    for statement in (b"delete from embedding", b"update memory set archived_at = now()"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            sql.execute(statement)


def test_only_one_project_means_only_its_stale_memories(
    db: Database, settings: Settings, clock: FakeClock, sql: Connection
) -> None:
    from maintenance import reindexing
    from maintenance.job import Job
    from tests.rewriting import project

    one, two = (remember(db, f"Old {p}", of=p, days=-300, confidence=0.1) for p in ("alpha", "beta"))
    run = runs.begin(db, "reindexing", asked_by="hand", described="here 1", now=clock.now(), host="here")
    reindexing.run_once(Job(db, settings, clock, run, None, HashEmbedder(), project(db, "alpha")))
    found = rows(db)
    assert found[one]["archived_at"] is not None and found[two]["archived_at"] is None
    assert counts(sql) == {}
