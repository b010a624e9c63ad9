"""`cems recall`: the process that answers hooks. Usually started by `cems up`, by systemd, or by a hook that found none; it
never downloads anything, never starts a database, and can only read."""

from __future__ import annotations

import datetime as dt
import os
import signal
import sys
import time
from typing import Any

import click

from cems import home, notify
from cems import settings as configuration
from cems.cli import output
from cems.cli.processes import Asked, held
from cems.cli.stopping import Stopping
from cems.errors import CemsError
from cems.settings import Settings

NAME = "recall"
_DIRECT_SECONDS = 1


@click.command()
@click.option("--health", is_flag=True, help="Ask the service that runs, print what it says, and end.")
@click.option("--wait", is_flag=True, help="Where another one runs: wait for it to end, then take over.")
@click.option("--while-parent-lives", is_flag=True, hidden=True, help="End when standard input ends.")
@click.option(
    "--on-demand", is_flag=True, hidden=True, help="Started by a hook: end when nothing was asked for long."
)
@click.option(
    "--direct", is_flag=True, hidden=True, help="Answer one request from standard input, by keywords."
)
@output.json_option
def recall(
    health: bool, wait: bool, while_parent_lives: bool, on_demand: bool, direct: bool, as_json: bool
) -> int:
    """Answer the hooks of coding agents, for as long as it runs.

    \b
    Examples:
      cems recall                    answer; Ctrl-C ends it
      cems recall --health           how long answers take, what is missing; no texts
    """
    if direct:
        return answer_one()
    settings = configuration.load()
    if health:
        return show_health(settings, as_json)
    from cems import logs

    logs.configure(settings.log_level, settings.log_format)
    parent = sys.stdin.fileno() if while_parent_lives else None
    with Stopping(exit_code=lambda _: 0, parent=parent) as stopping:
        try:
            with held(settings.home, NAME, stopping, wait=wait):
                return serve(settings, stopping, on_demand)
        except Asked:
            return 0


def serve(settings: Settings, stopping: Stopping, on_demand: bool = False) -> int:
    """The service, under the home's lock, until it is asked to end."""
    import logging

    from cems.cli.installing import hooks
    from recall.answer import Answerer
    from recall.reach import Reach
    from recall.service import IDLE_SECONDS, LOOPS, Service
    from recall.warm import WarmEmbedder

    logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # its pool logs each try; the answers count them
    reach, embedder = Reach(lambda: _open(settings)), WarmEmbedder(settings)
    answerer = Answerer(reach, home.machine_id(settings.home), _now, embedder=embedder)
    service = Service(
        settings.home,
        answerer,
        lambda: _health(reach, embedder),
        idle_seconds=IDLE_SECONDS if on_demand else None,
        tell=notify.Service(LOOPS),
    )
    hooks.refresh(settings.home)
    stopping.then(service.shutdown)
    embedder.start()
    try:
        service.run()
    finally:
        embedder.stop()
        reach.close()
    return 0


def answer_one() -> int:
    """One request from standard input, answered on standard output without a service; whatever fails is an empty answer. The
    hook that asks has little time left, so this process ends itself should the hook be gone."""
    signal.alarm(_DIRECT_SECONDS)
    from recall.answer import Answerer
    from recall.diagnostics import Trace
    from recall.reach import Reach
    from recall.request import read_request, write_reply

    asked = read_request(lambda size: os.read(0, size))
    settings = configuration.load()
    answerer = Answerer(Reach(lambda: _open(settings)), home.machine_id(settings.home), _now)
    reply = write_reply(answerer.answer(asked, Trace(asked.event)))
    while reply:
        reply = reply[os.write(1, reply) :]
    os._exit(0)  # the pool's threads have nothing to say


def show_health(settings: Settings, as_json: bool) -> int:
    """Print what the service says; the exit code tells whether all is well."""
    from recall.client import health

    found = health(settings.home)
    if found is None:
        raise CemsError(
            "no recall service answers", hint="`cems up` runs one; a hook starts one at its first use"
        )
    if as_json:
        output.document(found)
    else:
        output.pairs(
            output.console(), {name.replace("_", " "): _text(value) for name, value in found.items()}
        )
    return 0 if found.get("ok") else 1


def _open(settings: Settings) -> Any:
    from db import access
    from recall.reach import HurriedDatabase

    return HurriedDatabase(access.access(settings, "cems_reader", start=False))


def _health(reach: Any, embedder: Any) -> dict[str, Any]:
    """Whether the whole way works: a real read of the newest memory, and how old it is. A service that answers while nothing
    has been stored for a month is not well, and this is where one sees it."""
    from db.connect import OUTAGES
    from db.memories import Filter, list_memories

    found: dict[str, Any] = {"ok": False, "database": "away", "embedder": embedder.state}
    began = time.monotonic()
    try:
        newest = list_memories(reach.database(), Filter(limit=1))
    except OUTAGES as error:
        reach.failed(error)
    except CemsError as error:
        found["database"] = type(error).__name__
    else:
        found |= {"ok": embedder.state in ("ready", "off", "network"), "database": "answers"}
        found["database_ms"] = round((time.monotonic() - began) * 1000, 2)
        age = (_now() - newest[0].recorded_at).total_seconds() if newest else None
        found["newest_memory_seconds"] = None if age is None else round(age)
    return found


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(inner)}" for name, inner in value.items()) or "none"
    return str(value)


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
