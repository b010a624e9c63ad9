"""All that `cems status` tells, as one document. Nothing is started, nothing is changed, and a part that cannot be read is a
problem to tell, not an error."""

from __future__ import annotations

import datetime as dt
import itertools
import os
import shutil
from collections.abc import Iterator, Mapping
from typing import Any

from cems import __version__, home
from cems.cli import unread
from cems.cli.processes import holder
from cems.errors import CemsError
from cems.ids import short
from cems.settings import Settings
from db import access, embedded, embeddings, ingest, ledger, memories, runs, status
from db.connect import OUTAGES, Database
from maintenance import due

LAG = 3600.0
"""Seconds a whole line may stand in a transcript without being landed."""
OVERDUE = 86400.0
"""Seconds a job may be due without a worker that would run it."""
PROCESSES = {"observer": "observer", "recall": "recall", "maintenance": "maintain", "up": "up"}
"""The processes of a home, and the lock file each holds."""


def read(settings: Settings, now: dt.datetime) -> dict[str, Any]:
    """The whole document; `problems` is empty exactly when `healthy` is true."""
    found: dict[str, Any] = {
        "healthy": True,
        "problems": [],
        "version": __version__,
        "home": str(settings.home),
        "at": now,
        "processes": _processes(settings),
        "database": database(settings),
        "transcripts": None,
        "queue": None,
        "set_aside": None,
        "memories": None,
        "embeddings": None,
        "llm": None,
        "maintenance": None,
        "disk": _disk(settings),
    }
    found["problems"] += found["database"].pop("problems")
    if not found["problems"]:
        try:
            with access.database(settings, "cems_writer", start=False) as db:
                found |= _stored(db, settings, now)
                found["processes"]["leases"] = status.leases(db, now)
                found["maintenance"] = due.outlook(db, settings, now)
        except (CemsError, *OUTAGES) as error:
            found["problems"].append(_problem(error))
    if not found["processes"]["observer"]["running"]:
        found["problems"].append(
            {"problem": "the observer is not running", "hint": "`cems up`, or `cems observe`"}
        )
    if found["transcripts"] and found["transcripts"]["behind_seconds"] > LAG:
        found["problems"].append(
            {
                "problem": "transcripts hold lines that were not read for more than an hour",
                "hint": "the observer's log says why",
            }
        )
    if found["maintenance"]:
        running = found["processes"]["maintenance"]["running"]
        found["problems"] += itertools.chain(
            *(job_problems(job, running, now) for job in found["maintenance"]["jobs"])
        )
    found["healthy"] = not found["problems"]
    return found


def job_problems(job: Mapping[str, Any], running: bool, now: dt.datetime) -> list[dict[str, str]]:
    """What is wrong with a job of maintenance."""
    name, last, found = job["job"], job["last"], []
    if last and last["outcome"] == "failed":
        hint = f"`cems maintenance --show {short(last['id'])}` shows the run, the worker's log the rest"
        found.append({"problem": f"{name} failed: {last['error'] or 'no reason is known'}", "hint": hint})
    if job["stuck"]:
        found.append(
            {
                "problem": f"{name} did nothing in its last {runs.STUCK} runs although work was waiting",
                "hint": f"`cems maintenance --show {short(last['id'])}` has its notes" if last else "",
            }
        )
    if not running and job["due_since"] and (now - job["due_since"]).total_seconds() > OVERDUE:
        found.append(
            {
                "problem": f"{name} has been due for more than a day, and no worker runs",
                "hint": "`cems up`, or `cems maintain`",
            }
        )
    return found


def database(settings: Settings) -> dict[str, Any]:
    """The database alone: kind, running, versions, size; and `problems`."""
    found: dict[str, Any] = {
        "kind": "external" if settings.database_url else "embedded",
        "running": False,
        "version": None,
        "problems": [],
    }
    try:
        if not settings.database_url:
            info = embedded.status(settings.home)
            found |= {
                "running": info.running,
                "pid": info.pid,
                "version": info.version or None,
                "binaries": info.binaries or None,
                "data": str(info.data),
                "socket_dir": str(info.socket_dir),
            }
            if not info.running:
                why = "the database is not running" if info.version else "there is no database yet"
                found["problems"].append(
                    {"problem": why, "hint": "`cems db start`, or `cems up` for everything"}
                )
                return found
        with access.database(settings, "cems_writer", start=False) as db:
            server = status.server(db)
            found |= {"running": True, "version": server.pop("postgres")} | server
    except (CemsError, *OUTAGES) as error:
        found["problems"].append(_problem(error))
    return found


def embedding_model(settings: Settings) -> str | None:
    """The id of the model that makes vectors now, without loading it."""
    if settings.embedder == "none":
        return None
    if settings.embedder == "gemini":
        return f"{settings.embedding_model}@{settings.embedding_dimensions}"
    from cems.providers.local import DIMENSIONS
    from cems.providers.model_file import MODEL_NAME

    return f"{MODEL_NAME}@{DIMENSIONS}"


def _processes(settings: Settings) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, lock in PROCESSES.items():
        pid = holder(settings.home, lock)
        found[name] = {"running": pid is not None, "pid": pid or None}
    return found | {"leases": []}


def _stored(db: Database, settings: Settings, now: dt.datetime) -> dict[str, Any]:
    """What the database says, beside what is on disk."""
    # A home that never observed has no id yet, and looking makes none.
    known = (settings.home / "machine-id").exists()
    disk = unread.look(settings, ingest.cursors(db, home.machine_id(settings.home)) if known else {})
    landed = status.landed(db)
    model = embedding_model(settings)
    return {
        "transcripts": {
            "files": disk.files,
            "bytes": disk.bytes,
            "unread_files": len(disk.unread),
            "unread_bytes": disk.unread_bytes,
            "newest_on_disk": disk.newest,
            "behind_seconds": round(disk.behind(now), 1),
            "landed": landed,
        },
        "queue": status.queue(db, now),
        "set_aside": status.set_aside(db),
        "memories": status.memories(db) | {"projects": [p for p in memories.projects(db) if p["memories"]]},
        "embeddings": {
            "model": model,
            "missing": embeddings.count_missing(db, model) if model else 0,
            "by_model": status.vectors(db),
        },
        "llm": {
            "written_by": settings.llm_model if settings.gemini_api_key else "rules",
            "today": ledger.today(db, ledger.Caps(settings.llm_daily_calls, settings.llm_daily_tokens), now),
        },
    }


def _disk(settings: Settings) -> dict[str, Any]:
    """What the home takes, and what is free beside it."""
    place = settings.home
    while not place.exists() and place != place.parent:
        place = place.parent
    used = 0
    for folder, _, names in itertools.chain(os.walk(settings.home), _outside(settings)):
        for name in names:
            try:
                used += os.lstat(os.path.join(folder, name)).st_blocks * 512  # noqa: PTH118 - thousands of files
            except OSError:
                continue
    return {"used_bytes": used, "free_bytes": shutil.disk_usage(place).free}


def _outside(settings: Settings) -> Iterator[tuple[str, list[str], list[str]]]:
    """The database's folders, where another system user runs it and it cannot live in the home."""
    try:
        data = embedded.status(settings.home).data
    except CemsError:
        return
    if not data.is_relative_to(settings.home.resolve()):
        yield from os.walk(data.parent)


def _problem(error: Exception) -> dict[str, str]:
    if isinstance(error, CemsError):
        return {"problem": str(error), "hint": error.hint}
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return {"problem": f"the database does not answer: {lines[0]}", "hint": ""}
