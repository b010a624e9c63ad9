"""Changes of maintenance: written whole, fenced, recorded row by row, and undone to the same bytes."""

from __future__ import annotations

import datetime as dt
import threading
import uuid
from typing import Any

import pytest
from pgvector import Vector

from cems.errors import AlreadyRunning, LostRace
from cems.ids import uuid7
from cems.models import Observation
from db import changes, lifecycle, memories, runs
from db.changes import Change, UndoRefused
from db.connect import Database, Row
from db.memories import HandWritten
from db.runs import Run

NOW = dt.datetime(2026, 11, 30, 3, 0, tzinfo=dt.UTC)
LATER = NOW + dt.timedelta(minutes=1)
TABLES = ("memory", "memory_source", "embedding", "tombstone", "line")


def everything(db: Database) -> dict[str, list[Row]]:
    """Every stored row of what holds memories."""
    with db.transaction() as conn:
        return {
            t: conn.execute(
                f"select to_jsonb(t) as row from {t} t order by to_jsonb(t)::text".encode()
            ).fetchall()
            for t in TABLES
        }


def add(db: Database, *titles: str) -> list[uuid.UUID]:
    ids = memories.add_by_hand(db, [HandWritten("decision", t, f"Body of {t}.") for t in titles], NOW).ids
    vector = Vector([1.0] + [0.0] * 383)
    with db.transaction() as conn:
        for memory in ids:
            conn.execute(
                "insert into embedding (owner_id, memory_id, model_id, vector, content_hash, created_at)"
                " values (%s, %s, 'm', %s, '', %s)",
                (db.owner_id, memory, vector, NOW),
            )
            conn.execute(
                "insert into memory_source (owner_id, id, memory_id, quote, origin, recorded_at)"
                " values (%s, %s, %s, 'said', 'user', %s)",
                (db.owner_id, uuid7(), memory, NOW),
            )
    return ids


def begin(db: Database, now: dt.datetime = NOW) -> Run:
    return runs.begin(db, "consolidation", asked_by="hand", described="here", now=now)


def merge(into: uuid.UUID, other: uuid.UUID, **values: Any) -> Change:
    return Change(
        what="merged",
        why="the same",
        seen={into: NOW, other: NOW},
        updates={
            into: {"body": "Both bodies.", "seen_count": 2, **values},
            other: {"superseded_by": into, "superseded_how": "merged"},
        },
        into=into,
        gives=[other],
    )


def made(over: uuid.UUID) -> Change:
    reflection = uuid7()
    return Change(
        what="condensed",
        why="three of a kind",
        seen={over: NOW},
        updates={over: {"superseded_by": reflection, "superseded_how": "condensed"}},
        made={
            "id": reflection, "layer": "reflection", "kind": "decision", "title": "A rule", "body": "Of all.",
            "confidence": 0.8, "origin": "user", "author": "rules", "content_hash": b"\x01" * 16, "occurred_at": NOW,
        },
        into=reflection,
        links=[over],
    )  # fmt: skip


def test_a_merge_is_written_recorded_and_undone_to_the_same_bytes(db: Database) -> None:
    one, two, three = add(db, "one", "two", "three")
    before = everything(db)
    run = begin(db)
    assert changes.apply(db, run, merge(one, two), LATER)
    assert changes.apply(db, run, made(three), LATER)
    runs.finish(db, run, "done", {"changed": 2}, LATER)
    after = everything(db)
    assert after != before
    assert len(after["memory_source"]) == len(before["memory_source"]) + 2
    assert len(after["embedding"]) == len(before["embedding"]) - 1, "new words need a new vector"
    assert {row["what"] for row in changes.of_run(db, run.id)} == {"merged", "condensed"}
    assert [row["changes"] for row in runs.history(db)] == [2]
    assert changes.undo(db, run.id, LATER, dry_run=True) == 4
    assert everything(db) == after
    assert changes.undo(db, run.id, LATER) == 4
    assert everything(db) == before
    assert changes.undone_pairs(db, [one]) == {frozenset((one, two))}
    with pytest.raises(UndoRefused, match="undone before"):
        changes.undo(db, run.id, LATER)


def test_counts_that_went_on_are_kept_when_undone(db: Database) -> None:
    one, two = add(db, "one", "two")
    run = begin(db)
    assert changes.apply(db, run, merge(one, two), LATER)
    runs.finish(db, run, "done", {}, LATER)
    with db.transaction() as conn:
        conn.execute("update memory set seen_count = 5, shown_count = 3 where id = %s", (one,))
    changes.undo(db, run.id, LATER)
    with db.transaction() as conn:
        row = conn.execute(
            "select seen_count, shown_count, body from memory where id = %s", (one,)
        ).fetchone()
    assert row == {"seen_count": 4, "shown_count": 3, "body": "Body of one."}


@pytest.mark.parametrize(
    ("then", "word"),
    [
        ("update memory set pinned = true where id = %(one)s", "changed \\(pinned\\)"),
        ("update memory set body = 'another' where id = %(two)s", "changed \\(body\\)"),
    ],
)
def test_undo_is_refused_where_a_result_was_changed(db: Database, then: str, word: str) -> None:
    one, two = add(db, "one", "two")
    run = begin(db)
    changes.apply(db, run, merge(one, two), LATER)
    runs.finish(db, run, "done", {}, LATER)
    with db.transaction() as conn:
        conn.execute(then.encode(), {"one": one, "two": two})
    before = everything(db)
    with pytest.raises(UndoRefused, match=word):
        changes.undo(db, run.id, LATER)
    assert everything(db) == before


def test_undo_is_refused_after_forgetting_erasing_and_building_upon(db: Database) -> None:
    one, two, three, four = add(db, "one", "two", "three", "four")
    first = begin(db)
    changes.apply(db, first, merge(one, two), LATER)
    changes.apply(db, first, made(three), LATER)
    runs.finish(db, first, "done", {}, LATER)
    with db.transaction() as conn:
        row = conn.execute("select id, changed_at from memory where layer = 'reflection'").fetchone()
    assert row is not None
    second = begin(db)
    upon = made(four)
    assert upon.made is not None
    changes.apply(db, second, upon, LATER)
    with db.transaction() as conn:
        conn.execute("update memory set superseded_by = %s where id = %s", (row["id"], one))
    runs.finish(db, second, "done", {}, LATER)
    with pytest.raises(UndoRefused, match="stands on"):
        changes.undo(db, first.id, LATER)
    lifecycle.forget(db, upon.made["id"], LATER)
    with pytest.raises(UndoRefused, match="forgotten"):
        changes.undo(db, second.id, LATER)


def test_a_change_on_a_memory_that_changed_meanwhile_is_not_written(db: Database) -> None:
    one, two = add(db, "one", "two")
    run = begin(db)
    with db.transaction() as conn:
        conn.execute("update memory set changed_at = %s where id = %s", (LATER, two))
    before = everything(db)
    assert not changes.apply(db, run, merge(one, two), LATER)
    assert everything(db) == before


def test_a_row_that_is_being_written_is_left_alone_at_once(db: Database) -> None:
    one, two = add(db, "one", "two")
    run = begin(db)
    locked, done = threading.Event(), threading.Event()

    def hold() -> None:
        with db.transaction() as conn:
            conn.execute("update memory set used_count = 1 where id = %s", (two,))
            locked.set()
            done.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    assert locked.wait(10)
    assert not changes.apply(db, run, merge(one, two), LATER)
    done.set()
    thread.join()
    assert changes.apply(db, run, merge(one, two), LATER)


def test_one_run_of_a_job_at_a_time_and_a_dead_one_is_told(db: Database) -> None:
    one, two = add(db, "one", "two")
    run = begin(db)
    with pytest.raises(AlreadyRunning, match="here"):
        begin(db)
    late = NOW + dt.timedelta(minutes=3)
    second = begin(db, late)
    with pytest.raises(LostRace):
        changes.apply(db, run, merge(one, two), late)
    assert [r["outcome"] for r in runs.history(db)] == ["running", "killed"]
    with pytest.raises(UndoRefused, match="not ended"):
        changes.undo(db, second.id, late)


def observed(db: Database, title: str, at: dt.datetime) -> memories.Stored:
    """The same content observed in a session."""
    seen = Observation("decision", title, f"Body of {title}.", (), ("new.py",), 0.7, (), at, uuid.UUID(int=0))
    with db.transaction() as conn:
        stored = memories.Stored()
        memories._store_one(conn, db.owner_id, seen, None, "rules", None, at, stored)
    return stored


def test_what_is_observed_again_of_a_merged_memory_counts_for_the_one_it_lives_on_in(db: Database) -> None:
    one, two, three = add(db, "one", "two", "three")
    run = begin(db)
    assert changes.apply(db, run, merge(one, two), LATER)
    with db.transaction() as conn:
        conn.execute(
            "update memory set superseded_by = %s, superseded_how = 'merged' where id = %s", (three, one)
        )
        conn.execute("update memory set archived_at = now() where id = %s", (three,))
    stored = observed(db, "two", NOW)
    assert stored.ids == [three] and stored.seen_again == 1 and not stored.new
    with db.transaction() as conn:
        row = conn.execute(
            "select seen_count, files, archived_at from memory where id = %s", (three,)
        ).fetchone()
    assert row == {"seen_count": 2, "files": ["new.py"], "archived_at": None}
    lifecycle.forget(db, three, LATER)
    for content in ("one", "two", "three"):
        assert observed(db, content, NOW).forgotten == 1


def test_what_was_replaced_may_become_true_again(db: Database) -> None:
    one, two = add(db, "one", "two")
    with db.transaction() as conn:
        conn.execute(
            "update memory set superseded_by = %s, superseded_how = 'replaced' where id = %s", (two, one)
        )
    assert observed(db, "one", NOW).new == {"decision": 1}
