"""Landing: what is on disk is in the database, exactly once."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

from cems.settings import Settings
from db.connect import Connection, Database
from observer.start import capture
from tests.conftest import FakeClock
from tests.sample_sessions import SAMPLES


def test_every_line_lands_once(db: Database, settings: Settings, config_dir: Path, clock: FakeClock, sql: Connection) -> None:
    import shutil

    shutil.copytree(SAMPLES / "claude", config_dir, dirs_exist_ok=True) if (SAMPLES / "claude").exists() else shutil.copytree(SAMPLES, config_dir, dirs_exist_ok=True)
    seen = capture(db, settings, clock)
    seen.run_pass(once=True)
    rows = sql.execute("select count(*) as n from line").fetchone()
    assert rows and rows["n"] == seen.report.lines_landed > 400
    again = capture(db, settings, clock)
    assert again.run_pass(once=True) == 0
    print(json.dumps(again.report.lines_skipped), uuid.uuid4())
