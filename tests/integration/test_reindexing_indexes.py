"""Re-indexing: indexes that are broken, missing, left over or empty are found and mended while searches go on."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psycopg
import pytest
from pgvector import Vector

from bench import search as load
from cems.settings import Settings
from db import embedded, indexes
from db.connect import Connection, Database
from db.embedded import ServerInfo
from db.search import Question, search
from tests.conftest import FakeClock
from tests.program import Program
from tests.reindexing import counts, invalid, reindex
from tests.rewriting import remember
from tests.waiting import wait_until

MODEL, INDEX = "bge-small-en-v1.5-int8@384", "embedding_bge_small_384"


def fill(sql: Connection, db: Database, number: int, *, seed: int = 1) -> None:
    """So many memories with vectors that have a shape, past every policy."""
    vectors = load.make(number, dimensions=384, seed=seed).vectors
    at = dt.datetime(2026, 11, 20, tzinfo=dt.UTC)
    columns = (
        "owner_id, id, layer, kind, title, body, confidence, origin, author, content_hash, occurred_at, recorded_at,"
        " changed_at"
    )
    ids = [uuid.uuid4() for _ in vectors]
    with sql.transaction():
        with sql.cursor().copy(f"copy memory ({columns}) from stdin".encode()) as copy:
            for memory in ids:
                values = (memory.hex[:8], "", 0.8, "user", "rules", memory.bytes, at, at, at)
                copy.write_row((db.owner_id, memory, "observation", "decision", *values))
        with sql.cursor().copy("copy embedding from stdin") as copy:
            for memory, vector in zip(ids, vectors, strict=True):
                copy.write_row((db.owner_id, memory, MODEL, Vector(vector).to_text(), b"x", at))
    sql.execute("analyze memory")
    sql.execute("analyze embedding")


def question(sql: Connection) -> Question:
    row = sql.execute("select vector::text as v from embedding limit 1").fetchone()
    assert row is not None
    return Question("", np.fromstring(row["v"].strip("[]"), sep=",").tolist(), MODEL)


def test_what_is_expected_is_there_and_sound(
    db: Database, settings: Settings, clock: FakeClock, sql: Connection
) -> None:
    found = {index.name: index for index in indexes.look(db)}
    assert set(indexes.expected()) <= set(found) and len(indexes.expected()) > 20
    assert all(index.valid for index in found.values())
    assert indexes.index_of(MODEL) == INDEX and indexes.index_of("fake-hash@384") is None
    assert indexes.orphans(db) == {}
    job = reindex(db, settings, clock)
    assert job.report.changed == 0 and job.report.waiting == 0
    row = sql.execute(
        "select last_analyze from pg_stat_user_tables where relname = 'memory' and schemaname = 'cems'"
    ).fetchone()
    assert row is not None and row["last_analyze"] is not None


def test_an_invalid_index_is_built_anew_and_a_missing_one_is_made(
    db: Database, settings: Settings, clock: FakeClock, sql: Connection
) -> None:
    definitions = "select indexname, indexdef from pg_indexes where schemaname = 'cems' order by 1"
    before = sql.execute(definitions).fetchall()
    sql.execute(
        "update pg_index set indisvalid = false where indexrelid in ('memory_live'::regclass, 'memory_pkey'::regclass)"
    )
    sql.execute("drop index embedding_gemini_2_768")
    sql.execute("drop index memory_same")
    dry = reindex(db, settings, clock, None, dry=True)
    assert dry.report.changed == 4 and len(invalid(sql)) == 2
    job = reindex(db, settings, clock, None)
    assert job.report.changed == 4 and job.report.waiting == 0
    assert {n.split(" ", 1)[0] for n in job.report.notes if n.endswith(("made", "anew"))} == {
        "memory_live", "memory_pkey", "embedding_gemini_2_768", "memory_same",
    }  # fmt: skip
    assert sql.execute(definitions).fetchall() == before
    assert invalid(sql) == []
    assert reindex(db, settings, clock, None).report.changed == 0


def test_an_index_that_misses_what_is_near_is_built_anew(
    db: Database, settings: Settings, clock: FakeClock, sql: Connection
) -> None:
    fill(sql, db, 1500)
    assert (share := indexes.recall(db, MODEL, "now")) is not None and share > 0.97
    sql.execute("update pg_index set indisready = false where indexrelid = %s::regclass", (INDEX,))
    fill(sql, db, 1500, seed=2)
    sql.execute("update pg_index set indisready = true where indexrelid = %s::regclass", (INDEX,))
    assert (share := indexes.recall(db, MODEL, "now")) is not None and share < 0.8
    job = reindex(db, settings, clock, None)
    assert any(note.startswith(f"{INDEX} finds") and note.endswith("built anew") for note in job.report.notes)
    assert job.report.failed == 0
    assert (share := indexes.recall(db, MODEL, "now")) is not None and share > 0.97


def test_an_error_of_any_kind_while_mending_is_raised_and_not_taken_for_success() -> None:
    def broken() -> None:
        raise RuntimeError("no thread for that")

    with pytest.raises(RuntimeError, match="no thread"), indexes._in_thread(broken) as ended:
        assert ended.wait(10)


def test_an_index_that_is_nearly_empty_gives_its_space_back(
    db: Database, settings: Settings, clock: FakeClock, sql: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(sql, db, 2000)
    (full,) = [i for i in indexes.look(db) if i.name == INDEX]
    assert full.bloat is not None and full.bloat < 0.2
    sql.execute("delete from embedding where memory_id not in (select id from memory order by id limit 200)")
    sql.execute("vacuum analyze embedding")
    (empty,) = [i for i in indexes.look(db) if i.name == INDEX]
    assert empty.bloat is not None and empty.bloat > 0.8
    monkeypatch.setattr("maintenance.indexes.WORTH", 2**20)
    job = reindex(db, settings, clock, None)
    assert any("is not needed: built anew" in note for note in job.report.notes)
    (small,) = [i for i in indexes.look(db) if i.name == INDEX]
    assert small.bytes < full.bytes / 5


@contextlib.contextmanager
def an_old_look(server: ServerInfo, dbname: str) -> Iterator[None]:
    """A transaction that has looked at the database and goes on: an index is not put in place before it ends."""
    with psycopg.connect(server.dsn(embedded.SUPERUSER, dbname)) as conn:
        conn.execute("set transaction isolation level repeatable read")
        conn.execute("select 1 from cems.embedding limit 1")
        yield


def rebuilding(sql: Connection) -> bool:
    row = sql.execute(
        "select count(*) as n from pg_stat_activity where query like 'reindex index concurrently%' and state = 'active'"
        " and wait_event_type = 'Lock'"
    ).fetchone()
    return bool(row and row["n"])


def test_case_R72_killed_while_an_index_is_built_reads_go_on_and_nothing_invalid_stays(
    server: ServerInfo,
    dbname: str,
    db: Database,
    reader: Database,
    environment: dict[str, str],
    tmp_path: Path,
    sql: Connection,
) -> None:
    """The memory for building is a fraction of what the index takes, too."""
    fill(sql, db, 3000)
    sql.execute(f"alter database {dbname} set maintenance_work_mem = '1MB'".encode())
    sql.execute("update pg_index set indisvalid = false where indexrelid = %s::regclass", (INDEX,))
    asked, now = question(sql), dt.datetime(2026, 12, 1, tzinfo=dt.UTC)
    program = Program(environment, tmp_path)
    with an_old_look(server, dbname), program.running("maintenance", "--job", "reindexing") as started:
        wait_until(lambda: rebuilding(sql), seconds=60)
        assert any("_ccnew" in name for name in invalid(sql))
        assert len(search(reader, asked, now)) == 10
        started.end(signal.SIGKILL)
        wait_until(lambda: not rebuilding(sql), seconds=20)  # the server notices that nobody is there
        assert any("_ccnew" in name for name in invalid(sql))
        assert len(search(reader, asked, now)) == 10
    done = program.json("maintenance", "--job", "reindexing")
    assert done["outcome"] == "done" and done["failed"] == 0
    assert invalid(sql) == []
    assert len(search(reader, asked, now)) == 10
    assert (share := indexes.recall(db, MODEL, "now")) is not None and share > 0.97


def test_asked_to_stop_it_stops_building_and_the_next_run_mends(
    server: ServerInfo, dbname: str, db: Database, settings: Settings, clock: FakeClock, sql: Connection
) -> None:
    fill(sql, db, 300)
    sql.execute("update pg_index set indisvalid = false where indexrelid = %s::regclass", (INDEX,))
    stop = threading.Event()
    with an_old_look(server, dbname):

        def stop_it() -> None:
            wait_until(lambda: rebuilding(sql))
            stop.set()

        threading.Thread(target=stop_it).start()
        began = time.monotonic()
        job = reindex(db, settings, clock, None, stopping=stop.is_set)
        assert time.monotonic() - began < 30
    assert job.report.waiting == 1 and any("stopped early" in note for note in job.report.notes)
    job = reindex(db, settings, clock, None)
    assert job.report.waiting == 0 and invalid(sql) == []


def test_without_the_rights_of_the_owner_indexes_are_only_looked_at(
    db: Database, db_url: str, settings: Settings, clock: FakeClock, sql: Connection
) -> None:
    sql.execute("update pg_index set indisvalid = false where indexrelid = %s::regclass", (INDEX,))
    remember(db, "One")
    url = f"{db_url}&options=-c%20role%3Dcems_writer"  # logs in as somebody who may write, and no more
    job = reindex(db, dataclasses.replace(settings, database_url=url), clock)
    assert job.report.waiting == 1 and sum(counts(sql).values()) == 1
    assert any("does not have the rights of cems_owner" in note for note in job.report.notes)
    assert any(f"reindex index concurrently cems.{INDEX}" in note for note in job.report.notes)
    assert invalid(sql) == [INDEX]


def test_the_roles_of_the_program_cannot_rebuild_by_themselves(reader: Database, db: Database) -> None:
    for role in (reader, db):
        with pytest.raises(psycopg.errors.InsufficientPrivilege), role.transaction() as conn:
            conn.execute(f"reindex index cems.{INDEX}".encode())


def test_what_names_others_that_are_gone_is_told(
    db: Database, settings: Settings, clock: FakeClock, sql: Connection
) -> None:
    kept, gone = remember(db, "Kept"), remember(db, "Gone")
    sql.execute("set session_replication_role = replica")  # as a restore in parts may leave it
    sql.execute(
        "insert into embedding values (%s, %s, 'm@3', '[1,0,0]', 'x', now())", (db.owner_id, uuid.uuid4())
    )
    sql.execute(
        "update memory set superseded_by = %s, superseded_how = 'merged' where id = %s", (uuid.uuid4(), kept)
    )
    sql.execute("update memory set forgotten_at = now() where id = %s", (gone,))
    sql.execute("set session_replication_role = origin")
    job = reindex(db, settings, clock, None)
    for what in (
        "1 vectors without a memory",
        "1 memories without what superseded them",
        "1 forgotten memories",
    ):
        assert any(note.startswith(what) for note in job.report.notes), what


def test_each_index_can_be_made_beside_the_work(sql: Connection) -> None:
    for name, statement in indexes.expected().items():
        sql.execute(f"drop index {name}".encode())
        sql.execute(statement.replace(" INDEX ", " INDEX CONCURRENTLY ", 1).encode())
    assert invalid(sql) == []
