"""The shapes of capture that must stay flat: one session that grows line by line, one line of 120 MB, and an observer that
has nothing to do. Each in a process of its own, like the main figure of `bench/capture.py`."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.measure import Result

LIMIT_MB = 200


def record(text: str, session: str) -> bytes:
    """One user record of its own."""
    return (
        json.dumps(
            {
                "type": "user",
                "uuid": str(uuid.uuid4()),
                "sessionId": session,
                "cwd": "/home/dev/project",
                "isSidechain": False,
                "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()),
                "message": {"role": "user", "content": text},
            }
        ).encode()
        + b"\n"
    )


def growing(quick: bool) -> Result:
    """Bytes read for bytes appended while one session grows line by line, and the peak memory."""
    size, step = (20_000_000, 200_000) if quick else (200_000_000, 200_000)
    found = _measure("growing", size, step)
    return Result(
        "capture of one growing session",
        found["read"],
        "bytes read",
        found["appended"],
        "bytes appended",
        {
            "limit": 1.2,
            "lines": found["lines"],
            "looks": found["looks"],
            "peak_mb": found["peak_mb"],
            "peak_limit_mb": LIMIT_MB,
        },
    )


def huge_line(quick: bool) -> Result:
    """Peak memory over a line of 120 MB between two ordinary ones."""
    found = _measure("huge-line", 120_000_000, 0)
    assert found["lines"] == 2 and found["too_long"] == 1, found
    return Result(
        "capture past a 120 MB line", found["peak_mb"], "MB at most", LIMIT_MB, "MB allowed", {"limit": 1.0}
    )


def idle(quick: bool) -> Result:
    """CPU of looking at 2,000 unchanged sessions once, as a share of the poll interval of 30 s."""
    found = _measure("idle", 2000, 20 if quick else 100)
    return Result(
        "an idle look at 2,000 sessions",
        found["cpu_ms"],
        "ms of CPU",
        30_000,
        "ms between two looks",
        {"limit": 0.005, "peak_mb": found["peak_mb"]},
    )


def _measure(shape: str, one: int, two: int) -> dict[str, Any]:
    from db import embedded

    with tempfile.TemporaryDirectory(prefix="cems-bench-") as work:
        home = Path(work) / "home"
        environment = {
            **os.environ,
            "CEMS_HOME": str(home),
            "CEMS_EMBEDDER": "none",
            "CEMS_DATABASE_URL": "",
            "CLAUDE_CONFIG_DIR": str(Path(work) / "claude"),
        }
        command = [sys.executable, "-m", "bench.capture_shapes", shape, str(one), str(two)]
        root = str(Path(__file__).resolve().parent.parent)
        try:
            done = subprocess.run(
                command, env=environment, check=True, stdout=subprocess.PIPE, text=True, cwd=root
            )
        finally:
            embedded.stop(home)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


# ---- the measured process


def _child(shape: str, one: int, two: int) -> None:
    from cems.clock import SystemClock
    from cems.settings import load
    from db.access import database
    from observer.capture import Capture
    from observer.start import capture

    settings = load()
    folder = Path(os.environ["CLAUDE_CONFIG_DIR"]) / "projects" / "-home-dev-project"
    folder.mkdir(parents=True)
    with database(settings, "cems_writer") as db:
        capturing: Capture = capture(db, settings, SystemClock())
        cpu = 0.0
        for number, _ in enumerate(_shape(shape, folder, one, two)):
            began = time.process_time()
            capturing.run_pass()
            if number:
                cpu += time.process_time() - began
        report = capturing.report
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        appended = sum(f.stat().st_size for f in folder.glob("*.jsonl"))
    print(
        json.dumps(
            {
                "read": report.bytes_read,
                "appended": appended,
                "lines": report.lines_landed,
                "peak_mb": round(peak),
                "looks": number + 1,
                "too_long": report.lines_skipped["too_long"],
                "cpu_ms": cpu / max(number, 1) * 1000,
            }
        )
    )


def _shape(shape: str, folder: Path, one: int, two: int) -> Iterator[None]:
    """Change the files, and yield each time somebody should look."""
    session = str(uuid.uuid4())
    path = folder / f"{session}.jsonl"
    if shape == "growing":
        written = waiting = 0
        with path.open("ab") as f:
            while written < one:
                line = record(f"question {written} of ordinary length " * 60, session)
                f.write(line)
                written += len(line)
                waiting += len(line)
                if waiting >= two:
                    f.flush()
                    waiting = 0
                    yield
        yield
    elif shape == "huge-line":
        with path.open("wb") as f:
            f.write(record("before", session))
            f.write(
                b'{"type":"user","uuid":"'
                + str(uuid.uuid4()).encode()
                + b'","message":{"role":"user","content":"'
            )
            for _ in range(one // 1_000_000):
                f.write(b"x" * 1_000_000)
            f.write(b'"}}\n')
            f.write(record("after", session))
        yield
    else:
        for _ in range(one):
            (folder / f"{uuid.uuid4()}.jsonl").write_bytes(record("hello there", session))
        for _ in range(two + 1):
            yield


if __name__ == "__main__":
    _child(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
