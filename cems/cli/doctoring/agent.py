"""The agent: hooks and MCP server are registered once, and answer when they are called as the agent calls them."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cems.cli.doctoring.finding import Finding, Patient, bad, ok, warning
from cems.cli.installing import hooks, plan, plugin
from cems.settings import Settings

SLOW = 0.8
"""Seconds: the hook's own promise."""
_MCP_SECONDS = 15
_OFF = ("disableAllHooks", "allowManagedHooksOnly")


def check_hooks(patient: Patient) -> Iterator[Finding]:
    """Registered exactly once, of this version, and allowed to run."""
    settings, part = patient.settings, "hooks"
    ways = plan.installed(settings)["hooks"]
    if not ways:
        yield warning(part, "sessions are given nothing: no hook is registered", "`cems install`")
        return
    if len(ways) > 1:
        yield bad(
            part,
            "they are registered twice, as a plugin and in settings.json, so sessions get everything twice",
            "`cems install` keeps the plugin alone",
            _install(settings, "plugin"),
        )
        return
    for path, content in hooks.copies(settings.home).items():
        if not path.exists() or path.read_bytes() != content:
            yield bad(part, f"{path} is not this version's", "`cems install`", _install(settings, ways[0]))
            return
    for wrong in _wrong_handlers(settings, ways[0]):
        yield bad(part, wrong, "`cems install` registers them anew", _install(settings, ways[0]))
        return
    if off := _switched_off(settings):
        yield bad(
            part,
            f"{off} is set in {plan.settings_file(settings)}: Claude Code runs no hook of yours",
            f"remove {off} there",
        )
        return
    yield ok(part, f"registered once, {'as a plugin' if ways[0] == 'plugin' else 'in settings.json'}")


def check_hook(patient: Patient) -> Iterator[Finding]:
    """It answers as the agent wants it, in time."""
    if not plan.installed(patient.settings)["hooks"]:
        return
    home, began = patient.settings.home, time.monotonic()
    try:
        hooks.ask(patient.python, home, "SessionStart", source="startup", cwd=str(home))
    except hooks.HookFailed as error:
        yield bad("hook", str(error), "`cems install`; then `cems recall --health`")
        return
    took = time.monotonic() - began
    if took > SLOW:
        yield warning(
            "hook",
            f"it took {took:.2f} s",
            "the machine is busy, or the recall service is gone: `cems recall --health`",
        )
    else:
        yield ok("hook", f"answers in {1000 * took:.0f} ms")


def check_recall(patient: Patient) -> Iterator[Finding]:
    """The service behind the hook."""
    from recall.client import health

    if not patient.settings.recall_enabled:
        yield warning("recall", "switched off by CEMS_RECALL_ENABLED", "unset it")
        return
    found = health(patient.settings.home)
    if found is None:
        yield warning(
            "recall",
            "no service answers; hooks find by keywords only",
            "`cems up` or the units run it; a hook starts it at its first use",
        )
    elif not found.get("ok"):
        yield bad(
            "recall",
            f"database {found.get('database')}, embedder {found.get('embedder')}",
            "`cems recall --health`",
        )
    else:
        yield ok("recall", f"process {found.get('pid')}, embedder {found.get('embedder')}")


def check_mcp(patient: Patient) -> Iterator[Finding]:
    """The server starts and speaks."""
    settings = patient.settings
    ways = plan.installed(settings)["mcp"]
    registered = plan.server_is_registered(settings)
    if not ways and not registered:
        yield warning("MCP", "no server is registered", "`cems install`")
        return
    if ways and registered:
        yield bad(
            "MCP",
            "the server is registered twice, by the plugin and by `claude mcp`",
            "claude mcp remove --scope user cems",
        )
        return
    server = plugin.server(patient.python, settings.home)
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "cems doctor", "version": "1"},
        },
    }
    try:
        done = subprocess.run(
            [server["command"], *server["args"]],
            input=json.dumps(hello).encode() + b"\n",
            capture_output=True,
            timeout=_MCP_SECONDS,
            check=False,
        )
        name = json.loads(done.stdout.splitlines()[0])["result"]["serverInfo"]["name"]
    except (OSError, subprocess.TimeoutExpired, ValueError, KeyError, IndexError, TypeError) as error:
        yield bad("MCP", f"the server does not answer: {type(error).__name__}", "run `cems mcp` to see why")
        return
    yield ok("MCP", f"{name} answers")


def _wrong_handlers(settings: Settings, way: str) -> Iterator[str]:
    """What is not as this program would register it."""
    path = (
        plugin.folder(plan.config(settings)) / "hooks" / "hooks.json"
        if way == "plugin"
        else plan.settings_file(settings)
    )
    found = _json(path).get("hooks")
    for event, group in hooks.groups(plan.python(), settings.home).items():
        registered = found.get(event) if isinstance(found, dict) else None
        each = [h for g in _list(registered) if isinstance(g, dict) for h in _list(g.get("hooks"))]
        mine = [handler for handler in each if hooks.is_ours(handler)]
        if len(mine) != 1:
            yield f"{event} has {len(mine)} of our hooks in {path}"
            continue
        command = str(mine[0].get("command"))
        if not Path(command).exists():
            yield f"{command}, which {event} runs, is gone"
        elif mine[0] != group["hooks"][0]:
            yield f"{event} runs another program's hook: {command}"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _switched_off(settings: Settings) -> str:
    found = _json(plan.settings_file(settings))
    return next((name for name in _OFF if found.get(name)), "")


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _install(settings: Settings, way: plan.Way) -> Callable[[], None]:
    def do() -> None:
        for step in plan.install(settings, way, frozenset(["hooks"])):
            step.do()

    return do
