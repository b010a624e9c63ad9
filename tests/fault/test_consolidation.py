"""Consolidation killed at each point of its way and run again: the memories are those of a run that nobody disturbed, and a
further run finds nothing to do."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys
from typing import Any

import pytest

from cems.settings import load as load_settings
from db import runs
from db.access import owner_id
from db.connect import Access, Database
from tests.consolidating import Said, angle, say
from tests.fault.running import ROOT

pytestmark = pytest.mark.fault

POINTS = ("mid_consolidation", "after_consolidation", "after_marks")


def run(environment: dict[str, str], *point: str) -> int:
    """One run of the job as a process; its exit code."""
    command = [sys.executable, "-m", "tests.fault.consolidate", *point]
    return subprocess.run(command, cwd=ROOT, env=environment, timeout=60, check=False).returncode


def of_owner(environment: dict[str, str], owner: str) -> tuple[dict[str, str], Database]:
    """The environment of an owner, and the way in."""
    environment = environment | {"CEMS_OWNER": owner}
    settings = load_settings(environment)
    return environment, Database(Access(settings.database_url, "cems_writer", owner_id(settings)))


def fill(db: Database) -> None:
    """Three facts said several times, a chain, and some that stand alone."""
    every = [
        *(Said(f"{verb} Postgres over SQLite") for verb in ("We chose", "Chose", "Picked")),
        Said("We decided on Postgres over SQLite", "Ask Jonas for access.", files=("db.py",)),
        Said("Builds run on Jenkins at night", vector=angle(50)),
        Said("Builds run on `Jenkins` at night", vector=angle(70)),
        Said("Builds run on Jenkins, at night", vector=angle(90)),
        *(
            Said(f"Keep functions {words} lines", vector=angle(140))
            for words in ("under 40", "`under` 40", "under 50")
        ),
        Said("Coffee is on the second floor", vector=angle(180)),
    ]
    # Each at another time: ids made within one millisecond have no order.
    say(db, *(dataclasses.replace(said, day=number) for number, said in enumerate(every)))


def state(db: Database) -> list[Any]:
    """Every memory with its sources and who stands for it, without ids and times of writing."""
    with db.transaction() as conn:
        rows = conn.execute(
            "select m.title, m.body, m.files, m.seen_count, m.occurred_at, m.terms, m.superseded_how, o.title as into_title,"
            " array(select s.quote from memory_source s where s.owner_id = m.owner_id and s.memory_id = m.id order by 1)"
            " from memory m left join memory o on o.owner_id = m.owner_id and o.id = m.superseded_by order by m.title"
        ).fetchall()
    return [tuple(row.values()) for row in rows]


@pytest.mark.parametrize("hit", [1, 2, 3])
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_any_point_and_run_again_gives_the_same_memories(
    environment: dict[str, str], point: str, hit: int
) -> None:
    ours, disturbed = of_owner(environment, "killed")
    theirs, undisturbed = of_owner(environment, "undisturbed")
    with disturbed, undisturbed:
        fill(disturbed)
        fill(undisturbed)
        before = state(disturbed)
        assert run(theirs) == 0
        assert state(undisturbed) != before
        assert run(ours, point, str(hit)) == -signal.SIGKILL
        assert run(ours) == 0
        assert state(disturbed) == state(undisturbed)
        assert [row["outcome"] for row in runs.history(disturbed)] == ["done", "killed"]
        assert run(ours) == 0
        report = runs.history(disturbed)[0]["report"]
        assert (report["seen"], report["changed"], report["waiting"]) == (0, 0, 0) or report["waiting"] == 1
