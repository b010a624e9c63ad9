"""`cems mcp`: the tools an agent calls, over standard input and output. Started by the agent with each of its sessions, so it
answers at once and loads what it needs when a tool is called. Standard output belongs to the protocol alone: whatever else
prints goes to standard error. It ends when its input does, and on a signal; there is nothing to save."""

from __future__ import annotations

import datetime as dt
import fcntl
import gc
import logging
import os
import sys
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from cems import home
from cems import settings as configuration
from cems.cli import output
from cems.cli.stopping import Stopping
from cems.errors import UsageError
from cems.settings import Settings

if TYPE_CHECKING:
    from db.connect import Database, Role
    from recall.mcp.server import Run

TOKENS = 2000
CONNECTIONS = 4
PATIENCE = 3.0
"""Seconds to wait for a connection to the database."""
_OFF = "writing is off; the user can run `cems memory add` or `forget`, or set CEMS_MCP_WRITE=1 for the next session"

_SILENT = ("mcp", "psycopg")
"""Loggers: the first quotes what it could not read, and what the second tells is told in answers."""


@click.command()
@click.option(
    "--max-tokens",
    type=click.IntRange(500, 20_000),
    default=TOKENS,
    show_default=True,
    help="Of one answer, at most, as estimated.",
)
def mcp(max_tokens: int) -> None:
    """Let an agent search memories: a server of the Model Context Protocol on standard input and output.

    It can only read, unless CEMS_MCP_WRITE is set. The project is that of CLAUDE_PROJECT_DIR, or of the folder it is
    started in.

    \b
    Example:
      claude mcp add --scope user cems -- /absolute/path/to/cems mcp
    """
    incoming, outgoing = claim()
    gc.disable()  # what is imported now stays; looking for garbage in it takes a sixth of the start
    settings = configuration.load()
    for name in _SILENT:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if os.isatty(incoming.fileno()):
        output.note("this is for agents, which speak a protocol on standard input; Ctrl-C ends it")
    import anyio

    from recall.mcp import describe
    from recall.mcp.server import Serving

    tools = describe.READING + (describe.CHANGING if settings.mcp_write else ())
    serving = Serving(
        tools,
        describe.instructions(writing=settings.mcp_write),
        partial(_made, settings, max_tokens),
        {tool.name: _OFF for tool in describe.CHANGING},
    )
    gc.freeze()
    gc.enable()
    with Stopping(exit_code=lambda _: 0) as stopping:
        stopping.then(_leave)
        try:
            anyio.run(serving.serve, incoming, outgoing)
        except* BrokenPipeError:
            pass  # the agent is gone
    _leave()


def claim() -> tuple[BinaryIO, BinaryIO]:
    """The two streams of the protocol, taken away from everything else in this process: what reads standard input finds
    nothing, and what prints on standard output prints on standard error.

    Raises:
        UsageError: there is no standard input or output.
    """
    try:
        incoming, outgoing = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in (0, 1))
    except OSError as error:
        raise UsageError("an agent starts this, with standard input and output") from error
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # without a standard error
        os.dup2(nothing, 1)
    os.close(nothing)
    return os.fdopen(incoming, "rb"), os.fdopen(outgoing, "wb")


def opened(settings: Settings, role: Role) -> Database:
    """A role's way to the database. A server that does not run is not started: that is for the user to decide.

    Raises:
        DatabaseUnavailable: it does not answer.
    """
    from db import access
    from db.connect import Database

    return Database(access.access(settings, role, start=False), size=CONNECTIONS, timeout=PATIENCE)


def _made(settings: Settings, tokens: int) -> Mapping[str, Run]:
    """What the tools do, by name; loads the database's driver and the rest."""
    from cems import logs
    from cems.cli import scope
    from recall.mcp.here import Here, Session
    from recall.mcp.meaning import Meanings
    from recall.mcp.tools import Tools

    logs.configure(settings.log_level, settings.log_format)
    here = Here(
        Session(
            settings=settings,
            folder=_folder(os.environ),
            session_id=os.environ.get("CLAUDE_CODE_SESSION_ID", ""),
            tokens=tokens,
            clock=lambda: dt.datetime.now(dt.UTC),
            machine=lambda: home.machine_id(settings.home),
            open=lambda: opened(settings, "cems_reader"),
            when=_when,
            find_projects=lambda db, wanted: scope.find_projects(db, settings, wanted),
            observing=lambda: _observing(settings),
        )
    )
    table: dict[str, Any] = dict(Tools(here, Meanings(settings), writing=settings.mcp_write).table())
    if settings.mcp_write:
        from cems.cli.mcp_writing import Writing

        table |= Writing(here, lambda: opened(settings, "cems_writer")).table()
    return table


def _folder(environment: Mapping[str, str]) -> str:
    """The session's folder: the agent's word, or where this was started."""
    given = environment.get("CLAUDE_PROJECT_DIR", "")
    if given.startswith("/"):
        return given
    try:
        return os.getcwd()  # noqa: PTH109 - as the agent names it
    except OSError:  # it is gone
        return environment.get("PWD") or "/"


def _when(text: str) -> dt.datetime:
    """What a date or an age means.

    Raises:
        UsageError: it is neither.
    """
    from cems.cli import scope

    try:
        found = scope.since(None, None, text)  # type: ignore[arg-type]  # only a wrong text looks at them
    except click.BadParameter as error:
        raise UsageError(error.message) from None
    assert found is not None
    return found


def _observing(settings: Settings) -> str:
    from cems.cli.processes import holder

    pid = holder(settings.home, "observer")
    if pid is None:
        return "NO observer runs on this machine; nothing new is learnt until `cems up` or its service runs."
    return "an observer runs on this machine."


def _leave() -> None:
    """End now: threads that wait for a database, a model or for input have nothing to say."""
    sys.stderr.flush()
    os._exit(0)
