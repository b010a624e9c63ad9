"""The recall service: one resident process a home that answers hooks on a Unix socket, with the embedder warm and a few
read-only connections open. It keeps nothing that a restart would lose.

Every request is bounded in size, in time and in number; whatever hangs behind it (database, model, file) costs a thread of a
few and an empty answer. The socket (0600) lies in a private folder (0700) of the home and is bound by its short name
from there, so that the home's path may be of any length; systemd may hand over a socket instead."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import structlog

from cems import __version__, home, notify
from recall.answer import Answerer
from recall.bounded import Bounded, Late
from recall.diagnostics import Counters, Trace
from recall.hook import FOLDER, SOCKET
from recall.request import HEALTH, BadRequest, Request, document, read_request, write_reply

CONNECTIONS = 8
"""Requests at a time; more are told that the service is busy."""
ANSWERS = 4
ANSWER_SECONDS = 0.42
"""For one answer: the hook waits a little longer for it."""
HEALTH_SECONDS = 2.0
READ_SECONDS = 1.0
WRITE_SECONDS = 0.5
IDLE_SECONDS = 3600.0
"""Without a request, after which a service that a hook started ends."""
TICK = 2.0
LOOK_SECONDS = 20.0
LOOPS = {"listening": 30.0, "looking": 85.0}
"""What tells that the service lives, and after how many seconds of silence it is stuck."""
SWITCH_SECONDS = 0.0005
_BACKLOG = 32
_FIRST_FD = 3  # SD_LISTEN_FDS_START

_log = structlog.get_logger()


class Service:
    """Listens and answers until `shutdown`."""

    def __init__(
        self,
        folder: Path,
        answerer: Answerer,
        health: Callable[[], dict[str, Any]],
        *,
        idle_seconds: float | None = None,
        tell: notify.Service | None = None,
    ) -> None:
        self._tell = tell or notify.Service(LOOPS, environment={})
        self._folder = folder / FOLDER
        self._answerer = answerer
        self._health = health
        self._idle_seconds = idle_seconds
        self._connections = threading.BoundedSemaphore(CONNECTIONS)
        self._answers = Bounded("answer", ANSWERS)
        self._healths = Bounded("health", 1)
        self.counters = Counters()
        self._last = time.monotonic()
        self._wake, self._woken = socket.socketpair()
        self._code = _code_stamp()

    def shutdown(self) -> None:
        """End soon; may be called from any thread."""
        with contextlib.suppress(OSError):
            self._wake.send(b"x")

    def run(self) -> None:
        """Answer until asked to end, idle for too long, replaced by another socket, or made of code that has changed."""
        # A request is handed between threads; one that computes must not keep the others from their turn for 5 ms.
        sys.setswitchinterval(SWITCH_SECONDS)
        listener, ours = listen(self._folder)
        identity = _identity(self._folder / SOCKET) if ours else None
        _log.info("recall is listening", by="itself" if ours else "systemd")
        self._tell.ready("listening")
        ended = threading.Event()
        threading.Thread(target=self._look, args=(ended,), name="cems-look", daemon=True).start()
        with listener, selectors.DefaultSelector() as selector:
            listener.setblocking(False)
            selector.register(listener, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            why = ""
            while not why:
                self._tell.beat("listening")
                ready = [key.fileobj for key, _ in selector.select(TICK)]
                if self._woken in ready:
                    why = "asked"
                elif ready:
                    self._accept(listener)
                else:
                    why = self._reason_to_end(identity)
        ended.set()
        self._tell.stopping()
        if ours and _identity(self._folder / SOCKET) == identity:
            (self._folder / SOCKET).unlink(missing_ok=True)
        _log.info("recall has ended", why=why)

    def _look(self, ended: threading.Event) -> None:
        """Go the whole way to the memories now and then, and tell; a database that is away is told, not a reason to end."""
        while not ended.wait(LOOK_SECONDS):
            with contextlib.suppress(Late):
                found = self._healths.run(self._health, HEALTH_SECONDS)
                away = found.get("database") != "answers"
                self._tell.beat("looking", "the database does not answer" if away else "answering")

    def _reason_to_end(self, identity: tuple[int, int] | None) -> str:
        if self._idle_seconds is not None and time.monotonic() - self._last > self._idle_seconds:
            return "idle"
        if identity is not None and _identity(self._folder / SOCKET) != identity:
            return "replaced"  # nobody can reach this process any more
        return "upgraded" if _code_stamp() != self._code else ""

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError:  # gone again, or no descriptors left: the next look finds out
            return
        self._last = time.monotonic()
        if not self._connections.acquire(blocking=False):
            trace = Trace("busy", degraded=["busy"])
            self.counters.note(trace)
            with connection, contextlib.suppress(OSError):
                connection.settimeout(0.05)
                connection.sendall(write_reply(b"", "busy"))
            return
        threading.Thread(target=self._serve, args=(connection,), name="cems-request", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """One connection, one request."""
        try:
            with connection:
                deadline = time.monotonic() + READ_SECONDS

                def receive(size: int) -> bytes:
                    connection.settimeout(max(0.001, deadline - time.monotonic()))
                    return connection.recv(size)

                asked = read_request(receive)
                reply = self._health_reply() if asked.event == HEALTH else self._reply(asked)
                connection.settimeout(WRITE_SECONDS)
                connection.sendall(reply)
        except (BadRequest, OSError):
            _log.debug("a connection was closed without an answer")
        except Exception:  # noqa: BLE001 - the request loop: one bad request must not end the service
            _log.exception("a request failed")
        finally:
            self._connections.release()

    def _reply(self, asked: Request) -> bytes:
        """An answer in time: whole, or an empty one that says so."""
        trace = Trace(asked.event if asked.event.isalpha() else "unknown")
        trace.count(input_bytes=len(asked.body))
        try:
            with trace.stage("all"):
                found = self._answers.run(lambda: self._answerer.answer(asked, trace), ANSWER_SECONDS)
        except Late:
            trace = Trace(trace.event, dict(trace.stages), dict(trace.counts), ["late"])
            found = document(trace.event, "")
        except Exception:  # noqa: BLE001 - the request loop: the session gets an empty answer, the log what was wrong
            _log.exception("an answer failed")
            trace.degraded.append("error")
            found = document(trace.event, "")
        self.counters.note(trace)
        _log.info("answered", **trace.flat())
        return write_reply(found, "degraded" if trace.degraded else "ok")

    def _health_reply(self) -> bytes:
        """What the service knows of itself, and whether the whole way to the memories works now."""
        try:
            found = self._healths.run(self._health, HEALTH_SECONDS)
        except Late:
            found = {"ok": False, "database": "late"}
        known = {"version": __version__, "pid": os.getpid()} | found | self.counters.report()
        return write_reply(msgspec.json.encode(known))


def listen(folder: Path) -> tuple[socket.socket, bool]:
    """The listening socket, and whether this process made it. Leaves the process in the socket's folder."""
    if os.environ.get("LISTEN_PID") == str(os.getpid()) and os.environ.get("LISTEN_FDS", "0") != "0":
        for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"):
            os.environ.pop(name, None)
        os.set_inheritable(_FIRST_FD, False)
        return socket.socket(fileno=_FIRST_FD), False
    private(folder)
    os.chdir(folder)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # Made under another name and moved: a hook finds a socket that listens, or the one before, or none.
    beginning = f".{SOCKET}.{os.getpid()}"
    Path(beginning).unlink(missing_ok=True)
    before = os.umask(0o177)
    try:
        listener.bind(beginning)
    finally:
        os.umask(before)
    listener.listen(_BACKLOG)
    Path(beginning).replace(SOCKET)
    return listener, True


def private(folder: Path) -> None:
    """Make the socket's folder, for its user only.

    Raises:
        SettingsError: it cannot be made or is not ours.
    """
    home.ensure(folder.parent)
    home.ensure(folder)
    folder.chmod(0o700)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISSOCK(found.st_mode) else None


def _code_stamp() -> int:
    """Changes when the program is upgraded under this process, which must not answer from old code for weeks."""
    stamps = [path.stat().st_mtime_ns for path in Path(__file__).parent.glob("*.py")]
    return max(stamps, default=0)
