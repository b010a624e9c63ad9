"""The MCP server as an agent runs it: a real process, driven by the official client, or by hand where the bytes matter."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client

SERVER = ("-I", "-m", "cems", "mcp")


class Agent:
    """A client with its session."""

    def __init__(self, session: ClientSession, instructions: str) -> None:
        self.session = session
        self.instructions = instructions

    async def call(self, tool: str, **given: Any) -> str:
        """The text a tool answers with; fails where that is an error."""
        text, failed = await self.outcome(tool, **given)
        assert not failed, text
        return text

    async def error(self, tool: str, **given: Any) -> str:
        """The text of the error a tool answers with."""
        text, failed = await self.outcome(tool, **given)
        assert failed, text
        return text

    async def outcome(self, tool: str, **given: Any) -> tuple[str, bool]:
        """The text, and whether it is an error; fails where an answer holds anything else."""
        result: Any = await self.session.call_tool(tool, given)
        assert result.structured_content is None
        (block,) = result.content
        return block.text, result.is_error


Talk = Callable[[Agent], Awaitable[None]]
"""What a test has to say to the server."""


@contextlib.asynccontextmanager
async def agent(
    environment: Mapping[str, str], folder: Path, *options: str, log: Path | None = None
) -> AsyncIterator[Agent]:
    """An agent that has started the server in a folder."""
    parameters = StdioServerParameters(
        command=sys.executable, args=[*SERVER, *options], env=dict(environment), cwd=folder
    )
    with (log or Path("/dev/null")).open("w") as errors:
        async with (
            stdio_client(parameters, errlog=errors) as (reading, writing),
            ClientSession(reading, writing) as session,
        ):
            answer = await session.initialize()
            yield Agent(session, answer.instructions or "")


class Wire:
    """The server with its bare streams."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        assert process.stdin is not None and process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout

    def write(self, data: bytes) -> None:
        """Bytes to its standard input."""
        self._stdin.write(data)
        self._stdin.flush()

    def send(self, method: str, number: int | None = None, **params: Any) -> None:
        """A request, or without a number a notification."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        self.write(json.dumps(message if number is None else {**message, "id": number}).encode() + b"\n")

    def receive(self) -> dict[str, Any]:
        """The next line of its standard output, which must be of the protocol."""
        found = json.loads(self._stdout.readline())
        assert isinstance(found, dict) and found["jsonrpc"] == "2.0"
        return found

    def initialize(self) -> dict[str, Any]:
        """Begin the conversation; the server's answer."""
        client = {"name": "test", "version": "1"}
        self.send("initialize", 0, protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        answer = self.receive()
        self.send("notifications/initialized")
        return answer

    def call(self, number: int, tool: str, **given: Any) -> None:
        """Ask a tool; the answer is not waited for."""
        self.send("tools/call", number, name=tool, arguments=given)

    def end(self, seconds: float = 5) -> int:
        """End its input; its exit code."""
        self._stdin.close()
        return self.process.wait(seconds)


@contextlib.contextmanager
def wire(
    environment: Mapping[str, str], folder: Path, *options: str, log: Path | None = None
) -> Iterator[Wire]:
    """The server for the time of the block."""
    with (log or Path("/dev/null")).open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, *SERVER, *options],
            env=dict(environment),
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    try:
        yield Wire(process)
    finally:
        process.kill()
        process.wait(10)
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                stream.close()  # type: ignore[union-attr]  # both are pipes


def short_of(memory: uuid.UUID) -> str:
    """The id an agent sees."""
    return memory.hex[-10:]
