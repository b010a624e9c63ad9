"""What the agent runs at an event: our interpreter on a copy of the thin hook in the home. The command never changes with an
upgrade, only the copy does; and whatever is missing then, a prompt goes on: an interpreter that finds no file would end
with exit code 2, which erases the prompt, so a line of code looks for it."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import py_compile
import subprocess
import tempfile
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from cems.errors import CemsError

EVENTS = ("UserPromptSubmit", "SessionStart", "SubagentStart")
TIMEOUT = 5
"""Seconds after which the agent cancels the hook, which ends itself long before."""
LAUNCH = (
    "import posix, sys  # cems hook\n"
    "try:\n"
    "    folder = sys.argv.pop(1)\n"
    "    home = folder.rpartition('/')[0].encode('utf-8', 'surrogateescape')\n"
    "    posix.environ.setdefault(b'CEMS_HOME', home)\n"
    "    sys.dont_write_bytecode = True\n"
    "    sys.path.insert(0, folder)\n"
    "    from hook import main\n"
    "except BaseException:\n"
    "    posix.write(1, b'{}')\n"
    "    posix._exit(0)\n"
    "main()\n"
)
"""The hook is imported, because a module is kept compiled. Its home is where its copy lies, unless the session says otherwise.
Whatever goes wrong before the hook's own guards begin: an empty document and exit code 0."""


class HookFailed(CemsError):
    """The hook did not answer as the agent wants it."""


def folder(home: Path) -> Path:
    """Where the copy lies."""
    return home / "hook"


def copies(home: Path) -> dict[Path, bytes]:
    """The files of the copy and their content: the hook, and the same compiled for this interpreter."""
    source = resources.files("recall") / "hook.py"
    path = folder(home) / "hook.py"
    with resources.as_file(source) as file, tempfile.TemporaryDirectory() as place:
        compiled = Path(place) / "hook.pyc"
        # Not checked against its source at each run: both are written together, and `cems doctor` compares both.
        unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(str(file), str(compiled), str(path), doraise=True, invalidation_mode=unchecked)
        return {
            path: source.read_bytes(),
            Path(importlib.util.cache_from_source(str(path))): compiled.read_bytes(),
        }


def refresh(home: Path) -> None:
    """Bring an installed copy up to date with this program; where there is none, none is made."""
    with contextlib.suppress(OSError, py_compile.PyCompileError):
        for path, content in copies(home).items():
            if path.exists() and path.read_bytes() != content:
                write(path, content)


def write(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file of ours whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    try:
        with os.fdopen(fd, "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def handler(python: str, home: Path, event: str) -> dict[str, Any]:
    """The agent's description of our hook for one event. With `args` no shell is involved."""
    return {
        "type": "command",
        "command": python,
        "args": ["-I", "-S", "-c", LAUNCH, str(folder(home)), event],
        "timeout": TIMEOUT,
    }


def ask(
    python: str, home: Path, event: str, *, environment: Mapping[str, str] | None = None, **given: str
) -> str:
    """Run the installed hook exactly as the agent does; the text it gives to the session.

    Args:
        environment: of the hook; this process's where None.
        given: what the agent tells it besides the event's name.

    Raises:
        HookFailed: it did not answer as the agent wants it; says what it did.
    """
    run = handler(python, home, event)
    try:
        done = subprocess.run(
            [run["command"], *run["args"]],
            env=None if environment is None else dict(environment),
            input=json.dumps({"hook_event_name": event, **given}).encode(),
            capture_output=True,
            timeout=run["timeout"],
            check=False,
        )
        found = json.loads(done.stdout)["hookSpecificOutput"]
        named, text = found["hookEventName"], str(found["additionalContext"])
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, TypeError) as error:
        raise HookFailed(f"it does not answer as it should: {type(error).__name__}") from error
    if done.returncode or named != event:
        raise HookFailed(f"exit code {done.returncode}, answer for {named}")
    return text


def groups(python: str, home: Path) -> dict[str, dict[str, Any]]:
    """One group for each event."""
    return {event: {"hooks": [handler(python, home, event)]} for event in EVENTS}


def is_ours(handler: Any) -> bool:
    """Whether a handler in somebody's settings is ours, of this version or another."""
    if not isinstance(handler, dict):
        return False
    args = handler.get("args")
    return isinstance(args, list) and any(isinstance(a, str) and "# cems hook" in a for a in args)
