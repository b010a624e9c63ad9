"""Processes of the server: run its tools as the right user, set it free from whoever starts it, tell it from
a stranger that got its process id. Relies on command lines, which every user may read: `/proc/PID/cwd` of
another user is closed even to root in an ordinary container."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cems.errors import EmbeddedPostgresError

from .layout import Layout

TOOL_SECONDS = 120.0

# Forks once more, so that the server is nobody's child: no starter has to reap it, and a zombie cannot pass
# for it. The first line on standard output is its process id; whatever follows is why exec failed. The pipe
# closes by exec.
_DETACH = """
import os, sys
uid, gid, log, *argv = sys.argv[1:]
if os.fork():
    os._exit(0)
pipe = os.dup(1)
try:
    os.dup2(int(log), 1)
    os.dup2(int(log), 2)
    os.umask(0o077)
    os.chdir("/")
    if int(uid) != os.geteuid():
        os.setgroups([])
        os.setgid(int(gid))
        os.setuid(int(uid))
    os.write(pipe, b"%d\\n" % os.getpid())
    os.execv(argv[0], argv)
except BaseException as error:
    os.write(pipe, str(error).encode())
os._exit(127)
"""


@dataclass(frozen=True)
class Process:
    """A process as the system lists it."""

    pid: int
    uid: int
    command: bytes
    """The arguments, joined with one space each."""


def run_tool(
    layout: Layout, argv: Sequence[str | Path], env: Mapping[str, str], *, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a program of the server's to its end, as the server's user; both outputs come back as one text in
    `stdout`.

    Raises EmbeddedPostgresError when it has not ended after TOOL_SECONDS."""
    dropping = os.geteuid() != layout.server_uid
    try:
        return subprocess.run(
            argv,
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd="/",
            env=env,
            umask=0o077,
            timeout=TOOL_SECONDS,
            check=False,
            user=layout.server_uid if dropping else None,
            group=layout.server_gid if dropping else None,
            extra_groups=[] if dropping else None,
        )
    except subprocess.TimeoutExpired as error:
        raise EmbeddedPostgresError(f"{argv[0]} did not end within {TOOL_SECONDS:.0f} s") from error


def launch(
    layout: Layout, argv: Sequence[str | Path], env: Mapping[str, str], *, log: int, guard: int
) -> int:
    """Start a program as the server's user in its own session, with the descriptor `log` as its outputs and
    `guard` open, child of no process of ours. Gives its process id."""
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            _DETACH,
            str(layout.server_uid),
            str(layout.server_gid),
            str(log),
            *argv,
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=env,
        pass_fds=(log, guard),
        start_new_session=True,
        timeout=TOOL_SECONDS,
        check=False,
    )
    pid, _, problem = done.stdout.partition(b"\n")
    if problem or not pid.isdigit():
        said = (problem or pid or done.stderr).decode(errors="replace").strip()
        raise EmbeddedPostgresError(f"{argv[0]} could not be started: {said}")
    return int(pid)


def is_server(pid: int, data: Path, uid: int) -> bool:
    """Whether `pid` is a live postmaster of this data folder, run by this user; not a zombie, not another
    process that was given the same number later."""
    found = _process(pid)
    if found is None or found.uid != uid:
        return False
    return _serves(found, data)


def servers_of(data: Path, uid: int) -> list[int]:
    """Postmasters of this data folder, whatever its pid file says: one that is starting has not written it
    yet."""
    return [each.pid for each in _processes() if each.uid == uid and _serves(each, data)]


def children_of(cluster: str, uid: int) -> list[int]:
    """Server processes of the cluster of that name (its setting `cluster_name`), by the titles they give
    themselves."""
    title = b"postgres: " + cluster.encode() + b": "
    return [each.pid for each in _processes() if each.uid == uid and each.command.startswith(title)]


def _serves(process: Process, data: Path) -> bool:
    return b"/postgres -D " + os.fsencode(data) + b" " in process.command + b" "


def _processes() -> Iterator[Process]:
    if not Path("/proc/self/cmdline").exists():
        yield from _ask_ps("-ax")
        return
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and (found := _process(int(entry.name))):
            yield found


def _process(pid: int) -> Process | None:
    """None when there is no such process, or only its zombie: that has no command line."""
    folder = Path("/proc") / str(pid)
    if not Path("/proc/self/cmdline").exists():
        return next(_ask_ps("-p", str(pid)), None)
    try:
        command = (folder / "cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ")
        status = (folder / "status").read_bytes()
    except OSError:
        return None
    uid = next((line.split()[2] for line in status.splitlines() if line.startswith(b"Uid:")), b"-1")
    return Process(pid, int(uid), command) if command else None


def _ask_ps(*selection: str) -> Iterator[Process]:
    """Processes by `ps`, where there is no /proc."""
    listing = subprocess.run(
        ["/bin/ps", *selection, "-ww", "-o", "pid=,uid=,stat=,command="],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=TOOL_SECONDS,
        check=False,
    )
    for line in listing.stdout.splitlines():
        fields = line.split(None, 3)
        if len(fields) == 4 and not fields[2].startswith(b"Z"):
            yield Process(int(fields[0]), int(fields[1]), fields[3])
