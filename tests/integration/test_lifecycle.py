"""Pinning, snoozing, archiving, forgetting, restoring and erasing: what each does, what it refuses, and what holds then."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cems import home
from cems.errors import NotFound, UsageError
from cems.failpoint import armed
from cems.ids import short
from cems.redact import Redactor
from cems.settings import Settings
from db import changes, lifecycle, memories, runs, undoing
from db.changes import Change
from db.connect import Connection, Database
from db.lifecycle import Action, NotInThisState
from db.memories import HandWritten
from db.search import Question, search
from db.undoing import UndoRefused
from observer.capture import Capture
from tests.conftest import FakeClock
from tests.consolidating import Said, consolidate, say
from tests.reindexing import reindex
from tests.rewriting import remember, rows
from tests.writing import Transcript, observe_all

DAYS = dt.timedelta(days=1)
ACTIONS: tuple[Action, ...] = ("pin", "unpin", "snooze", "unsnooze", "archive", "forget", "restore")


def vector(sql: Connection, memory: uuid.UUID) -> None:
    sql.execute(
        "insert into embedding select owner_id, id, 'm@3', '[1,0,0]', content_hash, now() from memory where id = %s",
        (memory,),
    )


def found(db: Database, clock: FakeClock, text: str) -> list[uuid.UUID]:
    return [hit.memory.id for hit in search(db, Question(text, dates=False), clock.now())]


def test_a_pin_a_snooze_and_an_archiving_leave_text_vectors_and_marks_as_they_are(
    db: Database, clock: FakeClock, sql: Connection
) -> None:
    memory = remember(db, "The lighthouse is painted red")
    vector(sql, memory)
    before = rows(db)[memory]
    changes.mark(db, "consolidation", {memory: before["changed_at"]})
    lifecycle.pin(db, memory, clock.now())
    assert rows(db)[memory]["pinned"]
    lifecycle.unpin(db, memory, clock.now())
    lifecycle.snooze(db, memory, clock.now() + 30 * DAYS, clock.now())
    assert found(db, clock, "lighthouse") == []
    clock.advance(31 * 86400)
    assert found(db, clock, "lighthouse") == [memory]
    lifecycle.snooze(db, memory, clock.now() + DAYS, clock.now())
    lifecycle.unsnooze(db, memory, clock.now())
    assert found(db, clock, "lighthouse") == [memory]
    lifecycle.archive(db, memory, clock.now())
    assert found(db, clock, "lighthouse") == []
    after = rows(db)[memory]
    marked = sql.execute("select changed_at from job_mark where memory_id = %s", (memory,)).fetchone()
    assert marked is not None and marked["changed_at"] == after["changed_at"], "nobody has to look again"
    lifecycle.restore(db, memory, clock.now())
    assert found(db, clock, "lighthouse") == [memory]
    restored = rows(db)[memory]
    assert marked["changed_at"] <= restored["changed_at"]
    same = {k: v for k, v in restored.items() if k != "changed_at"}
    assert same == {k: v for k, v in before.items() if k != "changed_at"}
    assert sql.execute("select count(*) as n from embedding").fetchone() == {"n": 1}


def test_what_is_so_already_is_left_as_it_is(db: Database, clock: FakeClock) -> None:
    memory = remember(db, "One")
    until = clock.now() + DAYS
    todo: list[tuple[Action, Action]] = [
        ("pin", "unpin"), ("snooze", "unsnooze"), ("archive", "restore"), ("forget", "restore"),
    ]  # fmt: skip
    for there, back in todo:
        for action in (there, back):
            clock.advance(60)
            assert lifecycle.change(db, action, [memory], clock.now(), until=until) == [memory]
            before = rows(db)
            clock.advance(60)
            assert lifecycle.change(db, action, [memory, memory], clock.now(), until=until) == []
            assert rows(db) == before


def in_state(db: Database, clock: FakeClock, state: str) -> uuid.UUID:
    """A memory in a state; whether others are in the way is another matter."""
    other = remember(db, f"Another than {state}", days=1)
    fields: dict[str, dict[str, Any]] = {
        "live": {},
        "pinned": {"pinned": True},
        "archived": {"archived_at": clock.now()},
        "merged": {"superseded_by": other, "superseded_how": "merged"},
        "condensed": {"superseded_by": other, "superseded_how": "condensed"},
        "replaced": {"superseded_by": other, "superseded_how": "replaced"},
    }
    memory = remember(db, f"One that is {state}", **fields.get(state, {}))
    if state == "forgotten":
        lifecycle.forget(db, memory, clock.now())
    return memory


@pytest.mark.parametrize(
    ("state", "refused"),
    [
        ("live", []),
        ("pinned", ["archive"]),
        ("archived", ["pin", "snooze"]),
        ("forgotten", ["pin", "unpin", "snooze", "unsnooze", "archive"]),
        ("merged", ["pin", "snooze", "archive", "forget", "restore"]),
        ("condensed", ["pin", "snooze", "archive", "forget", "restore"]),
        ("replaced", ["pin", "snooze", "archive", "restore"]),
    ],
)
def test_what_a_state_does_not_allow_is_refused_with_a_word_on_what_to_do(
    db: Database, clock: FakeClock, state: str, refused: list[str]
) -> None:
    memory = in_state(db, clock, state)
    for action in ACTIONS:
        before = rows(db)
        try:
            lifecycle.change(db, action, [memory], clock.now(), until=clock.now() + DAYS, dry_run=True)
        except NotInThisState as error:
            assert action in refused
            assert short(memory) in str(error) and "cems m" in error.hint
            word = {"pinned": "pinned", "replaced": "replaced by"}.get(state, state)
            assert word in str(error)
        else:
            assert action not in refused
        assert rows(db) == before, "a dry run"


def test_several_are_changed_all_or_none(db: Database, clock: FakeClock) -> None:
    one, two, gone = remember(db, "One"), remember(db, "Two"), in_state(db, clock, "forgotten")
    before = rows(db)
    with pytest.raises(NotInThisState):
        lifecycle.change(db, "pin", [one, two, gone], clock.now())
    with pytest.raises(NotFound):
        lifecycle.change(db, "pin", [one, two, uuid.uuid4()], clock.now())
    with pytest.raises(UsageError):
        lifecycle.snooze(db, one, clock.now(), clock.now())
    assert rows(db) == before
    actions: tuple[Action, ...] = ("pin", "snooze", "archive", "forget", "erase")
    for action in actions:

        def die() -> None:
            raise KeyboardInterrupt

        armed["mid_lifecycle"] = die
        try:
            with pytest.raises(KeyboardInterrupt):
                lifecycle.change(db, action, [one, two], clock.now(), until=clock.now() + DAYS)
        finally:
            armed.clear()
        assert rows(db) == before
    assert lifecycle.change(db, "pin", [one, two], clock.now()) == [one, two]


def test_a_job_that_read_a_memory_before_it_was_pinned_does_not_write_it(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    memory = remember(db, "Unused for a year", days=-300, confidence=0.2)
    run = runs.begin(db, "reindexing", asked_by="hand", described="here 1", now=clock.now(), host="here")
    seen = {memory: rows(db)[memory]["changed_at"]}
    lifecycle.pin(db, memory, clock.now())
    change = Change("archived", "unused", seen, {memory: {"archived_at": clock.now()}})
    assert not changes.apply(db, run, change, clock.now())
    assert rows(db)[memory]["archived_at"] is None


def test_undoing_is_refused_after_a_pin_and_goes_on_after_it_is_taken_off(
    db: Database, settings: Settings, clock: FakeClock
) -> None:
    (one, two) = say(db, Said("We chose Postgres over SQLite"), Said("Chose Postgres over SQLite", day=1))
    before = rows(db)
    job = consolidate(db, settings, clock)
    assert job.run is not None
    kept = next(m for m in (one, two) if rows(db)[m]["superseded_by"] is None)
    lifecycle.pin(db, kept, clock.now())
    with pytest.raises(UndoRefused, match="pinned"):
        undoing.undo(db, job.run.id, clock.now())
    lifecycle.unpin(db, kept, clock.now())
    undoing.undo(db, job.run.id, clock.now())
    assert [{k: v for k, v in r.items() if k != "changed_at"} for r in rows(db).values()] == [
        {k: v for k, v in r.items() if k != "changed_at"} for r in before.values()
    ]


def everywhere(sql: Connection, word: str) -> list[str]:
    """Tables that hold a word in any column."""
    tables = sql.execute("select table_name as t from information_schema.tables where table_schema = 'cems'")
    return [
        row["t"]
        for row in tables.fetchall()
        if sql.execute(
            f"select 1 from {row['t']} t where t::text ilike %s limit 1".encode(), (f"%{word}%",)
        ).fetchone()
    ]


def joined(db: Database, clock: FakeClock) -> tuple[uuid.UUID, uuid.UUID, uuid.UUID]:
    """A memory that was merged into another, which has its words since; and the run that did it."""
    gone = remember(db, "We chose Postgres over SQLite", "Said at the marmalade meeting.")
    kept = remember(db, "Chose Postgres over SQLite", "It locks.", days=1)
    run = runs.begin(db, "consolidation", asked_by="hand", described="here 1", now=clock.now(), host="here")
    change = Change(
        what="merged",
        why="the same",
        seen={m: rows(db)[m]["changed_at"] for m in (gone, kept)},
        updates={
            kept: {"body": "It locks. Said at the marmalade meeting."},
            gone: {"superseded_by": kept, "superseded_how": "merged"},
        },
        into=kept,
        gives=[gone],
    )
    assert changes.apply(db, run, change, clock.now())
    runs.finish(db, run, "done", {}, clock.now())
    return gone, kept, run.id


def test_erasing_leaves_no_copy_in_what_runs_wrote_down(
    db: Database, clock: FakeClock, sql: Connection
) -> None:
    gone, kept, run = joined(db, clock)
    assert [r["id"] for r in lifecycle.derived(db, gone)] == [kept]
    assert lifecycle.derived(db, kept) == []
    assert lifecycle.belongings(db, kept)["merged_into_it"] == 1
    assert set(everywhere(sql, "marmalade")) == {"memory", "job_change"}
    lifecycle.erase(db, gone, clock.now())
    assert set(everywhere(sql, "marmalade")) == {"memory"}, "the survivor has its words; a person is told"
    with pytest.raises(UndoRefused, match="erased"):
        undoing.undo(db, run, clock.now())
    lifecycle.erase(db, kept, clock.now())
    assert everywhere(sql, "marmalade") == []


def test_erasing_both_at_once_in_either_order(db: Database, clock: FakeClock, sql: Connection) -> None:
    for order in (1, -1):
        gone, kept, _ = joined(db, clock)
        lifecycle.change(db, "erase", [gone, kept][::order], clock.now())
        assert everywhere(sql, "marmalade") == [] and rows(db) == {}
        sql.execute("delete from tombstone")


def test_erasing_after_an_undo_leaves_no_copy_under_the_other_one(
    db: Database, clock: FakeClock, sql: Connection
) -> None:
    gone, kept, run = joined(db, clock)
    undoing.undo(db, run, clock.now())
    lifecycle.erase(db, gone, clock.now())
    assert everywhere(sql, "marmalade") == []
    assert list(rows(db)) == [kept]


def test_what_was_merged_into_an_erased_memory_is_forgotten_and_what_it_replaced_is_archived(
    db: Database, clock: FakeClock, sql: Connection
) -> None:
    kept = remember(db, "The cache is Postgres")
    deep = remember(db, "The cache: Postgres, deep")
    merged = remember(db, "The cache: Postgres", superseded_by=kept, superseded_how="merged")
    sql.execute(
        "update memory set superseded_by = %s, superseded_how = 'merged' where id = %s", (merged, deep)
    )
    replaced = remember(db, "The cache is SQLite", superseded_by=kept, superseded_how="replaced")
    lifecycle.erase(db, kept, clock.now())
    left = rows(db)
    assert left[merged]["forgotten_at"] == clock.now() and left[merged]["superseded_by"] is None
    assert left[replaced]["archived_at"] == clock.now() and left[replaced]["superseded_by"] is None
    stored = memories.add_by_hand(db, [HandWritten("decision", "Else")], clock.now())
    assert stored.new == {"decision": 1}
    for memory in (merged, kept):
        row = sql.execute("select count(*) as n from tombstone where memory_id = %s", (memory,)).fetchone()
        assert row == {"n": 1}


def test_two_of_one_content_that_one_memory_replaced_do_not_keep_it_from_being_erased(
    db: Database, clock: FakeClock
) -> None:
    new = remember(db, "The cache is Postgres")
    old = remember(db, "The cache is SQLite", superseded_by=new, superseded_how="replaced")
    again = remember(db, "The cache is SQLite", superseded_by=new, superseded_how="replaced")
    lifecycle.erase(db, new, clock.now())
    left = rows(db)
    assert (left[old]["superseded_by"], left[again]["superseded_by"]) == (again, None)
    assert left[again]["archived_at"] is not None


def test_a_forgotten_one_is_not_restored_beside_another_that_says_the_same(
    db: Database, clock: FakeClock, sql: Connection
) -> None:
    old = remember(db, "The cache is SQLite")
    lifecycle.forget(db, old, clock.now())
    sql.execute("delete from tombstone")
    again = remember(db, "The cache is SQLite")
    with pytest.raises(NotInThisState, match=short(again)):
        lifecycle.restore(db, old, clock.now())


def test_case_M65_a_forgotten_memory_stays_forgotten_whatever_runs(
    db: Database, settings: Settings, clock: FakeClock, config_dir: Path, sql: Connection
) -> None:
    """Its transcript is read again as a new file, all jobs run, and the survivor of a merge is what was forgotten."""
    roots = [folder / "projects" for folder in settings.claude_dirs()]
    capturing = Capture(db, home.machine_id(settings.home), roots, Redactor(b"test"), clock)

    def tell(words: Sequence[str]) -> None:
        told = Transcript(config_dir, "/work/alpha")
        for word in words:
            told.prompt(f"From now on always keep the {word} in its own file.")
            told.answer("Done.")
        observe_all(db, capturing, clock)

    tell(["lighthouse", "quarry"])
    kept = next(m for m, row in rows(db).items() if "lighthouse" in row["title"])
    copy = remember(
        db,
        "Keep the lighthouse apart",
        kind="preference",
        project_id=rows(db)[kept]["project_id"],
        superseded_by=kept,
        superseded_how="merged",
    )
    lifecycle.forget(db, kept, clock.now())
    before = rows(db)[kept]
    for _ in range(3):
        tell(["lighthouse", "quarry"])
        reindex(db, settings, clock)
        consolidate(db, settings, clock)
        clock.advance(86400)
    assert rows(db)[kept] == before
    alive = [r for r in rows(db).values() if r["forgotten_at"] is None and r["superseded_by"] is None]
    assert alive and not any("lighthouse" in r["title"] for r in alive)
    assert found(db, clock, "lighthouse") == []
    lifecycle.restore(db, kept, clock.now())
    assert found(db, clock, "lighthouse") == [kept]
    assert rows(db)[copy]["superseded_by"] == kept


def test_the_lists_by_state(db: Database, clock: FakeClock) -> None:
    one = {
        state: in_state(db, clock, state) for state in ("live", "pinned", "archived", "merged", "forgotten")
    }
    late = remember(db, "Later", snoozed_until=clock.now() + DAYS)
    remember(db, "Not any more", snoozed_until=clock.now() - DAYS)
    assert lifecycle.in_state(db, "pinned", clock.now()) == [one["pinned"]]
    assert lifecycle.in_state(db, "archived", clock.now()) == [one["archived"]]
    assert lifecycle.in_state(db, "superseded", clock.now()) == [one["merged"]]
    assert lifecycle.in_state(db, "snoozed", clock.now()) == [late]
    standing = lifecycle.standing(db, one["merged"], clock.now())
    assert standing.superseded_how == "merged" and not standing.pinned
    with pytest.raises(NotFound):
        lifecycle.standing(db, uuid.uuid4(), clock.now())
