"""The search for memories that say the same: 1,000 new among 100,000, and a full sweep of all of them, in 50 projects of very
different sizes of which 5 % say the same as another one; by the product's own function, from Postgres.

The reference is a plain exact product in blocks over the same vectors, which it has in memory already, project by project,
in the same run. What it finds is what there is to find. The product compares only memories of one kind, and has to read
the vectors; so the same product by kind, and over all vectors as one matrix, are given too.

    python bench/maintenance.py [--quick] [--json]
"""

from __future__ import annotations

import datetime as dt
import multiprocessing
import statistics
import sys
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pgvector import Vector

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.measure import Result, finish, options
from bench.search import OWNER, Load, make, private_database, superuser
from db import candidates
from db.connect import Access, Connection, Database
from maintenance.candidates import Vectors, by_vectors

MODEL, MARK = "bge-small-en-v1.5-int8@384", "bench"
NOW = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)
KINDS = ("decision", "bugfix", "pattern", "context", "deadend")
THRESHOLD, BLOCK = 0.92, 4096
LIMIT_RATIO, LIMIT_FOUND, LIMIT_MB = 2.0, 0.98, 1024

Numbers = NDArray[np.int64]


def with_duplicates(load: Load, share: float = 0.05, seed: int = 3) -> None:
    """Let a share of the memories be nearly the same as another one of their project and kind."""
    numbers = np.random.default_rng(seed)
    kind = np.arange(len(load.project)) % len(KINDS)
    groups = load.project * len(KINDS) + kind
    for row in numbers.choice(len(groups), int(len(groups) * share), replace=False):
        others = np.flatnonzero(groups == groups[row])
        like = load.vectors[numbers.choice(others)]
        moved = like + numbers.uniform(0.002, 0.015) * numbers.normal(size=len(like))
        load.vectors[row] = moved / np.linalg.norm(moved)


def fill(conn: Connection, load: Load) -> None:
    """Copy it in, without the vector index, which the search does not use."""
    conn.execute("set search_path = cems, public")
    conn.execute("drop index embedding_bge_small_384")
    for number, project in enumerate(load.projects):
        values = (OWNER, project, f"project-{number}", f"project-{number}", "/", NOW)
        conn.execute("insert into project values (%s, %s, %s, %s, %s, %s)", values)
    columns = (
        "owner_id, id, layer, kind, project_id, title, body, confidence, origin, author, content_hash, occurred_at,"
        " recorded_at, changed_at"
    )
    with conn.cursor().copy(f"copy memory ({columns}) from stdin".encode()) as copy:
        for i, text in enumerate(load.texts):
            copy.write_row(
                (OWNER, identity(i), "observation", KINDS[i % 5], load.projects[load.project[i]], text[:60], text,
                 0.8, "user", "bench", i.to_bytes(8, "big"), NOW, NOW, NOW)
            )  # fmt: skip
    with conn.cursor().copy("copy embedding from stdin") as copy:
        for i, vector in enumerate(load.vectors):
            copy.write_row((OWNER, identity(i), MODEL, Vector(vector).to_text(), b"x", NOW))
    for table in ("memory", "embedding"):
        conn.execute(f"vacuum analyze {table}".encode())


def identity(number: int) -> uuid.UUID:
    """The id of a memory of the load."""
    return uuid.UUID(int=(2 << 64) + number)


def mark(conn: Connection, looked: Iterable[int]) -> None:
    """Let these memories, and no others, have been looked at."""
    conn.execute("truncate job_mark")
    with conn.cursor().copy("copy job_mark from stdin") as copy:
        for i in looked:
            copy.write_row((OWNER, MARK, identity(i), NOW))
    conn.execute("vacuum analyze job_mark")


def searched(conninfo: str, answers: Any) -> None:
    """One search by the product, in a process of its own: its seconds, pairs, and greatest memory in MB."""
    having = Vectors(MODEL, 384, THRESHOLD)
    with Database(Access(conninfo, "cems_writer", OWNER)) as db:
        db.reachable()
        began, pairs = time.perf_counter(), []
        for found in by_vectors(db, candidates.groups(db, MARK, None, ("observation",)), MARK, having):
            pairs += [(p.first.int - (2 << 64), p.second.int - (2 << 64)) for p in found.pairs]
        seconds = time.perf_counter() - began
    answers.put((seconds, pairs, peak_mb()))


def peak_mb() -> float:
    """The greatest memory of this process so far (Linux); `getrusage` would count what it was forked from."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), float("nan"))


def product(vectors: NDArray[np.float32], new: Numbers, groups: Iterable[Numbers]) -> set[tuple[int, int]]:
    """The peer: the near pairs of each group that have a new member, by products of blocks."""
    pairs: set[tuple[int, int]] = set()
    is_new = np.zeros(len(vectors), bool)
    is_new[new] = True
    out = np.empty(BLOCK * BLOCK, np.float32)
    for group in groups:
        ordered = np.concatenate((group[is_new[group]], group[~is_new[group]]))
        matrix, number = vectors[ordered], int(is_new[group].sum())
        for i in range(0, number, BLOCK):
            rows = matrix[i : min(i + BLOCK, number)]
            for j in range(i, len(matrix), BLOCK):
                columns = matrix[j : j + BLOCK]
                near = out[: len(rows) * len(columns)].reshape(len(rows), len(columns))
                np.matmul(rows, columns.T, out=near)
                first, second = np.divmod(np.flatnonzero(near >= THRESHOLD), len(columns))
                one, two = ordered[i + first], ordered[j + second]
                keep = (i + first < j + second) if i == j else np.ones(len(one), bool)
                pairs |= set(
                    zip(np.minimum(one, two)[keep].tolist(), np.maximum(one, two)[keep].tolist(), strict=True)
                )
    return pairs


def groups_of(numbers: Numbers) -> list[Numbers]:
    """The rows of each number."""
    return [np.flatnonzero(numbers == number) for number in np.unique(numbers)]


def timed(measured: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and result."""
    began = time.perf_counter()
    result = measured()
    return time.perf_counter() - began, result


def one_case(conninfo: str, load: Load, new: Numbers, times: int) -> dict[str, float]:
    """Measure one case: the product and its peers by turns, medians of all."""
    kind = np.arange(len(load.project)) % len(KINDS)
    by_kind = groups_of(load.project * len(KINDS) + kind)
    by_project, whole = groups_of(load.project), [np.arange(len(load.project))]
    mine, peers, same = [], [], []
    peak = 0.0
    for _ in range(times):
        spawn = multiprocessing.get_context("spawn")
        answers = spawn.Queue()
        process = spawn.Process(target=searched, args=(conninfo, answers))
        process.start()
        seconds, pairs, memory = answers.get(timeout=600)
        process.join()
        mine.append(seconds)
        peak = max(peak, memory)
        peers.append(timed(lambda: product(load.vectors, new, by_project))[0])
        took, truth = timed(lambda: product(load.vectors, new, by_kind))
        same.append(took)
    return {
        "seconds": statistics.median(mine),
        "by_project": statistics.median(peers),
        "by_kind": statistics.median(same),
        "one_matrix": timed(lambda: product(load.vectors, new, whole))[0],
        "found": len(truth & set(pairs)) / max(len(truth), 1),
        "too_many": len(set(pairs) - truth),
        "pairs": len(truth),
        "peak_mb": peak,
    }


def main() -> None:
    """Load, measure, print."""
    chosen = options(__doc__ or "")
    rows = 15_000 if chosen.quick else 100_000
    load = make(rows)
    with_duplicates(load)
    with private_database() as (db, server):
        conninfo = db.access.conninfo
        with superuser(server) as conn:
            fill(conn, load)
            mark(conn, [])
            sweep = one_case(conninfo, load, np.arange(rows), 3)
            new = np.random.default_rng(5).choice(rows, rows // 100, replace=False)
            mark(conn, sorted(set(range(rows)) - set(new.tolist())))
            some = one_case(conninfo, load, new, 5)
    more: dict[str, object] = {"limit_ratio": LIMIT_RATIO, "limit_found": LIMIT_FOUND, "limit_mb": LIMIT_MB}
    for name, case in ((f"sweep_of_{rows}", sweep), (f"{rows // 100}_new_among_{rows}", some)):
        more |= {f"{name}_{key}": round(value, 4) for key, value in case.items()}
        for peer in ("by_project", "by_kind", "one_matrix"):
            more[f"{name}_ratio_to_{peer}"] = round(case["seconds"] / case[peer], 2)
    finish(
        Result(
            "maintenance",
            sweep["seconds"],
            f"s to compare {rows:,} memories, from Postgres",
            sweep["by_project"],
            "an exact product in blocks, in memory, s",
            more,
        ),
        chosen.json,
    )


if __name__ == "__main__":
    main()
