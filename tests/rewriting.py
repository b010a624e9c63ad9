"""Memories and a model for tests of the jobs that write several memories into fewer."""

from __future__ import annotations

import datetime as dt
import itertools
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cems.ids import derived, uuid7
from cems.providers import GenerateRequest, TextGenerator
from cems.settings import Settings
from cems.terms import terms
from db import runs
from db.connect import Database, Row
from db.memories import content_hash
from maintenance import reflection, summarization
from maintenance.job import Job
from tests.conftest import FakeClock

DAY = dt.datetime(2026, 11, 20, 9, 0, tzinfo=dt.UTC)
TABLES = ("memory", "memory_source", "embedding", "tombstone")
_LINE = re.compile(r"^\[(\d+)\] (\S+) (.*)$", re.M)
_JOBS = {"reflection": reflection.run_once, "summarization": summarization.run_once}


class Died(BaseException):
    """The end of a process."""


def dying(nth: int) -> Callable[[], None]:
    """Ends the process when it passes a point for the nth time."""
    passed = itertools.count(1)

    def die() -> None:
        if next(passed) == nth:
            raise Died

    return die


def project(db: Database, name: str) -> uuid.UUID:
    """A project of this name; the same one each time."""
    found = derived("project", name)
    with db.transaction() as conn:
        conn.execute(
            "insert into project (owner_id, id, identity, name, root, created_at) values (%s, %s, %s, %s, %s, %s)"
            " on conflict do nothing",
            (db.owner_id, found, f"example.org/{name}", name, f"/work/{name}", DAY),
        )
    return found


def remember(
    db: Database,
    title: str,
    body: str = "",
    *,
    of: str = "alpha",
    kind: str = "decision",
    days: int = 0,
    **fields: Any,
) -> uuid.UUID:
    """Store one memory as an observer would have; `days` after DAY."""
    at = DAY + dt.timedelta(days=days)
    values: dict[str, Any] = {
        "owner_id": db.owner_id,
        "id": uuid7(),
        "layer": "observation",
        "kind": kind,
        "project_id": project(db, of),
        "title": title,
        "body": body,
        "terms": terms(title, body),
        "confidence": 0.6,
        "origin": "user" if kind == "preference" else "assistant",
        "author": "rules",
        "content_hash": content_hash(kind, title, body),
        "occurred_at": at,
        "recorded_at": at,
        "changed_at": at,
        **fields,
    }
    columns = ", ".join(values)
    with db.transaction() as conn:
        conn.execute(
            f"insert into memory ({columns}) values ({', '.join(['%s'] * len(values))})".encode(),
            tuple(values.values()),
        )
    found: uuid.UUID = values["id"]
    return found


def everything(db: Database) -> dict[str, list[Row]]:
    """Every stored row of what holds memories."""
    with db.transaction() as conn:
        return {
            t: conn.execute(
                f"select to_jsonb(t) as row from {t} t order by to_jsonb(t)::text".encode()
            ).fetchall()
            for t in TABLES
        }


def rows(db: Database) -> dict[uuid.UUID, Row]:
    """Every memory, with `stands_on`, the ids of what it is linked to."""
    with db.transaction() as conn:
        found = conn.execute(
            "select m.*, array(select source_memory_id from memory_source s"
            " where s.memory_id = m.id and s.source_memory_id is not null) as stands_on from memory m"
        ).fetchall()
    return {row["id"]: row for row in found}


def made(db: Database, layer: str = "reflection") -> list[Row]:
    """The memories of a layer, by title."""
    return sorted((r for r in rows(db).values() if r["layer"] == layer), key=lambda r: r["title"])


def gist(db: Database) -> list[tuple[Any, ...]]:
    """All memories without ids and times of the run: what two ways to the same end must have in common."""
    found = rows(db)
    title = {memory: row["title"] for memory, row in found.items()}
    return sorted(
        (
            r["layer"],
            r["title"],
            r["body"],
            title.get(r["superseded_by"]),
            r["archived_at"] is not None,
            tuple(sorted(title[s] for s in r["stands_on"])),
        )
        for r in found.values()
    )


def run(
    db: Database,
    settings: Settings,
    clock: FakeClock,
    generator: TextGenerator | None = None,
    *,
    name: runs.Job = "reflection",
    dry: bool = False,
    of: uuid.UUID | None = None,
    stopping: Callable[[], bool] = lambda: False,
) -> Job:
    """One run of a job, to its end; a day passes before it."""
    clock.advance(86400)
    began = (
        None
        if dry
        else runs.begin(db, name, asked_by="hand", described="here 1", now=clock.now(), host="here")
    )
    job = Job(db, settings, clock, began, generator, None, of, stopping)
    _JOBS[name](job)
    if began is not None:
        runs.finish(db, began, "done", job.report.to_json(), clock.now())
    return job


def notes(request: GenerateRequest) -> dict[int, str]:
    """The numbered notes of a request."""
    return {int(number): text for number, _, text in _LINE.findall(request.prompt)}


def answering(
    texts: Mapping[str, tuple[str, str]], called: str = "reflections"
) -> Callable[[GenerateRequest], dict[str, Any]]:
    """A model that writes the notes with a word into one text, by word, and keeps the others."""

    def answer(request: GenerateRequest) -> dict[str, Any]:
        found = notes(request)
        written = []
        for word, (title, body) in texts.items():
            numbers = [n for n, text in found.items() if word in text]
            if len(numbers) > 1:
                written.append({"from": numbers, "title": title, "body": body})
        return {called: written, "kept": left(found, written)}

    return answer


def left(found: Iterable[int], written: Iterable[Mapping[str, Any]]) -> list[int]:
    """The numbers that no text names."""
    named = {n for w in written for n in w["from"]}
    return [n for n in found if n not in named]
