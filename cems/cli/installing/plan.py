"""What has to be done so that CEMS is installed, or is not: the steps that are still missing, in their order."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from cems.cli.installing import hooks, plugin, services
from cems.cli.installing.settings_file import with_hooks, without_hooks
from cems.cli.installing.steps import Step, command, edit, gone, own_files, restored
from cems.cli.processes import holder
from cems.settings import Settings

Way = Literal["plugin", "settings"]
Part = Literal["hooks", "mcp", "services"]
PARTS: tuple[Part, ...] = ("hooks", "mcp", "services")


def python() -> str:
    """This program's interpreter as it was called: links in its path survive an upgrade."""
    return os.path.abspath(sys.executable)  # noqa: PTH100 - `resolve` would follow the links


def config(settings: Settings) -> Path:
    """The agent's configuration folder: the first that is there."""
    folders = settings.claude_dirs()
    return next((folder for folder in folders if folder.is_dir()), folders[0])


def settings_file(settings: Settings) -> Path:
    """The agent's settings file."""
    return config(settings) / "settings.json"


def installed(settings: Settings) -> dict[Part, list[Way]]:
    """In which way the hooks and the MCP server are registered now; twice is once too often."""
    folder = plugin.folder(config(settings))
    file = settings_file(settings)
    text = file.read_text("utf-8", "replace") if file.is_file() else ""
    found: dict[Part, list[Way]] = {"hooks": [], "mcp": []}
    if (folder / "hooks" / "hooks.json").exists():
        found["hooks"].append("plugin")
    if (folder / ".mcp.json").exists():
        found["mcp"].append("plugin")
    if "# cems hook" in text:
        found["hooks"].append("settings")
    return found


def install(settings: Settings, way: Way, parts: frozenset[Part]) -> list[Step]:
    """Steps that install these parts.

    Raises:
        StepFailed: a file cannot be read, or is not what it should be.
    """
    home, at, file = settings.home, config(settings), settings_file(settings)
    steps: list[Step] = []
    if "hooks" in parts:
        steps += own_files(hooks.copies(home), show=False)
    if way == "plugin":
        kept = {part for part, ways in installed(settings).items() if "plugin" in ways}
        wanted = plugin.files(at, python(), home, frozenset(parts | kept)) if parts - {"services"} else {}
        steps += gone([p for p in _plugin_files(at) if wanted and p not in wanted])
        steps += own_files(wanted, 0o644)
        if "hooks" in parts and file.is_file():
            steps += restored(file, lambda text: without_hooks(text, hooks.is_ours), _backups(home))
    else:
        if "hooks" in parts:
            groups = hooks.groups(python(), home)
            steps += edit(file, lambda text: with_hooks(text, groups, hooks.is_ours), _backups(home))
        if "mcp" in parts:
            steps += _register_server(settings)
        kept = {part for part, ways in installed(settings).items() if "plugin" in ways} - parts
        wanted = plugin.files(at, python(), home, frozenset(kept)) if kept else {}
        if parts - {"services"}:
            steps += gone([p for p in _plugin_files(at) if p not in wanted], _plugin_folders(at))
    if "services" in parts:
        steps += services.install(settings, python(), services.manager())
    return steps


def uninstall(settings: Settings) -> list[Step]:
    """Steps that take away all that any installation put anywhere; memories and settings stay.

    Raises:
        StepFailed: a file cannot be read, or is not what it should be.
    """
    home, at, file = settings.home, config(settings), settings_file(settings)
    steps = services.uninstall(settings, services.manager())
    if (process := holder(home, "recall")) and _was_started_by_a_hook(process):
        steps.append(
            Step(f"stop the recall service that a hook started (process {process})", _ending(process))
        )
    steps += gone(_plugin_files(at), _plugin_folders(at))
    if file.is_file():
        steps += restored(file, lambda text: without_hooks(text, hooks.is_ours), _backups(home))
    if server_is_registered(settings):
        steps.append(
            command(
                "claude", "mcp", "remove", "--scope", "user", plugin.NAME, why="the MCP server", may_fail=True
            )
        )
    return steps + gone(_files_in(hooks.folder(home)), _folders_of(hooks.folder(home)))


def _was_started_by_a_hook(process: int) -> bool:
    """Another one belongs to a service or to `cems up`, which ends it."""
    try:
        return b"--on-demand" in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:  # no such folder on macOS
        ps = ["ps", "-o", "args=", "-p", str(process)]
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            return (
                "--on-demand"
                in subprocess.run(ps, capture_output=True, text=True, timeout=10, check=False).stdout
            )
    return False


def _ending(process: int) -> Callable[[], None]:
    def do() -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)

    return do


def _backups(home: Path) -> Path:
    return home / "backups"


def _files_in(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if not p.is_dir()) if folder.is_dir() else []


def _folders_of(folder: Path) -> list[Path]:
    """A folder and those in it, the innermost first."""
    return [*sorted((p for p in folder.rglob("*") if p.is_dir()), reverse=True), folder]


def _plugin_files(config: Path) -> list[Path]:
    """Every file in the plugin's folder, which is ours as a whole."""
    return _files_in(plugin.folder(config))


def _plugin_folders(config: Path) -> list[Path]:
    """The plugin's folder and those in it, the innermost first."""
    return _folders_of(plugin.folder(config))


def server_command(settings: Settings) -> list[str]:
    """The agent's own command that registers the MCP server; the agent knows where it keeps them."""
    server = plugin.server(python(), settings.home)
    # `--env` takes every word up to the next option.
    options = ["--env", f"CEMS_HOME={settings.home}", "--transport", "stdio", "--scope", "user"]
    return ["claude", "mcp", "add", *options, plugin.NAME, "--", server["command"], *server["args"]]


def _register_server(settings: Settings) -> list[Step]:
    if server_is_registered(settings) or not shutil.which("claude"):
        return []
    return [command(*server_command(settings), why="the MCP server")]


def server_is_registered(settings: Settings) -> bool:
    """Whether the agent knows the server by itself. Its file lies beside the folder, or in it where the folder was moved."""
    folder = config(settings)
    for file in (folder / ".claude.json", folder.parent / ".claude.json"):
        try:
            servers = json.loads(file.read_text()).get("mcpServers", {})
        except (OSError, ValueError, AttributeError):
            continue
        if isinstance(servers, dict) and plugin.NAME in servers:
            return True
    return False
