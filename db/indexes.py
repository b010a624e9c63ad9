"""The indexes of the database: which there should be, how they are, whether the index of a model's vectors finds what is near,
and rebuilding them while everything goes on. Looking needs the writer's role; rebuilding needs the rights of the tables' owner
and a connection without a transaction, which a `Mender` holds."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from types import TracebackType
from typing import Any

import psycopg

from cems.settings import Settings
from db import access, search
from db.connect import Connection, Database, connect, set_for_transaction
from db.queries import SQL

_MADE = re.compile(r"^CREATE (?:UNIQUE )?INDEX (\w+) ON cems\.(\w+) .*;$", re.M)
_LEFTOVER = re.compile(r"\w+_cc(?:new|old)\d*")
"""How Postgres calls what a rebuilding that was killed leaves behind."""
TEN = 10
NEAR = 1e-6
"""Cosine distance within which two neighbours count as equally near."""
PAGE = 8192
_LINKS = 16
"""Of a vector in its index (pgvector's `m`)."""


@dataclasses.dataclass(frozen=True)
class Index:
    """An index as it is."""

    name: str
    table: str
    valid: bool
    bytes: int
    entries: float
    """As of the last statistics."""
    bloat: float | None
    """The share of it that a rebuilt one would not need, as an estimate; None where nobody can tell."""

    @property
    def leftover(self) -> bool:
        """Whether a rebuilding that was killed left it."""
        return not self.valid and _LEFTOVER.fullmatch(self.name) is not None


def expected() -> dict[str, str]:
    """The indexes there should be besides those of keys: name and the statement that makes it."""
    schema = (resources.files("db") / "schema.sql").read_text("utf-8")
    return {found[1]: found[0].rstrip(";") for found in _MADE.finditer(schema)}


def index_of(model: str) -> str | None:
    """The index of a model's vectors, or None where they are compared one by one."""
    return next((name for name, made in expected().items() if f"'{model}'::text" in made), None)


def look(db: Database) -> list[Index]:
    """Every index, by name."""
    with db.transaction() as conn:
        rows = conn.execute(SQL["reindex.indexes"]).fetchall()
    names = ("name", "table", "valid", "bytes", "entries")
    return [Index(**{name: row[name] for name in names}, bloat=_bloat(row)) for row in rows]


def _bloat(row: Mapping[str, Any]) -> float | None:
    """The share of an index that is not needed. An ordered index is filled to nine tenths and keeps equal keys once, which is
    left out: it is rather taken for too full than for too empty. A vector takes its numbers, its links and their headers."""
    if row["method"] == "btree":
        needed = row["entries"] * (row["width"] + 16) / 0.9
    elif row["method"] == "hnsw" and row["dimensions"] > 0:
        each = 2 * row["dimensions"] + 8 + 76 + 6 * 2 * _LINKS + 24 + 8
        needed = row["entries"] / max((PAGE - 32) // each, 1) * PAGE
    else:
        return None
    return float(max(0.0, 1 - (needed + 2 * PAGE) / row["bytes"])) if row["bytes"] > 2 * PAGE else 0.0


def orphans(db: Database) -> dict[str, int]:
    """What should not be there: rows that name others which are gone, and the like; those that are none are left out."""
    with db.transaction() as conn:
        row = conn.execute(SQL["reindex.orphans"], {"owner": db.owner_id}).fetchone()
    return {what: number for what, number in (row or {}).items() if number}


def recall(db: Database, model: str, seed: str, sample: int = 20) -> float | None:
    """The share of the ten nearest of some stored vectors that the model's index finds, as a search asks it; None where the
    model has no index, or there are no vectors.

    Args:
        seed: another one looks at other vectors.
    """
    if model not in search.INDEXED:
        return None
    text = SQL["reindex.nearest"].replace(b"DIMENSIONS", b"%d" % search.INDEXED[model])
    nearest = text.replace(b"'MODEL'", b"'%s'" % model.encode())
    args = {"owner": db.owner_id, "model": model, "seed": seed, "sample": sample, "limit": TEN}
    # A plan that is kept would outlive the settings by which the two are told apart.
    told = {**search.settings(search.TUNING), "plan_cache_mode": "force_custom_plan"}
    with db.transaction(told) as conn:
        asked = conn.execute(SQL["reindex.canaries"], args).fetchall()
        shares = []
        for canary in asked:
            args["vector"] = canary["vector"]
            set_for_transaction(conn, _BY_INDEX)
            found = _distances(conn, nearest, args)
            set_for_transaction(conn, _ONE_BY_ONE)
            exact = sorted(_distances(conn, nearest, args).values())
            shares.append(sum(d <= exact[-1] + NEAR for d in found.values()) / len(exact))
    return sum(shares) / len(shares) if shares else None


def _distances(conn: Connection, nearest: bytes, args: Mapping[str, Any]) -> dict[uuid.UUID, float]:
    return {row["id"]: row["distance"] for row in conn.execute(nearest, args).fetchall()}


_ONE_BY_ONE = {
    "enable_indexscan": "off", "enable_indexonlyscan": "off", "enable_seqscan": "on", "enable_sort": "on",
}  # fmt: skip
_BY_INDEX = {
    "enable_indexscan": "on", "enable_indexonlyscan": "on", "enable_seqscan": "off", "enable_sort": "off",
}  # fmt: skip


class Stopped(Exception):
    """The work was given up because it was asked to."""


class Mender:
    """A connection with the rights of the tables' owner, outside any transaction. Use as a context manager.

    What it does takes no lock that a reader or a writer waits for, one processor at most, and ends by itself within a second
    when this process dies.
    """

    def __init__(self, settings: Settings) -> None:
        """Raises:
        DatabaseUnavailable: nothing answers.
        """
        self._conn = connect(access.access(settings, "cems_owner", start=False))
        self._conn.execute(
            "select set_config('lock_timeout', '60s', false), set_config('statement_timeout', '0', false),"
            # One process: the searches meanwhile keep their processors, and no shared memory is asked for.
            " set_config('max_parallel_maintenance_workers', '0', false),"
            # Enough for 200,000 vectors; what does not fit is built more slowly, not refused.
            " set_config('maintenance_work_mem', '256MB', false)"
        )
        with contextlib.suppress(psycopg.errors.InvalidParameterValue):  # not on every system
            self._conn.execute("select set_config('client_connection_check_interval', '1s', false)")

    def __enter__(self) -> Mender:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._conn.close()

    @property
    def may(self) -> bool:
        """Whether it has those rights."""
        row = self._conn.execute(SQL["reindex.may_mend"]).fetchone()
        return bool(row and row["may"])

    def make(self, statement: str, stopping: Callable[[], bool]) -> None:
        """Make an index that is missing; see `rebuild`."""
        self._run(statement.replace(" INDEX ", " INDEX CONCURRENTLY ", 1), stopping)

    def rebuild(self, index: str, stopping: Callable[[], bool]) -> None:
        """Build an index anew and put it in the place of the old one, which serves until then.

        Raises:
            Stopped: asked to stop; something invalid may be left, which `drop` removes.
            psycopg.errors.LockNotAvailable: somebody was in the way for a minute.
        """
        self._run(f"reindex index concurrently cems.{_named(index)}", stopping)

    def drop(self, index: str, stopping: Callable[[], bool]) -> None:
        """Remove what a rebuilding left; see `rebuild`."""
        assert _LEFTOVER.fullmatch(index)
        self._run(f"drop index concurrently if exists cems.{_named(index)}", stopping)

    def analyze(self, table: str, stopping: Callable[[], bool]) -> None:
        """Refresh a table's statistics."""
        self._run(f"analyze cems.{_named(table)}", stopping)

    def _run(self, statement: str, stopping: Callable[[], bool]) -> None:
        with _in_thread(lambda: self._conn.execute(statement.encode())) as ended:
            while not ended.wait(0.2):
                if stopping():
                    self._conn.cancel_safe(timeout=2)
                    ended.wait(5)
                    raise Stopped


@contextlib.contextmanager
def _in_thread(work: Callable[[], object]) -> Iterator[threading.Event]:
    """Run something beside the block; the event says that it has ended, and its error is raised at the block's end."""
    ended, errors = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - a thread's outermost level: who waits for it raises it on
            errors.append(error)
        finally:
            ended.set()

    threading.Thread(target=run, name="mending", daemon=True).start()
    yield ended
    if errors:
        raise errors[0]


def _named(name: str) -> str:
    """A name that came out of the catalogue or of a statement of ours, and can be written as it is."""
    assert re.fullmatch(r"\w+", name)
    return name
