"""Memories by hand: added one by one and as JSON Lines, forgotten, restored, and erased with all that belongs to them."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path

import pytest

from db.connect import Connection
from tests.program import Program
from tests.sample_sessions import copy_samples


@pytest.fixture
def program(environment: dict[str, str], tmp_path: Path) -> Program:
    return Program(environment, tmp_path)


def test_a_text_becomes_title_and_body_in_this_folders_project(program: Program, tmp_path: Path) -> None:
    program("memory", "add", "Always use uv, never pip. The lock file decides.\nAnd so on.")
    (one,) = program.json("memory", "list")["memories"]
    assert (one["kind"], one["title"], one["body"]) == (
        "preference",
        "Always use uv, never pip.",
        "The lock file decides.\nAnd so on.",
    )
    assert (one["project"], one["origin"], one["author"], one["confidence"]) == (
        tmp_path.name,
        "user",
        "hand",
        1.0,
    )
    assert program.json("memory", "list", "--project", ".")["count"] == 1
    assert program.json("memory", "list", "--everywhere-only")["count"] == 0


def test_where_and_what_it_is_can_be_said(program: Program, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    added = program.json(
        "memory",
        "add",
        "Because of the sale.",
        "--title",
        "Deploys go out on Tuesdays",
        "--kind",
        "context",
        "--project",
        str(other),
        "--concept",
        "Why it exists",
        "--file",
        "deploy.yml",
    )
    assert added["new"] == 1 and added["by_kind"] == {"context": 1}
    shown = program.json("memory", "show", added["ids"][0])
    assert (shown["project"], shown["body"], shown["concepts"], shown["files"]) == (
        "other",
        "Because of the sale.",
        ["why-it-exists"],
        ["deploy.yml"],
    )
    assert program.json("memory", "add", "x", "--everywhere")["new"] == 1
    assert program.json("memory", "add", "x", "--everywhere")["seen_again"] == 1
    assert program.json("memory", "list", "--everywhere-only")["memories"][0]["project"] is None
    assert program.json("search", "sale", "--file", "deploy.yml", "--concept", "why-it-exists")["count"] == 1
    assert "known already" in program("memory", "add", "x", "--everywhere").err


def test_what_is_secret_or_private_is_taken_out_before_it_is_stored(
    program: Program, sql: Connection
) -> None:
    token = "ghp_" + "a1B2" * 9
    program("memory", "add", f"The token is {token}. Also <private>my. own</private> words.", "--everywhere")
    row = sql.execute("select title || body || terms as all from memory").fetchone()
    assert row and token not in row["all"] and "[secret:" in row["all"]
    assert "own" not in row["all"] and "words" in row["all"]
    assert "private" in program("memory", "add", "<private>all of it", code=2).err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "nothing to remember"),
        (("  ",), "title or a text"),
        (("x", "--kind", "rule"), "rule"),
        (("x" * 3000,), "2,000"),
        (("x", "--title", "t" * 161), "160"),
        (("x", "--concept", "nonsense"), "nonsense"),
        (("x", "--project", "nowhere"), "nowhere"),
        (("x", "--project", ".", "--everywhere"), "exclude"),
    ],
)
def test_what_cannot_be_stored_is_refused(program: Program, arguments: tuple[str, ...], says: str) -> None:
    assert says in program("memory", "add", *arguments, code=2).err
    assert program.json("memory", "list")["count"] == 0


def test_many_at_once_as_json_lines(program: Program, tmp_path: Path) -> None:
    entries: list[dict[str, object]] = [
        {"text": "Use tabs. They are shorter."},
        {
            "title": "Postgres it is",
            "body": "SQLite locks.",
            "kind": "decision",
            "concepts": ["trade-off"],
            "files": ["a.py"],
            "everywhere": True,
        },
        {"text": "Umlauts: äöü 日本語", "kind": "context", "project": str(tmp_path)},
    ]
    lines = "\n\n".join(json.dumps(e, ensure_ascii=False) for e in entries).encode()
    added = program.json("memory", "add", "-", given=lines)
    assert (
        added["new"] == 3
        and len(added["ids"]) == 3
        and added["by_kind"] == {"preference": 1, "decision": 1, "context": 1}
    )
    assert program.json("memory", "show", added["ids"][1])["project"] is None
    more = program(
        "memory", "add", "--stdin", "--kind", "pattern", "--everywhere", given=b'{"text": "One by option"}\n'
    )
    assert uuid.UUID(more.out.strip())
    assert program.json("memory", "list", "--kind", "pattern")["memories"][0]["project"] is None


def test_one_bad_line_and_nothing_is_stored(program: Program) -> None:
    good = b'{"text": "Good."}'
    bad = {
        b'{"text": "a\0b"}': "NUL byte",
        b'{"text": "a\\u0000b"}': "NUL character",
        b'{"text": "' + b"x" * 1_000_000 + b'"}': "longer than",
        b'{"text": "\xff\xfe"}': "UTF-8",
        b'{"text": "x", "kind": "rule"}': "preference, decision",
        b'{"text": "x", "colour": 1}': "colour",
        b'{"text": 5}': "str",
        b"[" * 100_000: "longer than",
        b"[" * 60_000: "line 19",
        b"no json": "JSON",
        b"{}": "title or a text",
        b'{"title": "t", "text": "u"}': "title or a text",
        b'{"text": "x", "everywhere": true, "project": "p"}': "exclude",
        b'{"text": "x", "project": "nowhere"}': "nowhere",
        b'{"text": "x", "concepts": ["nonsense"]}': "nonsense",
    }
    given = b"\n".join(part for line in bad for part in (good, line))
    done = program("memory", "add", "-", "--json", given=given, code=2)
    assert f"{len(bad)} of {2 * len(bad)} lines" in done.json["error"]
    for number, reason in zip(range(2, 2 * len(bad) + 1, 2), bad.values(), strict=True):
        detail = next(d for d in done.json["details"] if d.startswith(f"line {number}: "))
        assert reason in detail or reason.startswith("line")
    assert "Traceback" not in done.err
    assert program.json("memory", "list")["count"] == 0
    assert "empty" in program("memory", "add", "-", code=2).err


def test_too_many_lines_are_refused(program: Program) -> None:
    given = b"".join(b'{"text": "%d"}\n' % i for i in range(10_001))
    assert "10,000" in program("memory", "add", "-", given=given, code=2).err
    assert program.json("memory", "list")["count"] == 0


def test_forgetting_holds_and_can_be_taken_back(program: Program) -> None:
    one = program.json("memory", "add", "Never amend commits.", "--everywhere")["ids"][0]
    assert "would be forgotten" in program("memory", "forget", one, "--dry-run").out
    assert program.json("memory", "list")["count"] == 1
    assert program.json("memory", "forget", one)["forgotten"][0]["id"] == one
    assert program.json("memory", "list")["count"] == 0 and program.json("search", "amend")["count"] == 0
    assert program.json("memory", "list", "--state", "forgotten")["memories"][0]["id"] == one
    again = program.json("memory", "add", "Never amend commits.", "--everywhere")
    assert again["forgotten"] == 1 and again["new"] == 0
    program("memory", "restore", one)
    assert program.json("search", "amend")["count"] == 1


def test_a_mistyped_id_among_several_changes_nothing(program: Program) -> None:
    one = program.json("memory", "add", "Keep me.", "--everywhere")["ids"][0]
    program("memory", "forget", one, "01020304-0506", code=1)
    assert program.json("memory", "list")["count"] == 1


def test_show_prints_the_evidence(program: Program, tmp_path: Path) -> None:
    copy_samples(tmp_path, {})
    program("observe", "--once")
    one = program.json("search", "BLAKE3", "--limit", "1")["results"][0]
    shown = program.json("memory", "show", one["id"])
    (source, *_) = shown["evidence"]
    assert source["quote"] and source["origin"] in ("user", "assistant", "tool")
    assert (
        source["session"]
        and source["transcript"].endswith(f"{source['session']}.jsonl")
        and source["at"].startswith("2026-")
    )
    text = program("memory", "show", one["short_id"], COLUMNS="200").out
    for part in (
        one["title"],
        one["id"],
        source["quote"],
        source["session"],
        source["transcript"],
        one["kind"],
    ):
        assert part in text


def test_erasing_removes_memory_vectors_sources_and_the_text_of_its_lines(
    program: Program, tmp_path: Path, sql: Connection
) -> None:
    copy_samples(tmp_path, {})
    program("observe", "--once")
    one = program.json("search", "BLAKE3", "--limit", "1")["results"][0]["id"]
    sql.execute(
        "insert into embedding select owner_id, id, 'test@3', '[1,0,0]', content_hash, now() from memory where id = %s",
        (one,),
    )
    lines = [
        r["line_uuid"]
        for r in sql.execute("select line_uuid from memory_source where memory_id = %s", (one,))
    ]
    assert lines
    would = program.json("memory", "erase", one, "--dry-run")
    assert (
        would["dry_run"]
        and would["erased"][0]["vectors"] == 1
        and would["erased"][0]["sources"] == len(lines)
    )
    assert "--yes" in program("memory", "erase", one, code=2).err
    assert "--yes" in program("memory", "erase", one, "--json", code=2).json["hint"]
    assert program.json("memory", "erase", one, "--yes")["erased"][0]["id"] == one
    for table, column in (("memory", "id"), ("embedding", "memory_id"), ("memory_source", "memory_id")):
        assert sql.execute(f"select 1 from {table} where {column} = %s", (one,)).fetchone() is None
    left = sql.execute("select text, tools from line where uuid = any(%s)", (lines,)).fetchall()
    assert len(left) == len(lines) and all(row["text"] == "" and row["tools"] is None for row in left)
    assert program.json("observe", "--once")["observations"] == {}


def test_a_new_folder_is_a_project_without_memories_yet(program: Program, tmp_path: Path) -> None:
    program("memory", "add", "Always use uv.", "--everywhere")
    new = tmp_path / "brand-new"
    new.mkdir()
    found = program.json("search", "uv", "--project", str(new))
    assert [hit["title"] for hit in found["results"]] == ["Always use uv."]
    program("search", "uv", "--project", str(tmp_path / "nowhere"), code=1)


@pytest.mark.parametrize(
    "project", ["x" * 100_000, "/" + "x" * 100_000, "~nobody-of-this-name/x", os.fsdecode(b"\xff/x")]
)
def test_no_name_of_a_project_makes_it_fail(program: Program, project: str) -> None:
    done = program("search", "uv", "--project", project, code=1)
    assert "Traceback" not in done.err and done.err.count("\n") <= 2
