"""Reported cases of storing: batches and vectors keep their count through expiry, restarts and changed models, clocks that
jump change nothing, and a value the database refuses costs that value only."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from cems import home
from cems.providers import GenerateRequest
from cems.providers.fake import HashEmbedder, ScriptedGenerator
from cems.settings import Settings
from db import embeddings, ingest
from db.connect import Connection, Database
from db.search import Question, search
from observer.batch import close_due
from observer.embed import Embedding
from observer.llm import LlmExtractor
from observer.start import capture
from tests.conftest import FakeClock
from tests.fault.answers import notes_in, observation
from tests.fault.here import CAPS, observing
from tests.fault.sessions import answer, count, landed_uuids, prompt, session_file, uuids, write

LEASE = dt.timedelta(minutes=5)


def every_note(request: GenerateRequest) -> dict[str, Any]:
    return {"observations": [observation(name, *found) for name, found in notes_in(request.prompt).items()]}


def waiting(db: Database, settings: Settings, clock: FakeClock, projects: Path, number: int) -> None:
    """So many batches of one note each."""
    for n in range(number):
        write(session_file(projects, f"s{n:03d}"), prompt(n), answer(n))
    capture(db, settings, clock).run_pass()
    assert close_due(db, clock.now(), batch_size=10**6, idle=dt.timedelta(0), once=True) == number


def test_case_S48_a_claim_of_the_dead_expires(
    db: Database, settings: Settings, clock: FakeClock, projects: Path, sql: Connection
) -> None:
    waiting(db, settings, clock, projects, 1)
    assert ingest.claim(db, clock.now(), LEASE)
    model = ScriptedGenerator(default=every_note)
    assert not observing(db, LlmExtractor(model), clock).run_one()
    clock.advance(299)
    assert not observing(db, LlmExtractor(model), clock).run_one()
    assert ingest.next_due(db) == clock.now() + dt.timedelta(seconds=1)
    clock.advance(2)
    assert observing(db, LlmExtractor(model), clock).run_one()
    assert count(sql, "select sum(seen_count) as n from memory") == 1


def test_case_S48_the_next_observer_of_the_machine_does_not_wait_for_that(
    db: Database, settings: Settings, clock: FakeClock, projects: Path, sql: Connection
) -> None:
    waiting(db, settings, clock, projects, 2)
    machine, other = home.machine_id(settings.home), home.machine_id(projects.parent)
    for claimer in (machine, other):
        assert ingest.claim(db, clock.now(), LEASE, claimer)
    assert ingest.free_claims(db, machine) == 1, "and another machine's claim is left alone"
    assert count(sql, "select sum(attempts) as n from batch") == 2, "what ended the process may be the batch"
    assert observing(db, LlmExtractor(ScriptedGenerator([every_note])), clock).run_one()
    assert ingest.free_claims(db, machine) == 0


def test_case_S49_a_restart_in_mid_drain_keeps_the_count(
    db: Database, settings: Settings, clock: FakeClock, projects: Path, sql: Connection
) -> None:
    waiting(db, settings, clock, projects, 300)
    model = ScriptedGenerator(default=every_note)
    for done in (0, 100, 200):
        observe = observing(db, LlmExtractor(model), clock)  # a new one each time
        for _ in range(100):
            assert observe.run_one()
        pending = count(sql, "select count(*) as n from batch where status = 'pending'")
        assert pending == 300 - done - 100
        assert count(sql, "select count(*) as n from batch") == 300
    assert not observing(db, LlmExtractor(model), clock).run_one()
    assert len(model.requests) == 300
    assert count(sql, "select count(*) as n from memory where seen_count = 1") == 300


class Named(HashEmbedder):
    """A model of a name, whose vectors may point the other way: the nearest to one model is the furthest to the other."""

    def __init__(self, name: str, sign: int) -> None:
        super().__init__(384)
        self._name, self._sign = name, sign

    @property
    def model_id(self) -> str:
        return self._name

    def embed_query(self, text: str) -> list[float]:
        return [self._sign * x for x in super().embed_query(text)]


def remember(db: Database, settings: Settings, clock: FakeClock, projects: Path, number: int) -> None:
    waiting(db, settings, clock, projects, number)
    observe = observing(db, LlmExtractor(ScriptedGenerator(default=every_note)), clock)
    while observe.run_one():
        pass


@pytest.mark.parametrize("dimensions", [1, 2000, 3072, 4096])
def test_case_S52_more_dimensions_than_an_index_takes(
    dimensions: int, db: Database, settings: Settings, clock: FakeClock, projects: Path, sql: Connection
) -> None:
    remember(db, settings, clock, projects, 3)
    embedder = HashEmbedder(dimensions)
    embedding = Embedding(db, lambda: embedder, clock, CAPS)
    while embedding.run_one():
        pass
    assert count(sql, "select count(*) as n from embedding") == 3
    found = search(db, Question("note n1", embedder.embed_query("note n1"), embedder.model_id), clock.now())
    assert "note n1" in [hit.memory.title for hit in found]


def test_case_S53_another_model_of_the_same_length(
    db: Database, settings: Settings, clock: FakeClock, projects: Path, sql: Connection
) -> None:
    remember(db, settings, clock, projects, 40)
    old, new = Named("old@384", 1), Named("new@384", -1)
    embedding = Embedding(db, lambda: old, clock, CAPS)
    while embedding.run_one():
        pass
    assert Embedding(db, lambda: new, clock, CAPS).run_one()  # and then it is killed
    behind = embeddings.count_missing(db, new.model_id)
    assert 0 < behind < 40
    for name in ("n1", "n39"):
        found = search(
            db, Question(f"note {name}", new.embed_query(f"note {name}"), new.model_id), clock.now()
        )
        assert f"note {name}" in [hit.memory.title for hit in found], "words find what has no vector yet"
    rest = Embedding(db, lambda: new, clock, CAPS)
    while rest.run_one():
        pass
    assert rest.embedded == behind, "only what was missing"
    assert count(sql, "select count(*) as n from embedding") == 80


def test_case_S54_what_failed_leaves_nothing_to_show_or_embed(
    db: Database, settings: Settings, clock: FakeClock, projects: Path, sql: Connection
) -> None:
    waiting(db, settings, clock, projects, 1)
    observe = observing(db, LlmExtractor(ScriptedGenerator(default={"nothing": "usable"})), clock)
    while observe.run_one():
        pass
    assert count(sql, "select count(*) as n from batch where status = 'set_aside'") == 1
    assert count(sql, "select count(*) as n from memory") == 0
    assert embeddings.count_missing(db, "any@1") == 0


def test_a_line_the_database_refuses_is_set_aside_alone(
    db: Database, settings: Settings, clock: FakeClock, projects: Path, sql: Connection
) -> None:
    sql.execute(b"alter table line add check (text not like '%note n13:%')")
    made = [r for n in range(10, 20) for r in (prompt(n), answer(n))]
    path = write(session_file(projects), *made)
    seen = capture(db, settings, clock)
    seen.run_pass()
    assert landed_uuids(sql) == [u for u in uuids(made) if u != made[6]["uuid"]]
    assert seen.report.lines_skipped == {"refused": 1}
    row = sql.execute(b"select reason, excerpt from set_aside").fetchone()
    assert row and row["reason"] == "refused" and "note n13:" in row["excerpt"]
    assert count(sql, 'select "offset" as n from transcript') == path.stat().st_size
    assert capture(db, settings, clock).run_pass() == 0


def test_an_observation_the_database_refuses_is_set_aside_alone(
    db: Database, settings: Settings, clock: FakeClock, projects: Path, sql: Connection
) -> None:
    sql.execute(b"alter table memory add check (title <> 'note n1')")
    waiting(db, settings, clock, projects, 3)
    observe = observing(db, LlmExtractor(ScriptedGenerator(default=every_note)), clock)
    while observe.run_one():
        pass
    assert count(sql, "select count(*) as n from memory") == 2
    assert count(sql, "select count(*) as n from batch where status = 'set_aside'") == 1
