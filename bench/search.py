"""Search in the database: how long it takes over 100,000 memories in 50 projects of very different sizes, and how much of what
an exact scan finds the vector index finds, in big projects and tiny ones.

The load is made from a seed: projects by Zipf's law, words drawn from a vocabulary by Zipf's law with some of each project's
own, vectors of 384 around random centres. Questions are words of a memory and a vector near its own, filtered to its project;
so big projects are asked about as often as they are big. The reference is an exact scan of the project's vectors in the
same run.

    python bench/search.py [--quick] [--json]
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import math
import random
import shutil
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from pgvector import Vector

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.measure import Result, finish, options
from db import embedded, migrate
from db import search as product
from db.connect import Access, Connection, Database, connect
from db.embedded import ServerInfo

OWNER = uuid.UUID(int=1)
MODEL = "bge-small-en-v1.5-int8@384"
NOW = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)
LIMIT_MS = 15


@contextlib.contextmanager
def private_database() -> Iterator[tuple[Database, ServerInfo]]:
    """A database of the bench's own, with the schema; the writer's way in."""
    home = Path(tempfile.mkdtemp(prefix="cems-bench-", dir="/tmp"))
    settings = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
    server = embedded.start(home, settings=settings)
    try:
        with superuser(server) as conn:
            migrate.prepare(conn)
            migrate.allow_login(conn)
            migrate.migrate(conn)
        with role(server, "cems_writer") as db:
            yield db, server
    finally:
        embedded.stop(home, mode="immediate")
        shutil.rmtree(home, ignore_errors=True)


def superuser(server: ServerInfo) -> Connection:
    """A connection past every policy."""
    return connect(Access(server.dsn(embedded.SUPERUSER, "postgres"), "cems_owner", OWNER))


def role(server: ServerInfo, name: str) -> Database:
    """A role's way in."""
    assert name in ("cems_writer", "cems_reader")
    return Database(Access(server.dsn(name, "postgres"), name, OWNER))  # type: ignore[arg-type]


@dataclasses.dataclass(frozen=True)
class Load:
    """Memories made from a seed."""

    projects: list[uuid.UUID]
    project: np.ndarray[Any, np.dtype[np.int64]]
    """Each memory's project, by number."""
    vectors: np.ndarray[Any, np.dtype[np.float32]]
    texts: list[str]


def make(rows: int, projects: int = 50, dimensions: int = 384, seed: int = 7) -> Load:
    """A load of so many memories."""
    numbers = np.random.default_rng(seed)
    chance = 1 / np.arange(1, projects + 1) ** 1.2
    project = numbers.choice(projects, size=rows, p=chance / chance.sum())
    vectors = _vectors(numbers, project, rows, dimensions)
    vocabulary, words = 30_000, random.Random(seed)
    frequent = [1 / (i + 30) for i in range(vocabulary)]
    common = [_word(i) for i in range(vocabulary)]
    drawn = words.choices(common, frequent, k=rows * 40)
    texts = []
    for row in range(rows):
        own = [f"{_word(int(project[row]) * 400 + words.randrange(400))}q" for _ in range(8)]
        texts.append(" ".join(drawn[row * 40 : row * 40 + 40] + own))
    return Load([uuid.UUID(int=1000 + i) for i in range(projects)], project, vectors, texts)


def _vectors(numbers: np.random.Generator, project: Any, rows: int, dimensions: int) -> Any:
    """Unit vectors around subjects, some shared and some a project's own. As with texts, few directions matter: 24 hidden
    dimensions, and a little noise in all."""
    hidden = 24
    subjects = numbers.normal(size=(rows // 40, hidden))
    places = numbers.normal(size=(int(project.max()) + 1, hidden))
    which = (numbers.integers(0, len(subjects), size=rows) // 50 * 50 + project) % len(subjects)
    inner = subjects[which] + 0.5 * places[project] + 0.6 * numbers.normal(size=(rows, hidden))
    spread = numbers.normal(size=(hidden, dimensions)) / dimensions**0.5
    vectors = inner @ spread + 0.02 * numbers.normal(size=(rows, dimensions))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def _word(number: int) -> str:
    """A pronounceable word for each number."""
    out = ""
    number += 21
    while number:
        number, digit = divmod(number, 105)
        out += "bcdfghjklmnprstvwxyzq"[digit % 21] + "aeiou"[digit // 21]
    return out


def fill(conn: Connection, load: Load) -> None:
    """Copy it in; the vector index is built afterwards."""
    conn.execute("set search_path = cems, public")
    row = conn.execute("select pg_get_indexdef('embedding_bge_small_384'::regclass) as made").fetchone()
    assert row is not None
    conn.execute("drop index embedding_bge_small_384")
    with conn.transaction():
        for number, project in enumerate(load.projects):
            values = (OWNER, project, f"project-{number}", f"project-{number}", "/", NOW)
            conn.execute("insert into project values (%s, %s, %s, %s, %s, %s)", values)
        columns = (
            "owner_id, id, layer, kind, project_id, title, body, terms, files, confidence, origin, author, content_hash,"
            " occurred_at, recorded_at, changed_at"
        )
        kinds = ("decision", "bugfix", "pattern", "context", "deadend")
        with conn.cursor().copy(f"copy memory ({columns}) from stdin".encode()) as copy:
            for i, text in enumerate(load.texts):
                words = text.split()
                at = NOW - dt.timedelta(minutes=(i * 7919) % 500_000)
                copy.write_row(
                    (OWNER, uuid.UUID(int=(2 << 64) + i), "observation", kinds[i % 5], load.projects[load.project[i]],
                     " ".join(words[:6]), " ".join(words[6:]), " ".join(words[40:]), [f"src/{words[0]}.py"], 0.8, "user",
                     "bench", i.to_bytes(8, "big"), at, at, at)
                )  # fmt: skip
        with conn.cursor().copy("copy embedding from stdin") as copy:
            for i, vector in enumerate(load.vectors):
                copy.write_row(
                    (OWNER, uuid.UUID(int=(2 << 64) + i), MODEL, Vector(vector).to_text(), b"x", NOW)
                )
    conn.execute("set maintenance_work_mem = '512MB'")
    conn.execute(row["made"].encode())
    conn.execute("vacuum analyze memory")
    conn.execute("vacuum analyze embedding")


def questions(load: Load, number: int, seed: int = 11) -> list[product.Question]:
    """Questions about memories drawn at random."""
    chance, numbers = random.Random(seed), np.random.default_rng(seed)
    found = []
    for _ in range(number):
        row = chance.randrange(len(load.texts))
        text = " ".join(chance.sample(load.texts[row].split(), 6))
        vector = _near(load.vectors[row], numbers)
        found.append(product.Question(text, vector, MODEL, [load.projects[load.project[row]]], dates=False))
    return found


def _near(vector: Any, numbers: np.random.Generator) -> list[float]:
    moved = vector + 0.02 * numbers.normal(size=len(vector)).astype(np.float32)
    near: list[float] = (moved / np.linalg.norm(moved)).tolist()
    return near


def timed(db: Database, asked: list[product.Question]) -> tuple[list[float], list[float]]:
    """Milliseconds of each question, its settings and its two statements, on one connection, sorted: of the clock, and of the
    server's processor (Linux), which other work on the machine does not add to."""
    clock, processor = [], []
    with db.transaction() as conn:
        row = conn.execute("select pg_backend_pid() as pid").fetchone()
        used = Path(f"/proc/{row['pid'] if row else 0}/schedstat")
        for question in asked:
            args = product.arguments(question, product.read(question, NOW), NOW) | {"owner": OWNER}
            began, busy = time.perf_counter(), _busy(used)
            product.run(conn, args)
            processor.append(_busy(used) - busy)
            clock.append((time.perf_counter() - began) * 1000)
    return sorted(clock), sorted(processor)


def _busy(used: Path) -> float:
    try:
        return int(used.read_text().split()[0]) / 1e6
    except OSError:
        return math.nan


def at(times: list[float], share: float) -> float:
    """The time that this share of the questions did not exceed."""
    return times[int(len(times) * share)]


def recall(db: Database, load: Load, project: int, asked: int) -> float:
    """How many of the ten nearest by an exact scan the index finds in a project, with the index forced."""
    members = np.flatnonzero(load.project == project)
    numbers = np.random.default_rng(project)
    shares = []
    with db.transaction() as conn:
        conn.execute(
            "select set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true)"
        )
        for row in numbers.choice(members, size=min(asked, len(members)), replace=False):
            vector = np.array(_near(load.vectors[row], numbers), np.float32)
            exact = members[np.argsort(-(load.vectors[members] @ vector))[:10]]
            question = product.Question("", vector.tolist(), MODEL, [load.projects[project]])
            args = product.arguments(question, product.read(question, NOW), NOW)
            forced = {"owner": OWNER, "few": 0, "floor": -1.0, "zero": -1.0}
            rows = product.run(conn, args | forced)
            ids = {row["id"].int - (2 << 64) for row in rows[:10]}
            shares.append(len(ids & set(exact.tolist())) / len(exact))
    return statistics.mean(shares)


def exact_ms(db: Database, load: Load, asked: list[product.Question]) -> list[float]:
    """The peer: every vector of the project compared, ten kept."""
    times = []
    with db.transaction() as conn:
        for question in asked:
            args = (MODEL, OWNER, OWNER, list(question.projects or ()), Vector(list(question.vector or ())))
            began = time.perf_counter()
            conn.execute(
                "select m.id from memory m join embedding v on v.memory_id = m.id and v.model_id = %s and v.owner_id = %s"
                " where m.owner_id = %s and m.project_id = any(%s) order by v.vector <=> %s limit 10",
                args,
            ).fetchall()
            times.append((time.perf_counter() - began) * 1000)
    return times


def main() -> None:
    """Load, measure, print."""
    chosen = options(__doc__ or "")
    rows, number = (15_000, 60) if chosen.quick else (100_000, 300)
    load = make(rows)
    sizes = np.bincount(load.project, minlength=50)
    with private_database() as (_, server):
        with superuser(server) as conn:
            began = time.perf_counter()
            fill(conn, load)
            took = time.perf_counter() - began
            print(f"loaded {rows:,} memories in {took:.0f} s, projects of {sizes.max():,} to {sizes.min():,}")
        asked = questions(load, number)
        with role(server, "cems_reader") as db:
            timed(db, asked)
            rounds = [timed(db, asked) for _ in range(3)]
            p50, p95 = (statistics.median(at(clock, q) for clock, _ in rounds) for q in (0.5, 0.95))
            cpu50, cpu95 = (statistics.median(at(busy, q) for _, busy in rounds) for q in (0.5, 0.95))
            peer = statistics.median(exact_ms(db, load, asked))
            words, _ = timed(db, [dataclasses.replace(q, vector=None) for q in asked])
            big, tiny = int(sizes.argmax()), int(sizes.argmin())
            recalls = {p: recall(db, load, p, 20 if chosen.quick else 50) for p in (big, 5, tiny)}
    result = Result(
        "search",
        p50,
        "ms for a filtered search in the database, median",
        peer,
        "an exact scan of the project's vectors, ms",
        {
            "p95_ms": round(p95, 2),
            "limit_p95_ms": LIMIT_MS,
            "processor_p50_ms": round(cpu50, 2),
            "processor_p95_ms": round(cpu95, 2),
            "words_only_p50_ms": round(at(words, 0.5), 2),
            "words_only_p95_ms": round(at(words, 0.95), 2),
            **{f"recall_of_index_in_{sizes[p]}": round(r, 4) for p, r in recalls.items()},
        },
    )
    finish(result, chosen.json)


if __name__ == "__main__":
    main()
