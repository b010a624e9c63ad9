"""The doctor finds each planted fault, what it advises mends it, and of a healthy installation it says nothing else."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cems.cli.doctor import _guarded, doctor
from cems.cli.doctoring import canary
from cems.cli.doctoring.finding import Finding, Patient, bad
from cems.home import exclusive
from cems.settings import Settings, load
from db import access
from db.connect import Connection
from db.health import remove_owner
from tests.integration.test_install import SYSTEMCTL
from tests.local_model import cache_dir, model_folder
from tests.program import Program
from tests.sample_sessions import copy_samples


@pytest.fixture
def program(environment: dict[str, str], config_dir: Path, tmp_path: Path) -> Program:
    """Everything installed, beside sample sessions."""
    assert copy_samples(config_dir.parent, {}) == config_dir
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for name in ("systemctl", "systemd-run", "loginctl"):
        (bin_ / name).write_text(SYSTEMCTL)
        (bin_ / name).chmod(0o755)
    (bin_ / "loginctl").write_text("#!/bin/sh\necho yes\n")
    found = Program(
        environment
        | {
            "PATH": f"{bin_}:{os.environ['PATH']}",
            "CALLS": str(tmp_path / "calls"),
            "XDG_CONFIG_HOME": str(tmp_path / "config"),
        },
        tmp_path,
    )
    # A service that the trial of the hook started would mend faults while they are planted.
    found.json("install", "--yes", CEMS_RECALL_ENABLED="0")
    return found


def findings(program: Program, *options: str) -> dict[str, list[dict[str, Any]]]:
    """What the doctor says that is not well, by part."""
    found = program.json("doctor", "--quick", *options, code=None)["findings"]
    wrong: dict[str, list[dict[str, Any]]] = {}
    for one in found:
        if one["level"] != "ok":
            assert one["todo"], f"nothing is said to do about {one}"
            wrong.setdefault(one["part"], []).append(one)
    return wrong


def text(found: dict[str, list[dict[str, Any]]], part: str) -> str:
    """All that is said of a part."""
    return " ".join(f"{one['says']} {one['todo']}" for one in found.get(part, []))


def test_of_a_healthy_installation_only_what_does_not_run_here_is_said(program: Program) -> None:
    program("observe", "--once")
    # No observer runs beside this test, a sample holds a damaged line, and the recall service comes with the first hook.
    found = findings(program)
    assert set(found) <= {"work", "set aside", "recall", "MCP"}
    for name, fault in FAULTS.items():
        if name not in ("the observer does not run", "something was set aside"):
            assert fault.word not in text(found, fault.part), name


def test_the_trial_session_goes_the_whole_way_and_leaves_nothing(program: Program, sql: Connection) -> None:
    tables = [
        row["name"]
        for row in sql.execute(
            "select relname as name from pg_class where relnamespace = 'cems'::regnamespace and relkind = 'r'"
        ).fetchall()
    ]

    def counts() -> dict[str, int]:
        rows = {t: sql.execute(f"select count(*) as n from cems.{t}".encode()).fetchone() for t in tables}
        return {t: row["n"] for t, row in rows.items() if row}

    before = counts()
    model_folder()
    having = program.having({"CEMS_EMBEDDER": "local", "CEMS_EMBEDDING_MODEL_DIR": str(cache_dir())})
    found = having.json("doctor", code=None)["findings"]
    (canary,) = [one for one in found if one["part"] == "canary"]
    assert canary["level"] == "ok", canary
    assert counts() == before


def test_what_a_killed_doctor_left_is_deleted_by_the_next(
    program: Program, home: Path, sql: Connection, tmp_path: Path
) -> None:
    owner = canary._environment(load(program.environment), tmp_path)["CEMS_OWNER"]
    program.having({"CEMS_OWNER": owner})("memory", "add", "Left behind.")
    with exclusive(home, "doctor"):
        found = program.json("doctor", code=None)["findings"]
    (one,) = [one for one in found if one["part"] == "canary"]
    assert one["level"] == "warning" and "another doctor" in one["says"]
    assert sql.execute("select 1 from cems.memory").fetchone()
    sql.execute("revoke delete on cems.project from cems_owner")
    found = program.json("doctor", code=None)["findings"]
    (one,) = [one for one in found if one["part"] == "canary"]
    assert one["level"] == "warning" and "could not be deleted" in one["says"]
    sql.execute("grant delete on cems.project to cems_owner")
    program("doctor", code=None)
    assert not sql.execute("select 1 from cems.memory").fetchone()


def test_the_trial_session_uses_the_readers_own_login(environment: dict[str, str], tmp_path: Path) -> None:
    url = "postgresql://reader@db/cems"
    settings = load(environment | {"CEMS_READER_DATABASE_URL": url})
    assert canary._environment(settings, tmp_path)["CEMS_READER_DATABASE_URL"] == url


@pytest.mark.parametrize("hooks", ["[]", "null", "5", '{"SessionStart": [5, {"hooks": null}, {"hooks": 3}]}'])
def test_hooks_of_any_shape_are_looked_at(program: Program, config_dir: Path, hooks: str) -> None:
    (config_dir / "skills/cems/hooks/hooks.json").write_text(f'{{"hooks": {hooks}}}')
    assert "has 0 of our hooks" in text(findings(program), "hooks")


def test_a_remedy_that_fails_keeps_no_other_from_its_work(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    mended: list[int] = []

    def fail() -> None:
        raise PermissionError(1, "Operation not permitted")

    wrong = [bad("one", "one is wrong", "x", fail), bad("two", "two is wrong", "x", lambda: mended.append(2))]
    monkeypatch.setattr("cems.cli.doctor._look", lambda quick: iter(wrong))
    done = CliRunner().invoke(doctor, ["--fix", "--json"])
    found = json.loads(done.stdout)
    assert mended == [2] and found["mended"] == ["two is wrong"]
    assert found["not_mended"] == ["one is wrong: [Errno 1] Operation not permitted"]


def test_an_error_without_words_is_still_a_finding(settings: Settings) -> None:
    def check_it(_: Patient) -> Iterator[Finding]:
        raise ValueError
        yield

    (found,) = _guarded(check_it, Patient(settings, dt.datetime.now(dt.UTC), "python"))
    assert (found.part, found.level) == ("it", "bad") and "ValueError" in found.says


def test_an_owners_rows_go_and_no_one_elses(
    settings: Settings, environment: dict[str, str], program: Program
) -> None:
    program("observe", "--once")
    other = load(environment | {"CEMS_OWNER": "another"})
    Program(environment | {"CEMS_OWNER": "another"}, program.folder)("observe", "--once")
    with access.database(other, "cems_owner") as db:
        remove_owner(db)
    mine = program.json("status", code=None)["memories"]["total"]
    assert (
        mine
        and Program(environment | {"CEMS_OWNER": "another"}, program.folder).json("status", code=None)[
            "memories"
        ]["total"]
        == 0
    )


# ---- planted faults: what is done, the part it shows in, a word of what is said, and whether --fix mends it

Plant = Callable[["Installed"], None]


class Installed:
    """The installation that a fault is planted in."""

    def __init__(self, program: Program, home: Path, config: Path, sql: Connection) -> None:
        self.program, self.home, self.config, self.sql = program, home, config, sql
        self.units = program.folder / "config/systemd/user"

    def hooks(self) -> Path:
        return self.config / "skills/cems/hooks/hooks.json"

    def settings(self, **values: object) -> None:
        (self.config / "settings.json").write_text(json.dumps(values))


def edit(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def both_ways(at: Installed) -> None:
    hooks = at.hooks().read_bytes()
    at.program("install", "--yes", "--settings", "--only", "hooks")
    at.hooks().parent.mkdir(exist_ok=True)
    at.hooks().write_bytes(hooks)


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault, and how it is found."""

    together: str
    """Faults that do not hide one another are planted together."""
    plant: Plant
    part: str
    word: str
    """In what is found or advised."""
    mended: bool
    """Whether --fix mends it."""


FAULTS: dict[str, Fault] = {
    "the home is open to others": Fault("many", lambda at: at.home.chmod(0o755), "home", "chmod 700", True),
    "keys are open to others": Fault(
        "many", lambda at: (at.home / "service.env").chmod(0o644), "home", "chmod 600", True
    ),
    "the redaction key is rubbish": Fault(
        "many2",
        lambda at: void((at.home / "redaction-key").write_text("x")),
        "home",
        "no key",
        False,
    ),
    "the machine's id is rubbish": Fault(
        "many2",
        lambda at: void((at.home / "machine-id").write_text("x")),
        "home",
        "holds no id",
        False,
    ),
    "a setting is misspelt": Fault(
        "misspelt",
        lambda at: at.program.environment.update({"CEMS_OBSERVER_EXCLUDED_PROJECTS": "/x"}),
        "settings",
        "did you mean",
        False,
    ),
    "config.toml has an unknown key": Fault(
        "unknown key",
        lambda at: config_toml(at, "[llm]\nmodle = 'x'\n"),
        "settings",
        "llm.model",
        False,
    ),
    "config.toml with a key is open to others": Fault(
        "open key",
        lambda at: config_toml(at, "[llm]\ngemini_api_key = 'x'\n", 0o644),
        "settings",
        "chmod 600",
        False,
    ),
    "there are no sessions": Fault(
        "no sessions",
        lambda at: at.program.environment.update({"CLAUDE_CONFIG_DIR": "/nowhere"}),
        "transcripts",
        "CLAUDE_CONFIG_DIR",
        False,
    ),
    "transcripts are deleted after a day": Fault(
        "many",
        lambda at: at.settings(cleanupPeriodDays=1),
        "clean-up",
        "cleanupPeriodDays",
        False,
    ),
    "the agent's settings are broken": Fault(
        "broken",
        lambda at: void((at.config / "settings.json").write_text("{")),
        "clean-up",
        "not valid JSON",
        False,
    ),
    "the server is away": Fault(
        "away",
        lambda at: at.program.environment.update({"CEMS_DATABASE_URL": "postgresql://localhost:9/x"}),
        "database",
        "does not answer",
        False,
    ),
    "the schema is old": Fault(
        "old",
        lambda at: void(at.sql.execute("delete from cems.schema_migration where version > 3")),
        "database",
        "cems db migrate",
        False,
    ),
    "the schema is newer": Fault(
        "newer",
        lambda at: void(at.sql.execute("insert into cems.schema_migration values (9999, 'later')")),
        "database",
        "upgrade",
        False,
    ),
    "something is stored in the future": Fault(
        "many",
        lambda at: void(at.sql.execute("update cems.memory set recorded_at = now() + interval '3 days'")),
        "clock",
        "still to come",
        False,
    ),
    "the reader may write": Fault(
        "many",
        lambda at: void(at.sql.execute("grant delete on cems.memory to cems_reader")),
        "roles",
        "revoke",
        False,
    ),
    "the reader may change a column": Fault(
        "many",
        lambda at: void(at.sql.execute("grant update (title) on cems.memory to cems_reader")),
        "roles",
        "memory",
        False,
    ),
    "rows are not guarded by owner": Fault(
        "many",
        lambda at: void(at.sql.execute("alter table cems.line disable row level security")),
        "roles",
        "enable row level security",
        False,
    ),
    "an index was left unfinished": Fault(
        "many",
        lambda at: void(
            at.sql.execute(
                "update pg_index set indisvalid = false where indexrelid = 'cems.memory_search'::regclass"
            )
        ),
        "indexes",
        "reindexing",
        False,
    ),
    "the observer does not run": Fault("many", lambda at: None, "work", "cems observe", False),
    "something was set aside": Fault("many", lambda at: None, "set aside", "cems set-aside list", False),
    "the key was refused": Fault("many", lambda at: refused(at), "model", "CEMS_GEMINI_API_KEY", False),
    "the model's file is damaged": Fault(
        "many", lambda at: damaged_model(at), "embedder", "delete it", False
    ),
    "hooks are not registered": Fault("many", lambda at: at.hooks().unlink(), "hooks", "cems install", False),
    "hooks are registered twice": Fault("many2", both_ways, "hooks", "twice", True),
    "the hook's copy is another version's": Fault(
        "many3",
        lambda at: void((at.home / "hook/hook.py").write_text("old")),
        "hooks",
        "not this version's",
        True,
    ),
    "the hook's interpreter is gone": Fault(
        "interpreter",
        lambda at: edit(at.hooks(), '"command": "/', '"command": "/gone/'),
        "hooks",
        "is gone",
        True,
    ),
    "one event has no hook": Fault(
        "event",
        lambda at: edit(at.hooks(), '"SubagentStart": [', '"Other": ['),
        "hooks",
        "SubagentStart has 0",
        True,
    ),
    "all hooks are switched off": Fault(
        "off",
        lambda at: at.settings(disableAllHooks=True),
        "hooks",
        "disableAllHooks",
        False,
    ),
    "recall is switched off": Fault(
        "many2",
        lambda at: at.program.environment.update({"CEMS_RECALL_ENABLED": "0"}),
        "recall",
        "CEMS_RECALL_ENABLED",
        False,
    ),
    "a unit is missing": Fault(
        "many",
        lambda at: (at.units / "cems-observer.service").unlink(),
        "services",
        "cems-observer.service is missing",
        False,
    ),
    "a unit is another version's": Fault(
        "many2",
        lambda at: edit(at.units / "cems-observer.service", "WatchdogSec=90", "WatchdogSec=9"),
        "services",
        "not this version",
        False,
    ),
    "services do not run": Fault(
        "many2",
        lambda at: Path(at.program.environment["CALLS"] + ".on").unlink(),
        "services",
        "systemctl --user start",
        False,
    ),
    "services end at logout": Fault(
        "many",
        lambda at: void((at.program.folder / "bin/loginctl").write_text("#!/bin/sh\necho no\n")),
        "services",
        "enable-linger",
        False,
    ),
    "services have no settings": Fault(
        "many2",
        lambda at: (at.home / "service.env").unlink(),
        "services",
        "service.env",
        False,
    ),
}


def void(_: object) -> None:
    """What a lambda did matters, not what it gave."""


def config_toml(at: Installed, text: str, mode: int = 0o600) -> None:
    (at.home / "config.toml").write_text(text)
    (at.home / "config.toml").chmod(mode)


def refused(at: Installed) -> None:
    at.program.environment["CEMS_GEMINI_API_KEY"] = "x"
    at.sql.execute(
        "insert into cems.llm_call (owner_id, id, purpose, model, started_at, milliseconds, outcome, error, resume_at)"
        " select owner_id, gen_random_uuid(), 'extraction', 'm', now(), 1, 'misconfigured', 'API key not valid',"
        " now() + interval '1 hour' from cems.memory limit 1"
    )


def damaged_model(at: Installed) -> None:
    folder = at.home / "models" / "bge-small-en-v1.5-int8"
    folder.mkdir(parents=True)
    for name in ("model.onnx", "tokenizer.json"):
        (folder / name).write_bytes(b"rubbish")
    at.program.environment["CEMS_EMBEDDER"] = "local"


@pytest.mark.parametrize("together", sorted({fault.together for fault in FAULTS.values()}))
def test_planted_faults_are_found(
    program: Program, home: Path, config_dir: Path, sql: Connection, together: str
) -> None:
    faults = {name: fault for name, fault in FAULTS.items() if fault.together == together}
    if together == "many":
        program("observe", "--once")
    at = Installed(program, home, config_dir, sql)
    for fault in faults.values():
        fault.plant(at)
    found = findings(program)
    for name, fault in faults.items():
        assert fault.word in text(found, fault.part), name
    mended = {name: fault for name, fault in faults.items() if fault.mended}
    if mended:
        found = findings(program, "--fix")
        for name, fault in mended.items():
            assert fault.word not in text(found, fault.part), name


def test_what_the_doctor_advises_mends_it(
    program: Program, config_dir: Path, home: Path, sql: Connection
) -> None:
    at = Installed(program, home, config_dir, sql)
    both_ways(at)
    (at.units / "cems-observer.service").unlink()
    (home / "service.env").unlink()
    (home / "hook/hook.py").write_text("old")
    program("install", "--yes")
    assert not {"hooks", "services"} & set(findings(program))
    sql.execute("delete from cems.schema_migration where version > 9000")
    sql.execute("grant delete on cems.memory to cems_reader")
    advice = text(findings(program), "roles")
    sql.execute(advice[advice.index("revoke") :].replace(" on ", " on cems.").encode())
    assert "roles" not in findings(program)
