"""What the search for memories that say the same reads: where there is something to look at, vectors as blocks of rows of
equal length, texts where there are no vectors, and whole memories. It writes nothing but marks."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from psycopg.rows import scalar_row

from cems.models import Kind, Layer, Origin
from db.connect import Database, Row
from db.queries import SQL

BLOCK = 2048
"""Vectors of a block at most."""
_VECTORS = [SQL["candidate.vectors"].replace(b"LOOKED", word) for word in (b"exists", b"not exists")]
_READING = {
    "idle_in_transaction_session_timeout": "0",  # between two blocks the reader takes its time
    "cursor_tuple_fraction": "1",  # all of it will be read
    "work_mem": "64MB",
}
_EPOCH = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)


@dataclasses.dataclass(frozen=True)
class Group:
    """Memories that may be compared with each other: one layer and kind of a project, or of what belongs to none."""

    project: uuid.UUID | None
    layer: Layer
    kind: Kind
    live: int
    unlooked: int
    """Of those that are live, how many are to be looked at."""


@dataclasses.dataclass(frozen=True)
class Block:
    """Vectors as they came, each with its memory."""

    ids: NDArray[np.void]
    """Sixteen bytes each."""
    changed: NDArray[np.int64]
    """Microseconds; see `moment`."""
    groups: NDArray[np.int32]
    """The number of each one's group, counted from 0."""
    vectors: NDArray[np.float32]


@dataclasses.dataclass(frozen=True)
class Member:
    """A live memory with all that a merge unites."""

    id: uuid.UUID
    project_id: uuid.UUID | None
    layer: Layer
    kind: Kind
    title: str
    body: str
    around: str
    concepts: list[str]
    files: list[str]
    confidence: float
    origin: Origin
    author: str
    occurred_at: dt.datetime
    changed_at: dt.datetime
    seen_count: int
    shown_count: int
    used_count: int
    last_shown_at: dt.datetime | None
    last_used_at: dt.datetime | None
    pinned: bool
    snoozed_until: dt.datetime | None
    valid_from: dt.datetime | None
    said_at: dt.datetime
    """When somebody last said it."""


def moment(microseconds: int) -> dt.datetime:
    """The time that a block's number stands for."""
    return _EPOCH + dt.timedelta(microseconds=microseconds)


def groups(db: Database, mark: str, project: uuid.UUID | None, layers: Sequence[Layer]) -> list[Group]:
    """Where a job of this mark has something to look at in some layers; `project`: only there."""
    args = {"owner": db.owner_id, "mark": mark, "project": project, "layers": list(layers)}
    with db.transaction() as conn:
        return [Group(**row) for row in conn.execute(SQL["candidate.groups"], args).fetchall()]


def vectors(
    db: Database, groups: Sequence[Group], mark: str, model: str, dimensions: int, *, unlooked: bool
) -> Iterator[Block]:
    """The vectors of some groups, of what is to be looked at or of what was; in no order. The transaction that reads them
    lasts until the last block was taken."""
    args = {
        "owner": db.owner_id,
        "projects": [group.project for group in groups],
        "layers": [group.layer for group in groups],
        "kinds": [group.kind for group in groups],
        "homeless": any(group.project is None for group in groups),
        "none": uuid.UUID(int=0),
        "mark": mark,
        "model": model,
        "dimensions": dimensions,
    }
    row = _row_type(dimensions)
    with (
        db.transaction(_READING) as conn,
        conn.cursor("vectors", binary=True, row_factory=scalar_row) as cursor,
    ):
        cursor.execute(_VECTORS[unlooked], args)
        while found := cursor.fetchmany(BLOCK):
            yield _decoded(np.frombuffer(b"".join(filter(None, found)), row))


def words(db: Database, group: Group, mark: str) -> list[Row]:
    """The texts of a group: id, changed_at, title, body, unlooked."""
    args = {
        "owner": db.owner_id,
        "project": group.project,
        "layer": group.layer,
        "kind": group.kind,
        "mark": mark,
    }
    with db.transaction() as conn:
        return conn.execute(SQL["candidate.words"], args).fetchall()


def members(db: Database, ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, Member]:
    """Those of some memories that are live."""
    with db.transaction() as conn:
        args = {"owner": db.owner_id, "ids": list(ids)}
        rows = conn.execute(SQL["candidate.members"], args).fetchall()
    return {row["id"]: Member(**row) for row in rows}


def mark(db: Database, names: Sequence[str], looked_at: Mapping[uuid.UUID, dt.datetime]) -> None:
    """Note under some names that memories were looked at as they are, or will be, when they changed last at that time."""
    args = {
        "owner": db.owner_id,
        "names": list(names),
        "ids": list(looked_at),
        "changed": list(looked_at.values()),
    }
    with db.transaction() as conn:
        conn.execute(SQL["candidate.mark"], args)


def _row_type(dimensions: int) -> np.dtype[np.void]:
    """A row of `candidate.vectors`; a vector is its dimensions, two bytes that mean nothing, and its numbers."""
    return np.dtype(
        [
            ("id", "V16"),
            ("changed", ">i8"),
            ("group", ">i4"),
            ("dimensions", ">i2"),
            ("unused", ">i2"),
            ("vector", ">f4", (dimensions,)),
        ]
    )


def _decoded(rows: NDArray[np.void]) -> Block:
    return Block(
        np.ascontiguousarray(rows["id"]),
        rows["changed"].astype(np.int64),
        rows["group"].astype(np.int32) - 1,
        rows["vector"].astype(np.float32),
    )
