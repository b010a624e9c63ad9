"""Files that cannot be read, are not what they seem, lie elsewhere or are copies of others."""

from __future__ import annotations

import errno
import os
import uuid
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from cems.settings import Settings
from db.connect import Connection, Database
from observer import tail
from observer.start import capture
from tests.conftest import FakeClock
from tests.fault.sessions import (
    answer,
    append,
    count,
    landed,
    landed_uuids,
    prompt,
    session_file,
    uuids,
    write,
)


def test_T4_an_unreadable_file_is_said_once_and_read_when_it_can_be(
    db: Database,
    settings: Settings,
    clock: FakeClock,
    projects: Path,
    sql: Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shut, open_ = write(session_file(projects, "a"), prompt(1)), write(session_file(projects, "b"), prompt(2))
    real = os.open

    def refuse(path: Path, *rest: int) -> int:
        if path == shut:  # root may read what it likes, so the refusal is made here
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path, *rest)

    seen = capture(db, settings, clock)
    with capture_logs() as logs, monkeypatch.context() as patch:
        patch.setattr("os.open", refuse)
        for _ in range(3):
            append(open_, prompt(count(sql, "select count(*) as n from line") + 10))
            seen.run_pass()
    assert [line["path"] for line in logs if line["event"] == "cannot be read"] == [str(shut)]
    assert seen.report.unreadable == 1
    assert count(sql, "select count(*) as n from line") == 4
    seen.run_pass()
    assert count(sql, "select count(*) as n from line") == 5


def test_T4_an_unreadable_folder_hides_only_itself(
    db: Database,
    settings: Settings,
    clock: FakeClock,
    projects: Path,
    sql: Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(session_file(projects, folder="-a"), prompt(1))
    write(session_file(projects, folder="-b"), prompt(2))
    real = os.scandir

    def refuse(path: Path) -> object:
        if Path(path).name == "-a":
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(path)

    with capture_logs() as logs, monkeypatch.context() as patch:
        patch.setattr("os.scandir", refuse)
        seen = capture(db, settings, clock)
        seen.run_pass()
        seen.run_pass()
    assert len([line for line in logs if line["event"] == "cannot be read"]) == 1
    assert count(sql, "select count(*) as n from line") == 1


def test_T4_nothing_outside_the_root_is_read(
    db: Database, settings: Settings, clock: FakeClock, projects: Path, sql: Connection, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    secret = write(outside / "s.jsonl", prompt(1))
    mine = prompt(2)
    path = write(session_file(projects), mine)
    (path.parent / "link.jsonl").symlink_to(secret)
    (path.parent / "hard.jsonl").symlink_to("hard.jsonl")
    (projects / "-elsewhere").symlink_to(outside, target_is_directory=True)
    folder = path.with_suffix("") / "subagents"
    folder.parent.mkdir()
    folder.symlink_to(outside, target_is_directory=True)
    (outside / "agent-a.jsonl").write_bytes(secret.read_bytes())
    (projects / "-loop").symlink_to(projects, target_is_directory=True)
    (path.parent / "folder.jsonl").mkdir()
    os.mkfifo(path.parent / "pipe.jsonl")
    seen = capture(db, settings, clock)
    seen.run_pass()
    assert landed_uuids(sql) == [mine["uuid"]]
    assert {row["path"] for row in landed(sql)} == {str(path)}


def test_T4_a_file_that_becomes_a_symlink_between_the_look_and_the_opening(tmp_path: Path) -> None:
    outside = write(tmp_path / "s.jsonl", prompt(1))
    link = tmp_path / "link.jsonl"
    link.symlink_to(outside)
    with pytest.raises(OSError, match="symbolic"):
        tail.TranscriptFile(link)


def test_T4_a_folder_removed_while_it_is_read(
    db: Database,
    settings: Settings,
    clock: FakeClock,
    projects: Path,
    sql: Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = (
        write(session_file(projects, folder="-a"), prompt(1)),
        write(session_file(projects, folder="-b"), prompt(2)),
    )
    real = os.open

    def vanish(path: Path, *rest: int) -> int:
        if path == first:
            first.unlink(missing_ok=True)
            second.unlink(missing_ok=True)
            second.parent.rmdir()
        return real(path, *rest)

    monkeypatch.setattr("os.open", vanish)
    seen = capture(db, settings, clock)
    assert seen.run_pass() == 0
    assert seen.report.unreadable == 0


def test_T3_a_fork_brings_only_what_is_new(
    db: Database, settings: Settings, clock: FakeClock, projects: Path, sql: Connection
) -> None:
    made = [prompt(1), answer(1), prompt(2), answer(2)]
    write(session_file(projects, "one"), *made)
    new = answer(3)
    write(session_file(projects, "two"), *(r | {"sessionId": "two", "slug": None} for r in made), new)
    seen = capture(db, settings, clock)
    seen.run_pass()
    assert sorted(landed_uuids(sql)) == sorted(uuids([*made, new]))
    assert seen.report.lines_skipped == {"copy": 4}


def test_case_P22_copies_under_other_uuids(
    db: Database, settings: Settings, clock: FakeClock, projects: Path, sql: Connection
) -> None:
    """Forks by an SDK and replays by a side question give copies uuids of their own; time, message and words stay."""
    made = [prompt(1), answer(1)]
    write(session_file(projects, "one"), *made)
    copies = [
        r | {"uuid": str(uuid.uuid4()), "isSidechain": True, "agentId": "a1", "requestId": "req_2"}
        for r in made
    ]
    agent = session_file(projects, "one").with_suffix("") / "subagents" / "agent-a1.jsonl"
    agent.parent.mkdir(parents=True)
    new = prompt(2, agent="a1")
    write(agent, *copies, new)
    seen = capture(db, settings, clock)
    seen.run_pass()
    assert sorted(landed_uuids(sql)) == sorted(uuids([*made, new]))
    assert seen.report.lines_skipped == {"copy": 2}


def test_case_P22_a_resumed_copy_with_new_times_and_another_shape(
    db: Database, settings: Settings, clock: FakeClock, projects: Path, sql: Connection
) -> None:
    made = [prompt(1), answer(1)]
    write(session_file(projects, "one"), *made)
    text = made[0]["message"]["content"]
    again = [
        {"type": "summary", "summary": "A title", "leafUuid": made[1]["uuid"]},
        made[0] | {"message": {"role": "user", "content": [{"type": "text", "text": text}]}},
        made[1] | {"sessionId": "two", "timestamp": "2027-01-01T00:00:00.000Z"},
        prompt(2),
    ]
    write(session_file(projects, "two"), *again)
    capture(db, settings, clock).run_pass()
    assert sorted(landed_uuids(sql)) == sorted([*uuids(made), again[3]["uuid"]])


def test_case_P24_a_subagent_has_its_own_identity_and_its_parent(
    db: Database, settings: Settings, clock: FakeClock, projects: Path, sql: Connection
) -> None:
    name = "0b0e7a5c-6c8e-4a3e-9f53-1d2f7f0a9b11"
    main = session_file(projects, name)
    write(main, prompt(1, name), answer(1, name))
    inside = prompt(2, name, agent="x1")
    append(main, inside)  # as older versions did, in the parent's own file
    new = main.with_suffix("") / "subagents" / "agent-n1.jsonl"
    new.parent.mkdir(parents=True)
    write(new, prompt(3, name, agent="n1"))
    old = write(main.parent / "agent-0ddba11f.jsonl", prompt(4, name, agent="0ddba11f"))
    capture(db, settings, clock).run_pass()
    sessions = {str(row["id"]): row for row in sql.execute(b"select * from session").fetchall()}
    assert len(sessions) == 4
    own = {row["agent"]: row for row in sessions.values()}
    assert set(own) == {None, "sidechain", "n1", "0ddba11f"}
    assert str(own[None]["id"]) == name
    assert {str(own[a]["parent_id"]) for a in ("sidechain", "n1", "0ddba11f")} == {name}
    assert {row["origin"] for row in landed(sql) if row["path"] in (str(new), str(old))} == {"assistant"}
    assert len(landed(sql)) == 5
