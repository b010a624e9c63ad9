"""Values that some layer refuses, in every field a record has: the record lands, and so do the nine around it."""

from __future__ import annotations

import copy
import datetime as dt
import itertools
import json
import random
import string
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cems.providers.fake import ScriptedGenerator
from cems.settings import Settings
from db import ingest
from db.connect import Connection, Database
from db.ledger import Caps
from observer.batch import close_due
from observer.extract import Extractor
from observer.llm import LlmExtractor
from observer.observe import Observing
from observer.rules import RuleExtractor
from observer.start import capture
from tests.conftest import FakeClock
from tests.fault.sessions import (
    call,
    count,
    landed_uuids,
    prompt,
    replied,
    result,
    session_file,
    uuids,
    write,
)

_NOISE = "".join(random.Random(5).choices(string.ascii_letters, k=3000))
STRINGS = {
    "NUL": "a\0b",
    "lone surrogate": "a\ud83db",
    "last surrogate": "a\udc00",
    "long": _NOISE,
    "deep path": "/" + "/".join(_NOISE[i : i + 200] for i in range(0, 3000, 200)),
    "long name": "/" + "x" * 300,
    "line separators": "a\u2028b\u2029c\u0085d\rb",
    "not a character": "\uffff\ufffe",
}
TIMES = [
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-14:00",
    "yesterday",
    "",
    "1970-01-01T00:00:00Z",
]


def records() -> list[dict[str, Any]]:
    return [
        prompt(1) | {"entrypoint": "cli", "version": "2", "gitBranch": "main"},
        replied(
            "We use tabs because the linter wants them.",
            call("Edit", file_path="/w/a.py", new_string="x = 1"),
        ),
        replied(call("Bash", "toolu_2", command="make test", description="tests")),
        result("ok", "toolu_2"),
        {"type": "custom-title", "customTitle": "A title", "sessionId": "s"},
    ]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where strings are."""
    for key, inner in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        if isinstance(inner, str):
            yield (*path, key)
        else:
            yield from places(inner, (*path, key))


def put(value: Any, path: tuple[Any, ...], new: object) -> Any:
    out = copy.deepcopy(value)
    at = out
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = new
    return out


@pytest.mark.parametrize("poison", STRINGS.values(), ids=STRINGS)
def test_case_S45_a_value_some_layer_refuses_is_sanitised_in_every_field(
    poison: str, db: Database, settings: Settings, projects: Path, clock: FakeClock, sql: Connection
) -> None:
    wanted = []
    numbers = itertools.count(1)
    for number, sound in enumerate(records()):
        for path in places(sound):
            if path[-1] in ("type", "role", "uuid"):
                continue
            made = put(sound, path, poison)
            if "uuid" in made:
                made["uuid"] = str(uuid.uuid4())
                if path != ("timestamp",):  # or it would be a copy of the last one
                    made["timestamp"] = f"2026-11-30T10:00:00.{next(numbers):03d}Z"
            before, after = prompt(next(numbers)), prompt(next(numbers))
            name = f"{number}-" + "-".join(map(str, path))
            file = session_file(projects, name)
            file.write_bytes(b"".join(json.dumps(r).encode() + b"\n" for r in (before, made, after)))
            wanted += uuids([before, after] + ([made] if "uuid" in made else []))
    seen = capture(db, settings, clock)
    seen.run_pass()
    assert seen.report.unreadable == 0
    assert sorted(landed_uuids(sql)) == sorted(wanted)
    observe_all(db, clock, RuleExtractor(clock))


@pytest.mark.parametrize("time", TIMES)
def test_case_S45_a_time_some_layer_refuses_stops_nothing(
    time: str, db: Database, settings: Settings, projects: Path, clock: FakeClock, sql: Connection
) -> None:
    written = [made | {"timestamp": time} for made in records()[:4]]
    write(session_file(projects), *written)
    capture(db, settings, clock).run_pass()
    assert sorted(landed_uuids(sql)) == sorted(uuids(written))
    observe_all(db, clock, LlmExtractor(ScriptedGenerator(default={"observations": []})))


def observe_all(db: Database, clock: FakeClock, extractor: Extractor) -> None:
    """Close and observe everything; each batch must be observed."""
    close_due(db, clock.now(), batch_size=50_000, idle=dt.timedelta(0), once=True)
    observing = Observing(db, extractor, (), clock, caps=Caps(10**6, 10**9))
    while observing.run_one():
        pass
    assert ingest.next_due(db) is None


def test_case_S45_two_megabytes_of_text_are_cut_before_the_index(
    db: Database, settings: Settings, projects: Path, clock: FakeClock, sql: Connection
) -> None:
    big = replied("We use tabs because " + " ".join(f"word{i}" for i in range(300_000)))
    write(session_file(projects), prompt(1), big)
    capture(db, settings, clock).run_pass()
    observe_all(db, clock, RuleExtractor(clock))
    assert count(sql, "select count(*) as n from line") == 2
    assert count(sql, "select max(length(text)) as n from line") <= 12_000


def test_case_S45_nan_in_json_is_read_like_any_other_line(
    db: Database, settings: Settings, projects: Path, clock: FakeClock, sql: Connection
) -> None:
    odd = json.dumps(replied("All well.") | {"costUSD": float("nan"), "durationMs": float("-inf")}).encode()
    assert b"NaN" in odd
    before, after = prompt(1), prompt(2)
    write(session_file(projects), before, odd, after)
    capture(db, settings, clock).run_pass()
    assert len(landed_uuids(sql)) == 3
