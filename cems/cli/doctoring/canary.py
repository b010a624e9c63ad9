"""The whole way once: a session of an owner who is nobody is landed, observed, found by search and by the real hook, and
everything of it is deleted again. It uses the real database and the real programs, and touches no row of the user's."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import secrets
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cems import settings as configuration
from cems.cli.doctoring.finding import Finding, Patient, bad, ok
from cems.cli.installing import hooks
from cems.errors import CemsError
from cems.settings import Settings
from db import access, embedded, health
from db.connect import OUTAGES
from recall.client import health as recall_health

_SECONDS = 60
_START_SECONDS = 20.0


def check_canary(patient: Patient) -> Iterator[Finding]:
    """From a transcript to a session's prompt."""
    word = f"kanari{secrets.token_hex(3)}"
    with tempfile.TemporaryDirectory(prefix="cems-doctor-") as folder:
        place = Path(folder)
        environment = _environment(patient.settings, place)
        try:
            yield from _follow(patient.python, place, environment, word)
        finally:
            with contextlib.suppress(CemsError, *OUTAGES):
                trial = configuration.load(environment)
                with access.database(trial, "cems_owner", start=False) as db:
                    health.remove_owner(db)


def _follow(python: str, place: Path, environment: Mapping[str, str], word: str) -> Iterator[Finding]:
    work = place / "work"
    work.mkdir()
    _write_session(place / "claude", work, word)
    observed = _cems(python, environment, "observe", "--once", "--json")
    if observed is None or not observed.get("observations"):
        yield bad(
            "canary",
            "a trial session was not turned into a memory",
            "`cems observe --once` on your own sessions says why",
        )
        return
    found = _cems(python, environment, "search", f"deploying {word}", "--json")
    if not found or not any(word in hit["title"] + hit["body"] for hit in found["results"]):
        yield bad(
            "canary",
            "its memory was stored, but search does not find it",
            "`cems search` with a word of a memory you know",
        )
        return
    with _recall(python, environment, place / "home"):
        given = _ask_hook(
            python, environment, place / "home", work, f"How do we deploy {word} here, and when?"
        )
    if word not in given:
        yield bad(
            "canary", "search finds it, but the hook does not give it to a session", "`cems recall --health`"
        )
        return
    yield ok(
        "canary", "a trial session was landed, observed, found, given to a session by the hook, and deleted"
    )


def _environment(settings: Settings, place: Path) -> dict[str, str]:
    """The user's own, but for another home, another owner, and rules instead of a model that costs."""
    url = settings.database_url
    if not url:
        url = embedded.status(settings.home).dsn(embedded.SUPERUSER, access.DATABASE)
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("CEMS_", "GEMINI_", "GOOGLE_"))}
    return keep | {
        "CEMS_HOME": str(place / "home"),
        "CEMS_DATABASE_URL": url,
        "CEMS_OWNER": f"cems-doctor-{uuid.uuid4()}",
        "CEMS_EMBEDDER": settings.embedder if settings.embedder == "local" else "none",
        "CEMS_EMBEDDING_MODEL_DIR": str(settings.model_dir),
        "CLAUDE_CONFIG_DIR": str(place / "claude"),
    }


def _write_session(config: Path, work: Path, word: str) -> None:
    at, session = dt.datetime.now(dt.UTC) - dt.timedelta(minutes=30), str(uuid.uuid4())
    path = config / "projects" / "trial" / f"{session}.jsonl"
    path.parent.mkdir(parents=True)
    says: tuple[tuple[str, Any], ...] = (
        ("user", f"From now on, never deploy {word} on a Friday. Always run the smoke tests first."),
        (
            "assistant",
            [
                {
                    "type": "text",
                    "text": f"Understood: {word} is never deployed on a Friday, and smoke tests come first.",
                }
            ],
        ),
    )
    with path.open("w") as file:
        for number, (role, content) in enumerate(says):
            record = {
                "type": role,
                "uuid": str(uuid.uuid4()),
                "parentUuid": None,
                "isSidechain": False,
                "sessionId": session,
                "cwd": str(work),
                "timestamp": (at + dt.timedelta(seconds=number)).isoformat(),
                "message": {"role": role, "content": content},
            }
            file.write(json.dumps(record) + "\n")


def _cems(python: str, environment: Mapping[str, str], *arguments: str) -> Any:
    """What a command says in JSON, or None."""
    try:
        done = subprocess.run(
            [python, "-I", "-m", "cems", *arguments],
            env=dict(environment),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
        )
        return json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None


@contextlib.contextmanager
def _recall(python: str, environment: Mapping[str, str], home: Path) -> Iterator[None]:
    """A recall service of the trial's own, ready to answer."""
    service = subprocess.Popen(
        [python, "-I", "-m", "cems", "recall"],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and not (recall_health(home) or {}).get("ok"):
            time.sleep(0.1)
        yield
    finally:
        service.terminate()
        service.wait(10)


def _ask_hook(python: str, environment: Mapping[str, str], home: Path, work: Path, prompt: str) -> str:
    """What the hook gives to a session with this prompt."""
    for path, content in hooks.copies(home).items():
        hooks.write(path, content)
    handler = hooks.handler(python, home, "UserPromptSubmit")
    given = {
        "hook_event_name": "UserPromptSubmit",
        "session_id": str(uuid.uuid4()),
        "cwd": str(work),
        "prompt": prompt,
    }
    try:
        done = subprocess.run(
            [handler["command"], *handler["args"]],
            env=dict(environment),
            input=json.dumps(given).encode(),
            capture_output=True,
            timeout=handler["timeout"],
            check=False,
        )
        return str(json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"])
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError):
        return ""
