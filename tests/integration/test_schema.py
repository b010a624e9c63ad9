"""The schema: what the migrations add up to, who may do what, and that a program meets only its own version."""

from __future__ import annotations

import uuid
from pathlib import Path

import psycopg
import pytest

from cems.errors import SchemaOutdated, SchemaTooNew
from db import embedded, migrate
from db.connect import Access, Connection, Database, connect
from db.embedded import ServerInfo
from tests import schema_file
from tests.conftest import admin


def test_migrations_add_up_to_schema_sql(server: ServerInfo, dbname: str) -> None:
    home = (
        server.data.parent.parent
        if server.data.parent.name == "postgres"
        else Path(server.socket_dir).parent.parent
    )
    found = schema_file.dumped(server, home, dbname)
    if server.version.split(".")[0] != "18":
        pytest.skip("db/schema.sql is as Postgres 18 writes it")
    assert found == schema_file.PATH.read_text(), "run `make schema`"


def test_every_key_and_unique_index_begins_with_the_owner(sql: Connection) -> None:
    rows = sql.execute(
        "select c.relname as index, a.attname as first from pg_index i join pg_class c on c.oid = i.indexrelid"
        " join pg_class t on t.oid = i.indrelid join pg_namespace n on n.oid = t.relnamespace"
        " left join pg_attribute a on a.attrelid = t.oid and a.attnum = i.indkey[0]"
        " join pg_am m on m.oid = c.relam"
        " where n.nspname = 'cems' and m.amname = 'btree' and t.relname <> 'schema_migration'"
    ).fetchall()
    assert len(rows) > 25
    assert {r["index"] for r in rows if r["first"] != "owner_id"} == set()


def test_every_table_is_under_row_level_security(sql: Connection) -> None:
    rows = sql.execute(
        "select relname, relrowsecurity, relforcerowsecurity from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        " where n.nspname = 'cems' and relkind = 'r' and relname <> 'schema_migration'"
    ).fetchall()
    assert rows and all(r["relrowsecurity"] and r["relforcerowsecurity"] for r in rows)


def test_one_owner_sees_nothing_of_another(server: ServerInfo, dbname: str, db: Database) -> None:
    with db.transaction() as conn:
        conn.execute(
            "insert into lease values (%s, 'x', %s, 'me', now(), now())", (db.owner_id, uuid.uuid4())
        )
    with (
        Database(Access(server.dsn("cems_writer", dbname), "cems_writer", uuid.uuid4())) as other,
        other.transaction() as conn,
    ):
        assert conn.execute("select count(*) as n from lease").fetchone() == {"n": 0}
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute(
                "insert into lease values (%s, 'y', %s, 'me', now(), now())", (db.owner_id, uuid.uuid4())
            )


def test_without_an_owner_nothing_is_seen(sql: Connection, db: Database) -> None:
    with db.transaction() as conn:
        conn.execute(
            "insert into lease values (%s, 'x', %s, 'me', now(), now())", (db.owner_id, uuid.uuid4())
        )
        conn.execute("select set_config('cems.owner_id', '', true)")
        assert conn.execute("select count(*) as n from lease").fetchone() == {"n": 0}


FORBIDDEN = (
    "insert into tombstone values (gen_random_uuid(), 'x', null, gen_random_uuid(), now())",
    "update memory set pinned = true",
    "delete from memory",
    "truncate memory",
    "select text from line",
    "select last_error from batch",
    "select excerpt from set_aside",
    "select error from llm_call",
    "create temporary table t (a int)",
    "create table t (a int)",
    "select lo_create(0)",
    "select lo_from_bytea(0, 'x')",
    "select pg_read_file('/etc/passwd')",
    "copy memory to program 'cat'",
    "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'postgres'",
    "set role cems_writer",
    "alter table memory add x int",
    "create function f() returns int language sql as 'select 1'",
)


@pytest.mark.parametrize("statement", FORBIDDEN)
def test_case_X95_the_reader_cannot_write_whatever_it_sets(
    reader: Database, sql: Connection, statement: str
) -> None:
    assert sql.execute("select 1").fetchone()  # a superuser's session is there, to be attacked
    with connect(reader.access) as conn:
        conn.execute("set default_transaction_read_only = off")
        conn.execute("set statement_timeout = 0")
        conn.execute("select set_config('cems.owner_id', %s, false)", (str(reader.owner_id),))
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute(statement.encode())


def test_the_writer_deletes_only_where_erasing_needs_it(sql: Connection) -> None:
    rows = sql.execute(
        "select grantee, table_name, string_agg(privilege_type, ',' order by privilege_type) as may"
        " from information_schema.role_table_grants where table_schema = 'cems' and grantee like 'cems_%er'"
        " and grantee <> 'cems_owner' group by 1, 2"
    ).fetchall()
    grants = {(r["grantee"], r["table_name"]): r["may"] for r in rows}
    deletes = {table for (who, table), may in grants.items() if who == "cems_writer" and "DELETE" in may}
    assert deletes == {"memory", "memory_source", "embedding", "tombstone", "lease"}
    assert {may for (who, _), may in grants.items() if who == "cems_reader"} == {"SELECT"}
    assert {t for who, t in grants if who == "cems_reader"} == {
        "project",
        "session",
        "memory",
        "memory_source",
        "embedding",
        "schema_migration",
    }


def test_a_program_meets_only_its_own_schema(server: ServerInfo, dbname: str) -> None:
    with admin(server, dbname) as conn:
        migrate.check(conn)
        newest = migrate.current_version(conn)
        conn.execute("update cems.schema_migration set version = version + 1 where version = %s", (newest,))
        with pytest.raises(SchemaTooNew):
            migrate.check(conn)
        with pytest.raises(SchemaTooNew):
            migrate.migrate(conn)
        conn.execute("delete from cems.schema_migration where version > %s", (newest - 1,))
        with pytest.raises(SchemaOutdated):
            migrate.check(conn)


@pytest.mark.parametrize(("vector", "fits"), [("[0,0]", False), ("[2,0]", False), ("[0.6,0.8]", True)])
def test_only_unit_vectors_are_stored(sql: Connection, vector: str, fits: bool) -> None:
    row = sql.execute(
        "select public.vector_norm(%s::public.vector) between 0.99 and 1.01 as fits", (vector,)
    ).fetchone()
    assert row == {"fits": fits}
    check = sql.execute(
        "select pg_get_constraintdef(oid) as def from pg_constraint where conrelid = 'embedding'::regclass and contype = 'c'"
    ).fetchone()
    assert check and "vector_norm" in check["def"]


def test_roles_can_be_prepared_again_and_again(server: ServerInfo, dbname: str) -> None:
    with admin(server, dbname) as conn:
        for _ in range(2):
            migrate.prepare(conn)
            assert migrate.migrate(conn) == []


def test_the_embedded_superuser_is_who_it_says(server: ServerInfo) -> None:
    assert embedded.SUPERUSER == "postgres"
