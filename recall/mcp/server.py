"""The protocol: what the tools are and what a call answers, over a pair of byte streams. It is answered at once; what the tools
need is loaded at the first call. A call has its own thread and its own deadline, and whatever goes wrong in one is an answer
that says what to do, without any detail that was not written for people."""

from __future__ import annotations

import io
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, BinaryIO

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from cems import __version__
from cems.errors import CemsError
from recall.mcp.arguments import Arguments, read, schema
from recall.mcp.describe import Described

SECONDS = 25.0
"""For one call. Whatever hangs behind it is left alone then."""
CALLS = 8
"""At a time; more wait."""
Run = Callable[[Any], str]
_log = logging.getLogger("cems.mcp")


class _Lines:
    """Lines as the protocol's reader takes them: it drops without an answer what it cannot take, and the agent would wait."""

    def __init__(self, lines: anyio.AsyncFile[str]) -> None:
        self._lines = lines

    async def __aiter__(self) -> AsyncIterator[str]:
        async for line in self._lines:
            yield mended(line)


def mended(line: str) -> str:
    """A request that gets an answer: half characters, which JSON can name and UTF-8 cannot hold, are replaced, and parameters
    of a wrong shape are left out, so that what is missing is said. What is no JSON stays as it is."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return line
    if not isinstance(found, dict) or "id" not in found:
        return line
    if not isinstance(found.get("params", {}), dict):
        del found["params"]
    return json.dumps(found, ensure_ascii=False).encode("utf-8", "replace").decode() + "\n"


class Serving:
    """One agent's connection."""

    def __init__(
        self,
        tools: Sequence[Described],
        instructions: str,
        make: Callable[[], Mapping[str, Run]],
        absent: Mapping[str, str],
    ) -> None:
        """Args:
        make: what the tools do, by name; called once, at the first call of one.
        absent: for tools that exist but are not offered, why.
        """
        self._tools = {tool.name: tool for tool in tools}
        self._make = make
        self._absent = absent
        self._made: Mapping[str, Run] | None = None
        self._lock = threading.Lock()
        self._limiter = anyio.CapacityLimiter(CALLS)
        self._server: Server[Any] = Server(
            "cems",
            version=__version__,
            title="CEMS, the memory of coding agents",
            instructions=instructions,
            on_list_tools=self.tools,
            on_call_tool=self.call,
        )

    async def serve(self, incoming: BinaryIO, outgoing: BinaryIO) -> None:
        """Answer until the incoming stream ends."""
        lines: Any = _Lines(anyio.wrap_file(io.TextIOWrapper(incoming, encoding="utf-8", errors="replace")))
        answers = anyio.wrap_file(
            io.TextIOWrapper(outgoing, encoding="utf-8", errors="replace", newline="\n")
        )
        async with stdio_server(lines, answers) as (reading, writing):
            await self._server.run(reading, writing, self._server.create_initialization_options())

    async def tools(self, _context: object, _params: object) -> types.ListToolsResult:
        """What there is."""
        return types.ListToolsResult(tools=[described(tool) for tool in self._tools.values()])

    async def call(self, _context: object, params: types.CallToolRequestParams) -> types.CallToolResult:
        """What one call answers, in time."""
        text, failed = f"`{params.name[:40]}` took too long and was left; try again, or ask for less.", True
        with anyio.move_on_after(SECONDS):
            text, failed = await anyio.to_thread.run_sync(
                self.run, params.name, params.arguments or {}, abandon_on_cancel=True, limiter=self._limiter
            )
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=failed)

    def run(self, name: str, given: Mapping[str, Any]) -> tuple[str, bool]:
        """The answer to a call, and whether it is an error."""
        try:
            tool = self._tools.get(name)
            if tool is None:
                known = self._absent.get(name) or f"there are {', '.join(self._tools)}"
                return f"There is no tool {name[:40]!r}: {known}.", True
            arguments: Arguments = read(tool.arguments, given)
            return self._work(name)(arguments), False
        except CemsError as error:
            text = f"{error}".rstrip(".") + "."
            return (f"{text} {error.hint[:1].upper()}{error.hint[1:]}." if error.hint else text), True
        except Exception:  # noqa: BLE001 - the outermost loop of a call: the agent gets a sentence, the log what was wrong
            _log.exception("the tool %s failed", name)
            return f"`{name}` failed inside CEMS; its log says why. Go on without it.", True

    def _work(self, name: str) -> Run:
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made[name]


def described(tool: Described) -> types.Tool:
    """A tool in the protocol's words."""
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=schema(tool.arguments),
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.reads,
            destructive_hint=False,  # nothing here takes away what cannot be brought back
            idempotent_hint=tool.repeatable,
            open_world_hint=False,
        ),
        _meta={"anthropic/requiresUserInteraction": True} if tool.asks_user else None,
    )
