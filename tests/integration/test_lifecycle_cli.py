"""`cems memory pin`, `snooze`, `archive` and the others as processes: exit codes, what is printed, what `--json` says."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from db.connect import Connection
from tests.program import Program


@pytest.fixture
def program(environment: dict[str, str], tmp_path: Path) -> Program:
    return Program(environment, tmp_path)


@pytest.fixture
def ids(program: Program) -> list[str]:
    lines = b"\n".join(
        b'{"text": "Keep the %s apart.", "everywhere": true}' % w for w in (b"varnish", b"quarry")
    )
    return list(program.json("memory", "add", "-", given=lines)["ids"])


def listed(program: Program, state: str) -> list[str]:
    return [m["id"] for m in program.json("memory", "list", "--state", state)["memories"]]


def test_there_and_back_for_several_at_once(program: Program, ids: list[str]) -> None:
    done = program.json("memory", "pin", *ids)
    assert [(row["id"], row["was"], row["changed"]) for row in done["pinned"]] == [
        (i, "active", True) for i in ids
    ]
    assert sorted(listed(program, "pinned")) == sorted(ids)
    assert "nothing to do, pinned already" in program("memory", "pin", ids[0]).out
    assert "unpinned: Keep" in program("memory", "unpin", *ids).out
    assert listed(program, "pinned") == []
    assert "archived: Keep" in program("memory", "archive", ids[0]).out
    assert listed(program, "archived") == [ids[0]] and listed(program, "active") == [ids[1]]
    assert "archived" in program("memory", "show", ids[0]).out
    assert program.json("search", "varnish")["count"] == 0
    assert program.json("memory", "restore", ids[0])["restored"][0]["was"] == "archived"
    assert program.json("search", "varnish")["count"] == 1
    assert "would be archived" in program("memory", "archive", ids[0], "--dry-run").out
    assert listed(program, "archived") == []


def test_snoozing_for_thirty_days_for_some_or_until_a_date(program: Program, ids: list[str]) -> None:
    now = dt.datetime.now(dt.UTC)

    def until(*arguments: str) -> float:
        row = program.json("memory", "snooze", ids[0], *arguments)["snoozed"][0]
        shown = program.json("memory", "show", ids[0])
        assert shown["snoozed_until"] == row["until"]
        return (dt.datetime.fromisoformat(row["until"]) - now) / dt.timedelta(days=1)

    assert 29.9 < until() < 30.1
    assert 6.9 < until("--days", "7") < 7.1
    assert 364 < until("--until", f"{now + dt.timedelta(days=365):%Y-%m-%dT%H:%M}") < 366
    assert listed(program, "snoozed") == [ids[0]]
    assert program.json("search", "varnish")["count"] == 0
    assert "snoozed" in program("memory", "show", ids[0]).out
    assert "unsnoozed" in program("memory", "unsnooze", ids[0]).out
    assert program.json("search", "varnish")["count"] == 1
    for arguments, says in (
        (("--days", "0"), "--days"),
        (("--until", "2020-01-01"), "past"),
        (("--until", "soon"), "no date"),
        (("--days", "3", "--until", "2030-01-01"), "exclude"),
    ):
        assert says in program("memory", "snooze", ids[0], *arguments, code=2).err
    assert listed(program, "snoozed") == []


def test_what_cannot_be_done_says_why_and_changes_nothing(program: Program, ids: list[str]) -> None:
    program("memory", "forget", ids[0])
    failed = program("memory", "snooze", ids[1], ids[0], code=1)
    assert "is forgotten and cannot be snoozed" in failed.err and "cems memory restore" in failed.err
    assert listed(program, "snoozed") == []
    assert "is forgotten" in program("memory", "pin", ids[0], "--json", code=1).json["error"]
    program("memory", "pin", ids[1])
    assert "unpin" in program("memory", "archive", ids[1], code=1).err
    program("memory", "pin", "00000000-dead", code=1)
    assert "ID" in program("memory", "pin", code=2).err


def test_what_was_made_of_a_memory_is_named_when_it_is_erased_or_forgotten(
    program: Program, ids: list[str], sql: Connection
) -> None:
    sql.execute(
        "update memory set superseded_by = %s, superseded_how = 'merged' where id = %s", (ids[1], ids[0])
    )
    assert listed(program, "superseded") == [ids[0]]
    assert "merged into" in program("memory", "show", ids[0]).out
    assert "merged into" in program("memory", "forget", ids[0], code=1).err
    would = program.json("memory", "erase", ids[0], "--dry-run")
    assert [row["id"] for row in would["erased"][0]["derived"]] == [ids[1]]
    said = program("memory", "erase", ids[0], "--dry-run")
    assert "which stays" in said.err and "quarry" in said.err and "would be erased" in said.out
    both = program.json("memory", "erase", *ids, "--dry-run")
    assert [row["derived"] for row in both["erased"]] == [[], []]
    assert "are forgotten" in program("memory", "erase", ids[1], "--dry-run").err.replace("is for", "are for")
    program("memory", "erase", *ids, "--yes")
    assert listed(program, "all") == []


@pytest.mark.parametrize(
    "command", ["pin", "unpin", "snooze", "unsnooze", "archive", "forget", "restore", "erase"]
)
def test_each_has_a_help_with_examples(program: Program, command: str) -> None:
    shown = program("memory", command, "--help").out
    assert f"cems memory {command}" in shown and "Example" in shown and "--json" in shown
