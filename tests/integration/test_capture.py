"""Landing: what is on disk is in the database, exactly once."""

from __future__ import annotations

import collections
import json
from pathlib import Path

import pytest

from bench.measure import shared
from cems.settings import Settings, load
from db.connect import Connection, Database
from observer.start import capture
from tests.conftest import FakeClock
from tests.sample_sessions import SAMPLES, copy_samples


def uuids_on_disk(config: Path) -> collections.Counter[str]:
    """Every uuid of a record that is on a line of its own, by an independent reading."""
    found: collections.Counter[str] = collections.Counter()
    for path in config.glob("projects/**/*.jsonl"):
        if path.name.startswith("agent-acompact") or path.name == "journal.jsonl":
            continue
        for raw in path.read_bytes().split(b"\n"):
            try:
                record = json.loads(raw)
            except ValueError:
                continue
            if isinstance(record, dict) and isinstance(record.get("uuid"), str):
                found[record["uuid"]] += 1
    return found


def check(db: Database, settings: Settings, sql: Connection, clock: FakeClock) -> int:
    """Land everything twice; every uuid is a line or was skipped by a rule. Returns how many lines landed."""
    first = capture(db, settings, clock)
    first.run_pass(once=True)
    report = first.report
    on_disk = uuids_on_disk(settings.claude_dirs()[0])
    landed = {str(r["uuid"]) for r in sql.execute("select uuid from line").fetchall()}
    assert len(landed) == report.lines_landed
    missing = len(set(on_disk) - landed)
    rules = sum(n for rule, n in report.lines_skipped.items() if rule not in ("no_uuid", "not_json", "copy"))
    assert missing <= rules, (missing, report.lines_skipped)
    second = capture(db, settings, clock)
    assert second.run_pass(once=True) == 0
    assert second.report.bytes == 0
    return report.lines_landed


def test_every_sample_line_lands_once(
    db: Database, settings: Settings, config_dir: Path, clock: FakeClock, sql: Connection
) -> None:
    copy_samples(config_dir.parent, {})
    assert SAMPLES.is_dir() and check(db, settings, sql, clock) > 400


def test_every_line_of_real_sessions_lands_once(
    db: Database, environment: dict[str, str], clock: FakeClock, sql: Connection
) -> None:
    folder = shared()
    if folder is None:
        pytest.skip("the shared transcripts are not here (CEMS_SHARED)")
    settings = load({**environment, "CLAUDE_CONFIG_DIR": str(folder / "transcripts" / "claude")})
    assert check(db, settings, sql, clock) > 3000
