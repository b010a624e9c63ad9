"""Broken bytes: skipped and counted with their place, never fatal, never a reason to stop the file."""

from __future__ import annotations

import base64
import datetime as dt
import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest

from cems.settings import Settings
from db.connect import Connection, Database
from observer.records import decode
from observer.start import capture
from tests.conftest import FakeClock
from tests.fault.running import observing
from tests.fault.sessions import (
    answer,
    append,
    call,
    count,
    landed,
    landed_uuids,
    lines,
    prompt,
    replied,
    result,
    said,
    session_file,
    uuids,
    write,
)
from tests.fault.writer import encode
from tests.waiting import wait_until


@pytest.fixture
def path(projects: Path) -> Path:
    return session_file(projects)


def read(db: Database, settings: Settings, clock: FakeClock, *, once: bool = False) -> dict[str, int]:
    """One look by a fresh observer; what it skipped."""
    seen = capture(db, settings, clock)
    seen.run_pass(once=once)
    return dict(seen.report.lines_skipped)


def test_T2_partial_line_over_several_restarts(
    db: Database, settings: Settings, clock: FakeClock, path: Path, sql: Connection
) -> None:
    made = prompt(1, words="é漢😀" * 20)
    data = lines(made)
    path.touch()
    for byte in (data[i : i + 37] for i in range(0, len(data), 37)):
        with path.open("ab") as f:
            f.write(byte)
        read(db, settings, clock)
    assert landed_uuids(sql) == [made["uuid"]]
    assert "é漢😀" * 20 in landed(sql)[0]["text"]


@pytest.mark.parametrize("separator", [b"", b" ", b"\0\0"])
def test_case_P18_two_records_on_one_line(
    separator: bytes, db: Database, settings: Settings, clock: FakeClock, path: Path, sql: Connection
) -> None:
    made = [prompt(1), answer(1), prompt(2)]
    write(path, separator.join(encode(r) for r in made), made[1], prompt(3))
    assert read(db, settings, clock) == {"copy": 1}
    assert landed_uuids(sql)[:3] == uuids(made)
    assert len(landed(sql)) == 4


def test_case_P18_a_cut_record_before_a_whole_one(
    db: Database, settings: Settings, clock: FakeClock, path: Path, sql: Connection
) -> None:
    whole = [answer(2), prompt(4)]
    write(path, encode(answer(1))[:99] + encode(whole[0]), encode(prompt(3))[:-9] + encode(whole[1]))
    assert read(db, settings, clock) == {}
    assert landed_uuids(sql) == uuids(whole)


def test_case_P18_wherever_it_was_cut() -> None:
    cut, whole = (
        encode(replied('text with {braces} and "quotes"', call("Bash", command="ls {a,b}"))),
        prompt(1),
    )
    for at in range(1, len(cut) - 1):
        found = [record.uuid for record in decode(cut[:at] + encode(whole)) if record.uuid]
        assert found == [whole["uuid"]], cut[:at]


def test_T2_runs_of_zeros_and_carriage_returns(
    db: Database, settings: Settings, clock: FakeClock, path: Path, sql: Connection
) -> None:
    made = [prompt(n) for n in range(5)]
    path.write_bytes(
        b"\0" * 4096
        + encode(made[0])
        + b"\n"
        + encode(made[1])
        + b"\r\n"
        + b"\0" * 100
        + b"\n\n\r\n"
        + encode(made[2])[:60]
        + b"\0\0\0"
        + encode(made[2])[60:]
        + b"\n"
        + encode(made[3])
        + b"\0" * 9
        + b"\r\n"
        + encode(made[4])
        + b"\n"
    )
    assert read(db, settings, clock) == {}
    assert landed_uuids(sql) == uuids(made)


@pytest.mark.parametrize("line", ["\u2028", "\u2029", "\u0085"])
def test_case_P20_only_a_line_feed_ends_a_line(
    line: str, db: Database, settings: Settings, clock: FakeClock, path: Path, sql: Connection
) -> None:
    made = [said(f"always keep{line}this whole"), answer(1)]
    raw = encode(made[0]).replace(
        json.dumps(line)[1:-1].encode(), line.encode()
    )  # raw in the file, as JavaScript writes it
    write(path, raw, made[1])
    read(db, settings, clock)
    assert landed_uuids(sql) == uuids(made)
    assert landed(sql)[0]["text"].split() == ["always", "keep", "this", "whole"]


@pytest.mark.parametrize("character", ["é", "漢", "😀"])
def test_T2_invalid_utf8_cut_at_every_byte_of_a_character(
    character: str, db: Database, settings: Settings, clock: FakeClock, path: Path, sql: Connection
) -> None:
    made: list[dict[str, Any]] = []
    data = b""
    for cut in range(1, len(character.encode())):
        for keep in (character.encode()[:cut], character.encode()[cut:]):
            record = said("always keep @@ whole", at=clock.now() + dt.timedelta(seconds=len(made)))
            made.append(record)
            data += encode(record).replace(b"@@", keep) + b"\n"
    path.write_bytes(data)
    assert read(db, settings, clock) == {}
    assert landed_uuids(sql) == uuids(made)
    assert all("always keep" in row["text"] and "whole" in row["text"] for row in landed(sql))


def test_T2_a_lone_surrogate_escape(
    db: Database, settings: Settings, clock: FakeClock, path: Path, sql: Connection
) -> None:
    broken = json.dumps(said("always cut \ud83d here")).encode()
    harmless = json.dumps(said(r"the text \ud83d with a backslash, always")).encode()
    assert b"\\ud83d" in broken
    write(path, broken, harmless)
    assert read(db, settings, clock) == {}
    assert [row["text"] for row in landed(sql)] == [
        "always cut \ufffd here",
        r"the text \ud83d with a backslash, always",
    ]


@pytest.mark.parametrize("once", [True, False])
def test_T2_a_last_line_without_its_newline(
    once: bool, db: Database, settings: Settings, clock: FakeClock, path: Path, sql: Connection
) -> None:
    """It lands when nothing more is to come; the cursor stays before it, and the newline that comes later changes nothing."""
    first, last, after = prompt(1), prompt(2), prompt(3)
    path.write_bytes(lines(first, last)[:-1])
    seen = capture(db, settings, clock)
    seen.run_pass(once=once)
    assert landed_uuids(sql) == uuids([first, last] if once else [first])
    seen.run_pass()
    assert landed_uuids(sql) == uuids([first, last])
    assert count(sql, 'select "offset" as n from transcript') == len(lines(first))
    with path.open("ab") as f:
        f.write(b"\n")
    append(path, after)
    seen.run_pass()
    assert landed_uuids(sql) == uuids([first, last, after])


def test_T2_half_a_last_line_waits_for_its_other_half(
    db: Database, settings: Settings, clock: FakeClock, path: Path, sql: Connection
) -> None:
    path.write_bytes(lines(prompt(1), prompt(2))[:-40])
    assert read(db, settings, clock, once=True) == {}
    assert len(landed(sql)) == 1


@pytest.mark.fault
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_case_P21_lines_of_15_and_120_megabytes_in_bounded_memory(
    environment: dict[str, str], tmp_path: Path, path: Path, sql: Connection
) -> None:
    image = base64.b64encode(random.Random(1).randbytes(5_600_000)).decode()
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": image}}
    big = replied("always look at the picture", block, block)
    shown = result([{"type": "text", "text": "a picture"}, block])
    made = [prompt(1), big, prompt(2), shown, prompt(3)]
    endless = b'{"type":"user","uuid":"00000000-0000-4000-8000-000000000000","x":"'
    with path.open("wb") as f:
        f.write(lines(*made[:4]))
        f.write(endless)
        for _ in range(120):
            f.write(b"y" * 1_000_000)
        f.write(b'"}\n' + lines(made[4]))
    with observing(environment | {"CEMS_OBSERVER_POLL_INTERVAL": "0.2"}, tmp_path) as observer:
        observer.wait_ready(30)
        wait_until(lambda: len(landed(sql)) == 5, 30)
        status = Path(f"/proc/{observer.process.pid}/status").read_text()
        assert observer.terminate() == 0
    peak = int(status.split("VmHWM:")[1].split()[0]) // 1024
    assert peak < 300, f"{peak} MB"
    assert landed_uuids(sql) == uuids(made)
    assert count(sql, "select max(pg_column_size(l.*)) as n from line l") < 10_000
    rows = sql.execute(b'select reason, bytes, "offset" from set_aside').fetchall()
    assert [(r["reason"], r["bytes"], r["offset"]) for r in rows] == [
        ("too_long", 120_000_003 + len(endless), len(lines(*made[:4])))
    ]
