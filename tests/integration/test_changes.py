"""Changes of maintenance: written whole, fenced, recorded row by row, and undone to the same bytes."""

from __future__ import annotations

import datetime as dt
import threading
import uuid
from typing import Any

import psycopg
import pytest
from pgvector import Vector

from cems.errors import AlreadyRunning, LostRace, NotFound
from cems.ids import short, uuid7
from cems.models import Observation
from db import changes, lifecycle, memories, old_vectors, runs, undoing
from db.changes import Change
from db.connect import Database, Row
from db.memories import HandWritten
from db.runs import Run
from db.undoing import UndoRefused

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


def made(*over: uuid.UUID) -> Change:
    reflection = uuid7()
    return Change(
        what="condensed",
        why="three of a kind",
        seen=dict.fromkeys(over, NOW),
        updates={m: {"superseded_by": reflection, "superseded_how": "condensed"} for m in over},
        made={
            "id": reflection, "layer": "reflection", "kind": "decision", "title": "A rule", "body": "Of all.",
            "confidence": 0.8, "origin": "user", "author": "rules", "content_hash": b"\x01" * 16, "occurred_at": NOW,
        },
        into=reflection,
        counts=over,
        links=over,
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
    assert undoing.undo(db, run.id, LATER, dry_run=True) == 4
    assert everything(db) == after
    assert undoing.undo(db, run.id, LATER) == 4
    assert everything(db) == before
    assert changes.undone_pairs(db, [one]) == {frozenset((one, two))}
    with pytest.raises(UndoRefused, match="undone before"):
        undoing.undo(db, run.id, LATER)


def test_counts_that_went_on_are_kept_when_undone(db: Database) -> None:
    one, two = add(db, "one", "two")
    run = begin(db)
    assert changes.apply(db, run, merge(one, two), LATER)
    runs.finish(db, run, "done", {}, LATER)
    with db.transaction() as conn:
        conn.execute("update memory set seen_count = 5, shown_count = 3 where id = %s", (one,))
    undoing.undo(db, run.id, LATER)
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
        undoing.undo(db, run.id, LATER)
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
        undoing.undo(db, first.id, LATER)
    lifecycle.forget(db, upon.made["id"], LATER)
    with pytest.raises(UndoRefused, match="forgotten"):
        undoing.undo(db, second.id, LATER)


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
        undoing.undo(db, second.id, late)


def observed(
    db: Database, title: str, at: dt.datetime, files: tuple[str, ...] = ("new.py",)
) -> memories.Stored:
    """The same content observed in a session."""
    seen = Observation("decision", title, f"Body of {title}.", (), files, 0.7, (), at, uuid.UUID(int=0))
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


def said_again(db: Database, of: uuid.UUID, title: str) -> uuid.UUID:
    """A source of a session for the memory that stands for this content; it is counted there."""
    assert observed(db, title, NOW, files=()).ids == [of]
    source = uuid7()
    with db.transaction() as conn:
        conn.execute(
            "insert into memory_source (owner_id, id, memory_id, quote, origin, recorded_at)"
            " values (%s, %s, %s, 'again', 'user', %s)",
            (db.owner_id, source, of, LATER),
        )
    return source


def test_what_was_said_again_of_what_a_run_condensed_goes_back_to_it_and_uses_are_let_go(
    db: Database,
) -> None:
    (one,) = add(db, "one")
    run, change = begin(db), made(one)
    assert changes.apply(db, run, change, LATER) and change.into
    runs.finish(db, run, "done", {}, LATER)
    source = said_again(db, change.into, "one")
    with db.transaction() as conn:
        conn.execute(
            "insert into memory_use (owner_id, memory_id, record_uuid, how, session_id, at, recorded_at)"
            " values (%s, %s, %s, 'shown', %s, %s, %s)",
            (db.owner_id, change.into, uuid7(), uuid7(), LATER, LATER),
        )
        conn.execute(
            "update memory set shown_count = 1, last_shown_at = %s where id = %s", (LATER, change.into)
        )
    undoing.undo(db, run.id, LATER)
    with db.transaction() as conn:
        left = conn.execute("select id, seen_count, superseded_by from memory").fetchall()
        sources = conn.execute("select memory_id, id = %s as again from memory_source", (source,)).fetchall()
    assert left == [{"id": one, "seen_count": 2, "superseded_by": None}]
    assert sorted((s["memory_id"], s["again"]) for s in sources) == [(one, False), (one, True)]


@pytest.mark.parametrize("with_source", [True, False])
def test_undo_is_refused_where_nobody_can_tell_which_of_several_was_said_again(
    db: Database, with_source: bool
) -> None:
    one, two = add(db, "one", "two")
    run, change = begin(db), made(one, two)
    assert changes.apply(db, run, change, LATER) and change.into
    runs.finish(db, run, "done", {}, LATER)
    if with_source:
        said_again(db, change.into, "two")
    else:
        observed(db, "two", NOW, files=())
    before = everything(db)
    with pytest.raises(UndoRefused, match=f"{short(change.into)}.* was said again"):
        undoing.undo(db, run.id, LATER)
    assert everything(db) == before


def test_undo_is_refused_where_what_was_replaced_was_observed_as_a_new_memory(db: Database) -> None:
    old, new = add(db, "old", "new")
    run = begin(db)
    replaced = Change(
        what="replaced",
        why="it is so no longer",
        seen={old: NOW, new: NOW},
        updates={old: {"superseded_by": new, "superseded_how": "replaced"}},
        into=new,
    )
    assert changes.apply(db, run, replaced, LATER)
    runs.finish(db, run, "done", {}, LATER)
    (again,) = observed(db, "old", LATER).ids
    before = everything(db)
    with pytest.raises(UndoRefused, match=f"{short(again)} says the same and is there"):
        undoing.undo(db, run.id, LATER)
    assert everything(db) == before


def test_a_made_memory_has_the_counts_of_the_moment_it_is_written(db: Database) -> None:
    one, two = add(db, "one", "two")
    run, change = begin(db), made(one, two)
    with db.transaction() as conn:  # a session counts on, which changes nothing else
        conn.execute("update memory set shown_count = 2, last_shown_at = %s where id = %s", (LATER, one))
        conn.execute("update memory set used_count = 1, last_used_at = %s where id = %s", (LATER, two))
    assert changes.apply(db, run, change, LATER)
    with db.transaction() as conn:
        row = conn.execute(
            "select seen_count, shown_count, used_count, last_shown_at, last_used_at from memory where id = %s",
            (change.into,),
        ).fetchone()
    assert row is not None and tuple(row.values()) == (2, 2, 1, LATER, LATER)


def test_a_run_that_wakes_after_another_one_took_over_and_ended_writes_nothing(db: Database) -> None:
    run, late = begin(db), NOW + dt.timedelta(minutes=3)
    second = begin(db, late)
    runs.finish(db, second, "done", {}, late)
    with pytest.raises(LostRace):
        runs.renew(db, run, late)
    begin(db, late)  # its lease did not stay with the one that woke


def test_a_lease_that_was_taken_again_is_not_enough_to_write(db: Database) -> None:
    one, two = add(db, "one", "two")
    for end in ("killed", "stopped"):
        run = begin(db)
        with db.transaction() as conn:
            conn.execute("update job_run set outcome = %s where id = %s", (end, run.id))
        with pytest.raises(LostRace):
            changes.apply(db, run, merge(one, two), LATER)
        with pytest.raises(LostRace):
            old_vectors.drop(db, run, "m", 10, LATER)
        with pytest.raises(LostRace):
            runs.renew(db, run, LATER)
        assert changes.of_run(db, run.id) == []


def test_a_run_that_could_not_be_written_down_does_not_hold_the_job(db: Database) -> None:
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        runs.begin(db, "consolidation", asked_by="hand", described="here", now=NOW, project=uuid7())
    assert begin(db)


def test_a_run_whose_process_died_can_be_undone_once_its_lease_is_over(db: Database) -> None:
    one, two = add(db, "one", "two")
    before = everything(db)
    run = begin(db)
    assert changes.apply(db, run, merge(one, two), LATER)
    with pytest.raises(UndoRefused, match="not ended"):
        undoing.undo(db, run.id, LATER)
    late = LATER + dt.timedelta(minutes=3)
    assert undoing.undo(db, run.id, late) == 2
    assert everything(db) == before
    (row,) = runs.history(db)
    assert (row["outcome"], row["finished_at"], row["undone_at"]) == ("killed", late, late)
    with pytest.raises(LostRace):
        changes.apply(db, run, merge(one, two), late)


def test_a_run_s_id_and_a_memory_s_are_found_by_a_part_of_them(db: Database) -> None:
    (one,) = add(db, "one")
    run = begin(db)
    assert runs.resolve_id(db, short(run.id)) == run.id and memories.resolve_id(db, short(one)) == one
    for resolve, noun in ((runs.resolve_id, "run"), (memories.resolve_id, "memory")):
        with pytest.raises(NotFound, match=f"no {noun} has"):
            resolve(db, "00000000")
        with pytest.raises(NotFound, match=f"is not the id of a {noun}"):
            resolve(db, "no")


def test_an_ordinary_day_does_not_keep_a_run_from_being_undone(db: Database) -> None:
    one, two = add(db, "one", "two")
    run = begin(db)
    assert changes.apply(db, run, merge(one, two), LATER)
    runs.finish(db, run, "done", {}, LATER)
    assert observed(db, "one", NOW - dt.timedelta(days=2)).seen_again == 1
    with db.transaction() as conn:
        conn.execute("update memory set confidence = 0.95, origin = 'user' where id = %s", (one,))
    undoing.undo(db, run.id, LATER)
    with db.transaction() as conn:
        row = conn.execute(
            "select body, files, confidence, superseded_by from memory where id = %s", (one,)
        ).fetchone()
    assert row is not None
    assert (row["body"], row["files"], row["superseded_by"]) == ("Body of one.", ["new.py"], None)
