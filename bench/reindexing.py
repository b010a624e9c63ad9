"""Searching while every vector is made anew for another model: how much longer a search takes meanwhile.

The load is that of bench/search.py: memories in 50 projects with vectors of a seed, which answer. Another process makes
vectors of a second model for all of them, as the job does: the real local embedder, its vectors doubled to 768 numbers, so
that they go into an index of their own. A search is the question's vector by the same embedder and both statements, as a
session asks. Rounds alternate: the other process stopped, and at work; so whatever else the machine does is in both.

    python bench/reindexing.py [--quick] [--json]
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench import search as load
from bench.measure import ROOT, Result, finish, options
from cems.clock import SystemClock
from cems.providers import Vector
from cems.providers.local import LocalEmbedder
from cems.settings import Settings
from db import embeddings, runs, serving
from db import search as product
from db.connect import Access, Database
from db.embedded import ServerInfo
from maintenance import vectors
from maintenance.job import Job
from tests.local_model import cache_dir

NEW = "gemini-embedding-001@768"
LIMIT = 2.0
"""How many times as long a search may take at the 95th percentile."""


class Doubled:
    """The local embedder under another name."""

    needs_network = False
    model_id = NEW
    dimensions = 768

    def __init__(self, local: LocalEmbedder) -> None:
        self._local = local

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Each vector twice in a row, of length 1 again."""
        return [[x / math.sqrt(2) for x in v + v] for v in self._local.embed_documents(texts)]

    def embed_query(self, text: str) -> Vector:
        """The same for a question."""
        return [x / math.sqrt(2) for x in self._local.embed_query(text) * 2]


def local(threads: int | None = None) -> LocalEmbedder:
    """The model, fetched where it is not here."""
    from cems.providers.model_file import ensure_model

    return LocalEmbedder(ensure_model(cache_dir()), threads=threads)


def work(conninfo: str, home: str) -> None:
    """The other process: make what is missing until it is ended."""
    with Database(Access(conninfo, "cems_writer", load.OWNER)) as db:
        clock = SystemClock()
        run = runs.begin(db, "reindexing", asked_by="hand", described="bench", now=clock.now(), host="bench")
        vectors.fill(Job(db, Settings(home=Path(home)), clock, run, None, Doubled(local())))


@contextlib.contextmanager
def working(server: ServerInfo) -> Iterator[subprocess.Popen[bytes]]:
    """That process, stopped as soon as it has begun."""
    command = [sys.executable, __file__, "--work", server.dsn("cems_writer", "postgres"), str(server.data)]
    with subprocess.Popen(command, cwd=ROOT) as process:
        try:
            yield process
        finally:
            process.kill()


def searched(db: Database, embedder: LocalEmbedder, asked: Sequence[product.Question]) -> list[float]:
    """Milliseconds of each search, sorted."""
    times = []
    for question in asked:
        began = time.perf_counter()
        embedder.embed_query(question.text)
        with db.transaction() as conn:
            args = product.arguments(question, product.read(question, load.NOW), load.NOW)
            product.run(conn, args | {"owner": load.OWNER})
        times.append((time.perf_counter() - began) * 1000)
    return sorted(times)


def made(db: Database, rows: int) -> int:
    """How many vectors of the new model there are."""
    return rows - embeddings.count_missing(db, NEW)


def processor_seconds(pid: int) -> float:
    """What a process has used of the processors (Linux)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return math.nan
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rounds(
    db: Database,
    process: subprocess.Popen[bytes],
    asked: Sequence[product.Question],
    number: int,
    rows: int,
) -> tuple[list[list[float]], list[list[float]], dict[str, float]]:
    """Times without and with the work, by turns; and how it went on."""
    embedder = local(threads=1)
    without, meanwhile = [], []
    worked = used = 0.0
    stored = 0
    searched(db, embedder, asked)
    for _ in range(number):
        process.send_signal(signal.SIGSTOP)
        without.append(searched(db, embedder, asked))
        before, busy, began = made(db, rows), processor_seconds(process.pid), time.perf_counter()
        process.send_signal(signal.SIGCONT)
        meanwhile.append(searched(db, embedder, asked))
        worked += time.perf_counter() - began
        used += processor_seconds(process.pid) - busy
        stored += made(db, rows) - before
        if process.poll() is not None:
            raise SystemExit("the work ended before the measurement did")
    return without, meanwhile, {"made_a_second": stored / worked, "processor_share": used / worked}


def main() -> None:
    """Load, measure, print."""
    chosen = options(__doc__ or "")
    rows, number, turns = (6_000, 60, 3) if chosen.quick else (50_000, 150, 7)
    made_load = load.make(rows)
    asked = load.questions(made_load, number)
    with load.private_database() as (writer, server):
        with load.superuser(server) as conn:
            load.fill(conn, made_load)
        with load.role(server, "cems_reader") as db, working(server) as process:
            while not made(writer, rows):
                if process.poll() is not None:
                    raise SystemExit("the work did not begin")
                time.sleep(0.2)
            without, meanwhile, more = rounds(db, process, asked, turns, rows)
            serves = serving.serving_model(db, NEW)
    p95 = [statistics.median(load.at(times, 0.95) for times in every) for every in (meanwhile, without)]
    p50 = [statistics.median(load.at(times, 0.5) for times in every) for every in (meanwhile, without)]
    result = Result(
        "reindexing",
        p95[0],
        "ms for a search while all vectors are made anew, 95th percentile",
        p95[1],
        "the same search without that, ms",
        {
            "limit_ratio": LIMIT,
            "within_limit": p95[0] <= LIMIT * p95[1],
            "p50_ms": round(p50[0], 2),
            "p50_without_ms": round(p50[1], 2),
            "vectors_made_a_second": round(more["made_a_second"], 1),
            "processor_share_of_the_work": round(more["processor_share"], 2),
            "answered_by": serves or "",
            "memories": rows,
        },
    )
    finish(result, chosen.json)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(*sys.argv[2:4])
    else:
        main()
