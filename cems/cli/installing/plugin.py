"""The plugin: one folder below the agent's `skills`, with the hooks, the MCP server and the skills in it. No file of the
user's is touched, and taking the folder away takes everything away."""

from __future__ import annotations

import json
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from cems.cli.installing import hooks

NAME = "cems"


def folder(config: Path) -> Path:
    """Where it lies in the agent's configuration folder."""
    return config / "skills" / NAME


def files(config: Path, python: str, home: Path, parts: frozenset[str]) -> dict[Path, bytes]:
    """Its files and their content. Nothing in them changes with an upgrade but the skills' text.

    Args:
        parts: `hooks`, `mcp`, or both; the skills come with `mcp`, whose tools they use.
    """
    found: dict[str, bytes] = {
        ".claude-plugin/plugin.json": _json(
            {
                "name": NAME,
                "description": "The memory of coding agents: what was decided, tried and preferred in earlier sessions.",
            }
        )
    }
    if "hooks" in parts:
        events = {event: [group] for event, group in hooks.groups(python, home).items()}
        found["hooks/hooks.json"] = _json({"description": "Gives memories to a session.", "hooks": events})
    if "mcp" in parts:
        found[".mcp.json"] = _json({"mcpServers": {NAME: server(python, home)}})
        found |= _tree(resources.files("recall") / "plugin" / "skills", "skills")
    return {folder(config) / name: content for name, content in found.items()}


def server(python: str, home: Path) -> dict[str, Any]:
    """How the agent starts the MCP server."""
    return {"command": python, "args": ["-I", "-m", "cems", "mcp"], "env": {"CEMS_HOME": str(home)}}


def _tree(source: Traversable, prefix: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for entry in sorted(source.iterdir(), key=lambda e: e.name) if source.is_dir() else ():
        name = f"{prefix}/{entry.name}"
        found |= _tree(entry, name) if entry.is_dir() else {name: entry.read_bytes()}
    return found


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
