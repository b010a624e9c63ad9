"""What `cems doctor` asks of the database: facts about the server, and trials of what each role may do, none of which leaves
anything behind."""

from __future__ import annotations

import psycopg

from db.connect import Database, Row
from db.queries import SQL

_WRITES = ("insert into {} default values", "delete from {}")


def server(db: Database) -> Row:
    """The server's version, pgvector's, its time, and who we are: version, pgvector, at, who."""
    return _one(db, "server")


def identity(db: Database) -> int:
    """Which database this is: another number where another one took over its name, as after a restore."""
    return int(_one(db, "identity")["id"])


def newest_times(db: Database) -> Row:
    """When a line and a memory were last stored, by the clock of who stored them: landed, recorded."""
    return _one(db, "newest_times")


def tables(db: Database) -> list[Row]:
    """The tables, whether rows are guarded by owner, and whether our role may update one: name, guarded, updatable."""
    with db.transaction() as conn:
        return conn.execute(SQL["health.tables"]).fetchall()


def invalid_indexes(db: Database) -> list[str]:
    """Indexes that a query does not use because they were not finished."""
    with db.transaction() as conn:
        return [row["name"] for row in conn.execute(SQL["health.invalid_indexes"]).fetchall()]


def sample_vector(db: Database, model_id: str) -> Row | None:
    """The newest vector of a model, and what it was made from: title, body, around, vector."""
    with db.transaction() as conn:
        args = {"owner": db.owner_id, "model": model_id}
        return conn.execute(SQL["health.sample_vector"], args).fetchone()


def may_write(db: Database, table: str) -> bool:
    """Whether an insert or a delete gets past the grants of this database's role. Each is tried in a transaction that never
    commits."""
    for statement in _WRITES:
        try:
            with db.transaction() as conn:
                conn.execute(statement.format(table).encode())
                raise psycopg.Rollback
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.ReadOnlySqlTransaction):
            continue
        except psycopg.Error:
            return True  # past the grants, and stopped by a constraint or a column
        return True
    return False


def _one(db: Database, name: str) -> Row:
    with db.transaction() as conn:
        row = conn.execute(SQL[f"health.{name}"], {"owner": db.owner_id}).fetchone()
    assert row is not None
    return row


def remove_owner(db: Database) -> None:
    """Delete every row of this database's owner; its role has to be `cems_owner`, which alone may."""
    with db.transaction() as conn:
        conn.execute(SQL["health.remove_owner"], {"owner": db.owner_id})
