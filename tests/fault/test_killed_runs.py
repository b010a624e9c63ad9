"""`cems observe --once`, killed again and again and started anew until it gets to its end: the lines and memories are those
of a run that nobody disturbed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cems.ids import derived
from db.connect import Connection
from tests.fault.running import ROOT
from tests.sample_sessions import copy_samples

pytestmark = pytest.mark.fault


def run(environment: dict[str, str], seconds: float | None = None) -> int:
    """One run, killed after so many seconds; its exit code."""
    command = [sys.executable, "-m", "cems", "observe", "--once", "--json"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def stored(sql: Connection, owner: str) -> dict[str, list[str]]:
    """What an owner has, without ids and times that differ from run to run."""
    queries = {
        "lines": "select uuid, kind, origin, text, generation, part from line where owner_id = %s",
        "memories": "select kind, title, body, files, concepts, origin, seen_count, confidence from memory where owner_id = %s",
        "sources": "select m.title, s.line_uuid, s.quote from memory_source s join memory m on m.owner_id = s.owner_id"
        " and m.id = s.memory_id where s.owner_id = %s",
        "batches": "select b.status, b.lines, min(l.uuid::text) from batch b join line l on l.owner_id = b.owner_id"
        " and l.batch_id = b.id where b.owner_id = %s group by b.owner_id, b.id",
    }
    id_ = derived("owner", owner)
    return {
        name: sorted(str(row) for row in sql.execute(q.encode(), (id_,)).fetchall())
        for name, q in queries.items()
    }


def test_killed_until_it_is_done_gives_what_one_run_gives(
    environment: dict[str, str], tmp_path: Path, sql: Connection
) -> None:
    environment["CLAUDE_CONFIG_DIR"] = str(copy_samples(tmp_path, {}))
    killed = environment | {"CEMS_OWNER": "killed"}
    assert run(environment | {"CEMS_OWNER": "undisturbed"}) == 0
    codes: list[int] = []
    patience = 0.25
    while not codes or codes[-1] != 0:
        codes.append(run(killed, patience))
        assert codes[-1] in (0, -signal.SIGKILL)
        assert len(codes) < 100
        patience *= 1.12  # a loaded machine takes long to get to work at all
    assert len(codes) > 1
    reference = stored(sql, "undisturbed")
    assert len(reference["lines"]) > 400
    assert len(reference["memories"]) > 10
    assert stored(sql, "killed") == reference
