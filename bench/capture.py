"""Capture: transcript bytes landed per second of the observer's CPU, against msgspec's typed decoding of the same bytes.

The load is a corpus of sessions repeated under new ids: the shared transcripts where they are, else the project's own
samples. Landing runs in a process of its own, whose CPU time and peak memory count; the reference decodes every field of
every line into typed objects and does nothing with them. `--shape` lands one growing session, one huge line, or measures
what an idle observer costs.

    python bench/capture.py [--quick] [--json] [--shape corpus|growing|huge-line|idle]
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.measure import ROOT, Result, finish, medians, options, shared

MEMORY_LIMIT_MB = 200


class FullBlock(msgspec.Struct):
    """A content block with everything in it."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    tool_use_id: str | None = None
    content: Any = None
    source: Any = None
    is_error: bool | None = None


class FullMessage(msgspec.Struct):
    """An API message with everything in it."""

    id: str | None = None
    role: str | None = None
    model: str | None = None
    content: str | list[FullBlock] | None = None
    stop_reason: str | None = None
    usage: Any = None


class FullRecord(msgspec.Struct):
    """A transcript record with every field that sessions carry: the reference builds all of it."""

    type: str = ""
    uuid: str | None = None
    parentUuid: str | None = None
    timestamp: str | None = None
    sessionId: str | None = None
    cwd: str | None = None
    version: str | None = None
    gitBranch: str | None = None
    userType: str | None = None
    slug: str | None = None
    requestId: str | None = None
    isSidechain: bool | None = None
    isMeta: bool | None = None
    message: FullMessage | None = None
    toolUseResult: Any = None
    attachment: Any = None
    data: Any = None
    snapshot: Any = None
    content: Any = None


def corpus() -> list[tuple[str, bytes]]:
    """(name, bytes) of each session file of the load's corpus, each ending in a newline."""
    folder = shared()
    base = folder / "transcripts" / "claude" if folder else ROOT / "tests" / "samples" / "claude"
    files = sorted(base.glob("projects/*/*.jsonl"))
    return [(f"{f.parent.name}/{f.stem}", f.read_bytes().rstrip(b"\n") + b"\n") for f in files]


_UUID = re.compile(rb'"(uuid|parentUuid|messageId|leafUuid)":"[0-9a-f]{8}')
_YEAR = re.compile(rb'"timestamp":"(\d{4})')


def write_load(root: Path, size: int) -> int:
    """Repeat the corpus, each copy under ids and times of its own, up to `size` bytes; returns the bytes written."""
    files = corpus()
    written = 0
    for copy in range(10_000):
        for name, data in files:
            if written >= size:
                return written
            renamed = _UUID.sub(rb'"\1":"' + b"%08x" % (0xC0000000 + copy), data)
            renamed = _YEAR.sub(b'"timestamp":"%04d' % (1980 + copy % 8000), renamed)
            target = root / "projects" / name.split("/")[0] / f"{uuid.uuid4()}.jsonl"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(renamed)
            written += len(renamed)
    return written


def reference(config: str) -> None:
    """Read the same files, split them into lines, decode every field of every line with msgspec, and print the cost. Runs in
    a process of its own."""
    decoder = msgspec.json.Decoder(FullRecord)
    total = 0
    began = time.process_time()
    for path in sorted(Path(config).glob("projects/*/*.jsonl")):
        data = path.read_bytes()
        total += len(data)
        for line in data.split(b"\n"):
            try:
                decoder.decode(line)
            except msgspec.DecodeError:
                continue
    print(json.dumps({"bytes": total, "cpu": time.process_time() - began}))


# ---- the measured process


def land(config: str) -> None:
    """Land everything below a configuration folder and print what it cost. Runs in its own process."""
    from cems.clock import SystemClock
    from cems.settings import load
    from db.access import database
    from observer.start import capture

    settings = load({**os.environ, "CLAUDE_CONFIG_DIR": config})
    with database(settings, "cems_writer") as db:
        capturing = capture(db, settings, SystemClock())
        cpu, wall = time.process_time(), time.monotonic()
        while capturing.run_pass(once=True):
            continue
        print(
            json.dumps(
                {
                    "cpu": time.process_time() - cpu,
                    "wall": time.monotonic() - wall,
                    "bytes": capturing.report.bytes,
                    "lines": capturing.report.lines_landed,
                    "skipped": sum(capturing.report.lines_skipped.values()),
                    "bytes_read": capturing.report.bytes_read,
                    "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                }
            )
        )


def run_landing(home: Path, config: Path) -> dict[str, Any]:
    """Land in a fresh process and home; what it printed."""
    from db import embedded

    environment = {**os.environ, "CEMS_HOME": str(home), "CEMS_EMBEDDER": "none", "CEMS_DATABASE_URL": ""}
    try:
        return run(["--land", str(config)], environment)
    finally:
        embedded.stop(home)


def run(arguments: list[str], environment: dict[str, str]) -> dict[str, Any]:
    """What this file prints, run with these arguments in a process of its own."""
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def bench_corpus(quick: bool) -> Result:
    """The main figure."""
    size = (60 if quick else 500) * 1_000_000
    rounds = 2 if quick else 3
    found, peers = [], []
    with tempfile.TemporaryDirectory(prefix="cems-bench-") as work:
        config = Path(work) / "claude"
        written = write_load(config, size)
        for number in range(rounds):
            home = Path(work) / f"home{number}"
            peers.append(run(["--reference", str(config)], dict(os.environ)))
            found.append(run_landing(home, config))
            shutil.rmtree(home, ignore_errors=True)
    landed = medians([f["bytes"] / f["cpu"] for f in found])
    last = found[-1]
    assert last["bytes"] == written, (last, written)
    return Result(
        "capture",
        landed / 1e6,
        "MB landed per CPU second",
        medians([p["bytes"] / p["cpu"] for p in peers]) / 1e6,
        "msgspec decoding every field of the same files, MB per CPU second",
        {
            "limit": 0.15,
            "megabytes": round(written / 1e6),
            "lines": last["lines"],
            "skipped": last["skipped"],
            "wall_seconds": round(last["wall"], 1),
            "peak_mb": round(max(f["peak_mb"] for f in found)),
            "peak_limit_mb": MEMORY_LIMIT_MB,
        },
    )


def main() -> None:
    """Measure one shape."""
    if "--land" in sys.argv:
        land(sys.argv[-1])
        return
    if "--reference" in sys.argv:
        reference(sys.argv[-1])
        return
    shape = "corpus"
    if "--shape" in sys.argv:
        at = sys.argv.index("--shape")
        shape = sys.argv[at + 1]
        del sys.argv[at : at + 2]
    chosen = options(__doc__ or "")
    from bench import capture_shapes

    shapes = {
        "corpus": bench_corpus,
        "growing": capture_shapes.growing,
        "huge-line": capture_shapes.huge_line,
        "idle": capture_shapes.idle,
    }
    finish(shapes[shape](chosen.quick), chosen.json)


if __name__ == "__main__":
    main()
