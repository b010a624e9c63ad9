"""The hook as a session feels it: wall time of the whole process over 100,000 memories in 50 projects, as a ratio to a bare
interpreter in the same run; and what it does when Postgres or the service is stopped or mute.

The load is that of bench/search.py; each prompt is made of some words of one memory, in that memory's project, with a
transcript of 6 MB behind it that grows from prompt to prompt. Hook and bare interpreter take turns, so that both see the
same machine. The service has the real model where it is on this machine.

    python bench/hook.py [--quick] [--json]
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

import bench.search as load_of_search
from bench.measure import ROOT, Result, finish, options
from cems import home as homes
from cems import settings as configuration
from cems.cli.installing import hooks
from cems.project import resolve
from cems.providers.local import LocalEmbedder
from cems.providers.model_file import MODEL_NAME
from cems.settings import Settings
from db import access, embedded
from db.connect import Access, connect
from recall.client import health

MEDIAN_LIMIT, P99_LIMIT, FAULT_SECONDS = 3.0, 10.0, 1.0
MODEL = ROOT / ".venv" / "cems-model"
BARE = (sys.executable, "-I", "-S", "-c", "pass")


@dataclasses.dataclass(frozen=True)
class Place:
    """A home with memories in it, and prompts about them."""

    environment: dict[str, str]
    settings: Settings
    prompts: list[bytes]
    """Standard inputs."""
    transcript: Path


@contextlib.contextmanager
def filled(rows: int) -> Iterator[Place]:
    """A home of the bench's own, with so many memories."""
    home = Path(tempfile.mkdtemp(prefix="cems-bench-", dir="/tmp"))
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("CEMS_", "CLAUDE"))}
    environment |= {"CEMS_HOME": str(home), "CEMS_LOG_LEVEL": "warning"}
    environment |= {"CEMS_EMBEDDING_MODEL_DIR": str(MODEL)} if MODEL.is_dir() else {"CEMS_EMBEDDER": "none"}
    settings = configuration.load(environment)
    try:
        start(home)
        access.bring_up(settings)
        machine = str(homes.machine_id(home))
        load = with_real_vectors(load_of_search.make(rows))
        folders = [f"/bench/{n}" for n in range(len(load.projects))]
        load = dataclasses.replace(load, projects=[resolve(folder, machine).id for folder in folders])
        load_of_search.OWNER = access.owner_id(settings)  # the owner of this home, not the other bench's
        info = embedded.status(home)
        with connect(
            Access(info.dsn(embedded.SUPERUSER, access.DATABASE), "cems_owner", access.owner_id(settings))
        ) as conn:
            load_of_search.fill(conn, load)
        transcript = long_transcript(home)
        for path, content in hooks.copies(home).items():
            hooks.write(path, content)
        yield Place(environment, settings, prompts(load, folders, transcript), transcript)
    finally:
        embedded.stop(home, mode="immediate")
        shutil.rmtree(home, ignore_errors=True)


def start(home: Path) -> None:
    """The home's server, as quick to fill as it can be."""
    embedded.start(home, settings={"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"})


ASKED_ABOUT = 200
"""Memories that prompts are made of: every so many, from the first to the last."""


AT_HOME = 0.8
"""Share of a project's memories that are about what only this project is about."""


def with_real_vectors(load: load_of_search.Load) -> load_of_search.Load:
    """The same load in the model's own space, for the service asks with real vectors: the memories that are asked about have
    theirs, the others lie around them, most around one of their own project, for what a project is about differs."""
    if not MODEL.is_dir():
        return load
    model = LocalEmbedder(MODEL / MODEL_NAME)
    rows = asked_about(load)
    real = np.array(model.embed_documents([load.texts[row] for row in rows]), dtype=np.float32)
    numbers = np.random.default_rng(5)
    noise = numbers.normal(scale=0.7 / np.sqrt(real.shape[1]), size=load.vectors.shape).astype(np.float32)
    around = numbers.integers(0, len(real), size=len(load.texts))
    for project in range(len(load.projects)):
        own = [place for place, row in enumerate(rows) if load.project[row] == project]
        at_home = (load.project == project) & (numbers.random(len(around)) < AT_HOME)
        if own:
            around[at_home] = numbers.choice(own, size=int(at_home.sum()))
    vectors = real[around] + noise
    vectors[rows] = real
    return dataclasses.replace(load, vectors=vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def asked_about(load: load_of_search.Load) -> list[int]:
    """Rows of the memories that prompts are made of."""
    return list(range(0, len(load.texts), max(1, len(load.texts) // ASKED_ABOUT)))[:ASKED_ABOUT]


def long_transcript(home: Path) -> Path:
    """A session of 6 MB."""
    path = home / "session.jsonl"
    line = json.dumps({"type": "user", "message": {"content": "x" * 2000}}) + "\n"
    path.write_text(
        line * 3000 + json.dumps({"type": "assistant", "message": {"content": "Shall I?"}}) + "\n"
    )
    return path


def grow(transcript: Path) -> None:
    """What a session adds between two prompts: 100 KB of tool results, and an answer."""
    line = json.dumps({"type": "user", "message": {"content": "y" * 2000}}) + "\n"
    answer = json.dumps({"type": "assistant", "message": {"content": "Done."}}) + "\n"
    with transcript.open("a") as file:
        file.write(line * 50 + answer)


def prompts(load: load_of_search.Load, folders: list[str], transcript: Path) -> list[bytes]:
    """Prompts on these memories: big projects are asked about as often as they are big."""
    draw = random.Random(11)
    found = []
    for number in asked_about(load):
        words = load.texts[number].split()
        text = (
            f"how do we handle {' and '.join(draw.sample(words[:6], 2) + draw.sample(words[40:], 3))} here?"
        )
        given = {
            "session_id": f"s{number}",
            "transcript_path": str(transcript),
            "cwd": folders[load.project[number]],
            "hook_event_name": "UserPromptSubmit",
            "prompt": text,
        }
        found.append(json.dumps(given).encode())
    return found


@contextlib.contextmanager
def serving(place: Place) -> Iterator[int]:
    """The service for the time of the block; its process id."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-m", "cems", "recall"], env=place.environment, stdin=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + 60
        while not (health(place.settings.home) or {}).get("ok"):
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("the service does not become ready")
            time.sleep(0.1)
        yield process.pid
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(15)


@contextlib.contextmanager
def mute(pids: list[int]) -> Iterator[None]:
    """Processes that live and say nothing."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in reversed(pids):
            os.kill(pid, signal.SIGCONT)


def server_processes(home: Path) -> list[int]:
    """The postmaster, then its children."""
    postmaster = embedded.status(home).pid
    assert postmaster is not None
    children = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(postmaster)], capture_output=True, text=True, check=True
    )
    return [postmaster, *map(int, children.stdout.split())]


def timed(arguments: tuple[str, ...], given: bytes, environment: dict[str, str]) -> tuple[float, bytes, int]:
    """Seconds of one process from its start to its end, what it printed, its exit code."""
    began = time.perf_counter()
    done = subprocess.run(arguments, input=given, stdout=subprocess.PIPE, env=environment)
    return time.perf_counter() - began, done.stdout, done.returncode


def hook(place: Place, number: int) -> tuple[float, str]:
    """One run of the hook: seconds, and the text for the session; fails where the output is not valid."""
    grow(place.transcript)
    run = hooks.handler(sys.executable, place.settings.home, "UserPromptSubmit")
    arguments = (run["command"], *run["args"])
    seconds, printed, code = timed(arguments, place.prompts[number % len(place.prompts)], place.environment)
    output = json.loads(printed)["hookSpecificOutput"]
    if code != 0 or output["hookEventName"] != "UserPromptSubmit":
        raise RuntimeError(f"exit code {code}: {printed[:200]!r}")
    return seconds, output["additionalContext"]


def compare(place: Place, runs: int) -> dict[str, Any]:
    """Hook and bare interpreter in turns."""
    bare, ours, answered = [], [], 0
    for number in range(runs):
        bare.append(timed(BARE, b"", place.environment)[0])
        seconds, context = hook(place, number)
        ours.append(seconds)
        answered += bool(context)
    reference = statistics.median(bare)
    return {
        "bare_ms": reference * 1000,
        "hook_ms": statistics.median(ours) * 1000,
        "p99_ms": quantile(ours, 0.99) * 1000,
        "bare_p99_ms": quantile(bare, 0.99) * 1000,
        "median_ratio": statistics.median(ours) / reference,
        "p99_ratio": quantile(ours, 0.99) / reference,
        "answered": f"{answered} of {runs}",
    }


def quantile(values: list[float], share: float) -> float:
    """The value at this share of the sorted ones."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def faults(place: Place, runs: int) -> dict[str, str]:
    """Each fault: the longest of some runs, and how many had an answer all the same."""
    home, found = place.settings.home, {}

    def measure(name: str) -> None:
        done = [hook(place, number) for number in range(runs)]
        longest, answers = max(seconds for seconds, _ in done), sum(bool(text) for _, text in done)
        found[name] = f"{longest * 1000:.0f} ms at most, {answers} of {runs} answered"
        if longest > FAULT_SECONDS:
            found[name] += " (TOO LATE)"

    with serving(place) as service:
        hook(place, 0)
        with mute(server_processes(home)):
            measure("postgres mute")
        with mute([service]):
            measure("service mute")
        embedded.stop(home, mode="immediate")
        measure("postgres stopped")
        start(home)
    (home / "recall" / "started").touch()  # so that no hook starts a service while it is gone
    measure("service gone")
    with mute(server_processes(home)):
        measure("service gone, postgres mute")
    embedded.stop(home, mode="immediate")
    measure("service gone, postgres stopped")
    return found


def main() -> None:
    """Run the bench."""
    chosen = options(__doc__.splitlines()[0] if __doc__ else "")
    rows, runs, fault_runs = (8_000, 60, 3) if chosen.quick else (100_000, 400, 10)
    with filled(rows) as place:
        with serving(place):
            for number in range(10):
                hook(place, -1 - number)  # connections, caches
            figures = compare(place, runs)
            stages = (health(place.settings.home) or {}).get("milliseconds", {})
        broken = faults(place, fault_runs)
    more = {"memories": rows, "limits": f"median {MEDIAN_LIMIT}, p99 {P99_LIMIT}"} | figures
    more |= {f"stage {name}": f"median {s['median']} ms, p95 {s['p95']} ms" for name, s in stages.items()}
    finish(
        Result(
            "hook",
            figures["hook_ms"],
            "ms a prompt",
            figures["bare_ms"],
            "python -I -S -c pass",
            more | broken,
        ),
        chosen.json,
    )


if __name__ == "__main__":
    main()
