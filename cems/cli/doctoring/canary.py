"""The whole way once: a session of an owner who is nobody is landed, observed, found by search and by the real hook, and
everything of it is deleted again. It uses the real database and the real programs, and touches no row of the user's. What a
doctor that was killed left is deleted by the next one, because the owner is always the same."""

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

import psycopg

from cems import home
from cems import settings as configuration
from cems.cli.doctoring.finding import Finding, Patient, bad, ok, reason, warning
from cems.cli.installing import hooks
from cems.errors import AlreadyRunning, CemsError
from cems.settings import Settings
from db import access, embedded, health
from db.connect import OUTAGES
from recall.client import health as recall_health

_SECONDS = 60
_START_SECONDS = 20.0
_ADVICE = (
    "the database's user must be able to act as cems_owner; run this again: it deletes what was left first"
)


def check_canary(patient: Patient) -> Iterator[Finding]:
    """From a transcript to a session's prompt."""
    word, part = f"kanari{secrets.token_hex(3)}", "canary"
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(home.exclusive(patient.settings.home, "doctor"))
        except AlreadyRunning as error:
            yield warning(part, f"left out: {error}", "run this again when that one is done")
            return
        folder = tempfile.TemporaryDirectory(prefix="cems-doctor-", ignore_cleanup_errors=True)
        place = Path(stack.enter_context(folder))
        environment = _environment(patient.settings, place)
        if why := _not_removed(environment):
            yield warning(part, f"left out: a trial session could not be deleted: {why}", _ADVICE)
            return
        try:
            wrong = _follow(patient.python, place, environment, word)
        finally:
            why = _not_removed(environment)
        if wrong:
            yield wrong
        if why:
            yield bad(part, f"the trial session could not be deleted: {why}", _ADVICE)
        elif not wrong:
            yield ok(
                part,
                "a trial session was landed, observed, found, given to a session by the hook, and deleted",
            )


def _not_removed(environment: Mapping[str, str]) -> str:
    """Delete every row of the trial's owner; why that failed, or nothing."""
    try:
        with access.database(configuration.load(environment), "cems_owner", start=False) as db:
            health.remove_owner(db)
    except (CemsError, psycopg.Error, *OUTAGES) as error:
        return reason(error)
    return ""


def _follow(python: str, place: Path, environment: Mapping[str, str], word: str) -> Finding | None:
    """The session's way; what is wrong with it."""
    work = place / "work"
    work.mkdir()
    _write_session(place / "claude", work, word)
    observed = _cems(python, environment, "observe", "--once", "--json")
    if observed is None or not observed.get("observations"):
        return bad(
            "canary",
            "a trial session was not turned into a memory",
            "`cems observe --once` on your own sessions says why",
        )
    found = _cems(python, environment, "search", f"deploying {word}", "--json")
    if not found or not any(word in hit["title"] + hit["body"] for hit in found["results"]):
        return bad(
            "canary",
            "its memory was stored, but search does not find it",
            "`cems search` with a word of a memory you know",
        )
    with _recall(python, environment, place / "home"):
        given = _ask_hook(
            python, environment, place / "home", work, f"How do we deploy {word} here, and when?"
        )
    if word not in given:
        return bad(
            "canary", "search finds it, but the hook does not give it to a session", "`cems recall --health`"
        )
    return None


def _environment(settings: Settings, place: Path) -> dict[str, str]:
    """The user's own, but for another home, another owner, and rules instead of a model that costs."""
    url = settings.database_url
    if not url:
        url = embedded.status(settings.home).dsn(embedded.SUPERUSER, access.DATABASE)
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("CEMS_", "GEMINI_", "GOOGLE_"))}
    if settings.reader_database_url:
        keep["CEMS_READER_DATABASE_URL"] = settings.reader_database_url
    return keep | {
        "CEMS_HOME": str(place / "home"),
        "CEMS_DATABASE_URL": url,
        "CEMS_OWNER": f"cems-doctor-{home.machine_id(settings.home)}-{os.getuid()}",
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
def _recall(python: str, environment: Mapping[str, str], trial: Path) -> Iterator[None]:
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
        while time.monotonic() < deadline and not (recall_health(trial) or {}).get("ok"):
            time.sleep(0.1)
        yield
    finally:
        service.terminate()
        try:
            service.wait(10)
        except subprocess.TimeoutExpired:
            service.kill()
            service.wait()


def _ask_hook(python: str, environment: Mapping[str, str], trial: Path, work: Path, prompt: str) -> str:
    """What the hook gives to a session with this prompt."""
    for path, content in hooks.copies(trial).items():
        hooks.write(path, content)
    try:
        return hooks.ask(
            python,
            trial,
            "UserPromptSubmit",
            environment=environment,
            session_id=str(uuid.uuid4()),
            cwd=str(work),
            prompt=prompt,
        )
    except hooks.HookFailed:
        return ""
