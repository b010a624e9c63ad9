"""The search for pairs finds what an exact comparison finds, in whatever parts it is done; and what became of merged content
is found by its hash."""

from __future__ import annotations

import itertools
import uuid

import numpy as np
import pytest

from cems.settings import Settings
from db import candidates as rows
from db import lifecycle
from db.connect import Connection, Database
from db.memories import content_hash
from db.successors import successor
from maintenance import candidates
from maintenance.candidates import Vectors, by_vectors
from tests.conftest import FakeClock
from tests.consolidating import EMBEDDER, PROJECT, Said, consolidate, live, say

HAVING = Vectors(EMBEDDER.model_id, 384, 0.92)
Pairs = set[frozenset[uuid.UUID]]


def scatter(db: Database, number: int = 90) -> tuple[list[uuid.UUID], np.ndarray, list[tuple[object, ...]]]:
    """Memories of two projects and kinds around a few centres; their vectors and groups."""
    chance = np.random.default_rng(4)
    centres = chance.normal(size=(6, 384))
    vectors = centres[chance.integers(0, 6, number)] + 0.29 * chance.normal(size=(number, 384))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    groups = [((PROJECT, None)[i % 2], ("decision", "context")[i // 2 % 2]) for i in range(number)]
    ids = say(
        db,
        *(
            Said(f"Memory {i}", kind=kind, project=project, vector=vectors[i].tolist())  # type: ignore[arg-type]
            for i, (project, kind) in enumerate(groups)
        ),
    )
    return ids, vectors, list(groups)


def search(db: Database, **given: object) -> tuple[Pairs, list[int]]:
    """All pairs that are found, and how many memories each pass looked at."""
    groups = rows.groups(db, "test", None, ["observation"])
    found = list(by_vectors(db, groups, "test", HAVING))
    pairs = [frozenset(pair[:2]) for one in found for pair in one.pairs]
    assert len(pairs) == len(set(pairs)), "each pair once"
    return set(pairs), [len(one.looked_at) for one in found]


@pytest.mark.parametrize(("room", "worth"), [(10**6, 512), (17, 512), (17, 1), (10**6, 1), (1000, 8)])
@pytest.mark.parametrize("looked", [0, 40, 88])
def test_every_near_pair_with_something_new_is_found_once(
    db: Database, monkeypatch: pytest.MonkeyPatch, room: int, worth: int, looked: int
) -> None:
    monkeypatch.setattr(candidates, "SLAB_BYTES", room * 4 * 384)
    monkeypatch.setattr(candidates, "_WORTH", worth)
    monkeypatch.setattr(candidates, "_STEP", 16)
    monkeypatch.setattr(rows, "BLOCK", 13)
    ids, vectors, groups = scatter(db)
    with db.transaction() as conn:
        conn.execute(
            "insert into job_mark select owner_id, 'test', id, changed_at from memory where id = any(%s)",
            (ids[:looked],),
        )
    cosines = vectors @ vectors.T
    truth = {
        frozenset((ids[a], ids[b]))
        for a, b in itertools.combinations(range(len(ids)), 2)
        if groups[a] == groups[b] and cosines[a, b] >= 0.92 and max(a, b) >= looked
    }
    found, passes = search(db)
    assert len(truth) > (20 if looked < 88 else 0)
    assert found == truth
    assert sum(passes) == len(ids) - looked
    assert max(passes) <= room


def test_vectors_of_other_models_sizes_and_dead_memories_take_no_part(db: Database) -> None:
    ids = say(db, *(Said(f"Memory {i}") for i in range(6)))
    with db.transaction() as conn:
        conn.execute("update embedding set model_id = 'other' where memory_id = %s", (ids[0],))
        conn.execute("update embedding set vector = '[1,0,0]' where memory_id = %s", (ids[1],))
        conn.execute("update memory set archived_at = now() where id = %s", (ids[2],))
        conn.execute("update memory set superseded_by = %s where id = %s", (ids[4], ids[3]))
    found, passes = search(db)
    assert found == {frozenset(ids[4:])}
    assert passes == [2]


def test_marks_hold_until_a_memory_changes(db: Database) -> None:
    ids = say(db, Said("Memory"), Said("Another"))
    rows.mark(db, ["test"], {row["id"]: row["changed_at"] for row in live(db)})
    assert rows.groups(db, "test", None, ["observation"]) == []
    with db.transaction() as conn:
        conn.execute("update memory set changed_at = now() where id = %s", (ids[1],))
    (group,) = rows.groups(db, "test", None, ["observation"])
    assert (group.live, group.unlooked) == (2, 1)
    assert search(db) == ({frozenset(ids)}, [1])


def follow(db: Database, title: str, body: str = "") -> object:
    with db.transaction() as conn:
        return successor(conn, db.owner_id, PROJECT, "decision", content_hash("decision", title, body))


def test_merged_content_leads_to_whom_it_counts_for(
    db: Database, settings: Settings, clock: FakeClock, sql: Connection
) -> None:
    one, two, three = say(
        db,
        *(
            Said(f"{verb} Postgres over SQLite", day=i)
            for i, verb in enumerate(("We chose", "Chose", "Picked"))
        ),
    )
    assert follow(db, "We chose Postgres over SQLite") is None
    for late, early in ((two, one), (three, two)):
        sql.execute(
            "update memory set superseded_by = %s, superseded_how = 'merged' where id = %s", (late, early)
        )
    assert follow(db, "We chose Postgres over SQLite") == three
    assert follow(db, "Chose Postgres over SQLite") == three
    assert follow(db, "Picked Postgres over SQLite") is None, "it stands for itself"
    assert follow(db, "Never seen") is None
    sql.execute("update memory set archived_at = now() where id = %s", (three,))
    assert follow(db, "Chose Postgres over SQLite") == three
    lifecycle.forget(db, three, clock.now())
    assert follow(db, "We chose Postgres over SQLite") == "forgotten"
    sql.execute("update memory set superseded_how = 'replaced' where id = %s", (two,))
    assert follow(db, "We chose Postgres over SQLite") is None, "it may have become true again"
    sql.execute("update memory set superseded_by = %s, superseded_how = 'merged' where id = %s", (one, two))
    assert follow(db, "We chose Postgres over SQLite") is None, "a circle leads nowhere"


def test_what_the_job_merged_leads_to_the_survivor(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    say(db, Said("We chose Postgres over SQLite"), Said("Chose Postgres over SQLite", day=1))
    consolidate(db, settings, clock)
    (kept,) = live(db)
    assert follow(db, "We chose Postgres over SQLite") == kept["id"]
