"""A request of the hook: the bytes it sends, the bytes it is answered with, and what its standard input says. The hook itself
imports nothing, so `recall/hook.py` writes and reads the same form on its own.

    cems1 EVENT ENVIRONMENT_LENGTH INPUT_LENGTH\\n  ENVIRONMENT (NAME=VALUE, divided by NUL)  INPUT
    STATUS LENGTH\\n  DOCUMENT
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import msgspec

PROTOCOL = b"cems1"
HEAD_LIMIT = 128
ENVIRONMENT_LIMIT = 16 * 1024
INPUT_LIMIT = 4 * 1024 * 1024 + 64 * 1024
HEALTH = "health"
EVENTS = ("UserPromptSubmit", "SessionStart", "SubagentStart")


class BadRequest(Exception):
    """The bytes are no request; the connection is closed without an answer."""


@dataclasses.dataclass(frozen=True)
class Request:
    """What the hook sent."""

    event: str
    environment: Mapping[str, str]
    body: bytes


class HookInput(msgspec.Struct, frozen=True):
    """What the agent writes to a hook's standard input, as far as it matters."""

    session_id: str = ""
    transcript_path: str | None = None
    cwd: str | None = None
    hook_event_name: str = ""
    prompt: str = ""
    prompt_id: str | None = None
    source: str | None = None
    """Of a prompt: who submitted it; of a session: how it started."""
    agent_id: str | None = None
    agent_type: str | None = None


def read_request(receive: Callable[[int], bytes]) -> Request:
    """A whole request.

    Args:
        receive: gives at most so many bytes, none at the end.

    Raises:
        BadRequest: it is none, is too large or ends early.
    """
    data = b""
    while b"\n" not in data:
        piece = receive(65536)
        if not piece or len(data) > HEAD_LIMIT:
            raise BadRequest
        data += piece
    head, _, rest = data.partition(b"\n")
    words = head.split(b" ")
    if len(head) > HEAD_LIMIT or len(words) != 4 or words[0] != PROTOCOL:
        raise BadRequest
    environment, body = _length(words[2], ENVIRONMENT_LIMIT), _length(words[3], INPUT_LIMIT)
    pieces, missing = [rest], environment + body - len(rest)
    while missing > 0:
        piece = receive(min(missing, 1 << 20))
        if not piece:
            raise BadRequest
        pieces.append(piece)
        missing -= len(piece)
    content = b"".join(pieces)
    pairs = content[:environment].decode("utf-8", "replace").split("\0")
    return Request(
        words[1].decode("ascii", "replace"),
        {name: value for name, _, value in (pair.partition("=") for pair in pairs) if name},
        content[environment : environment + body],
    )


def write_reply(document: bytes, status: str = "ok") -> bytes:
    """A reply's bytes; an empty document lets the hook say nothing in the right shape."""
    return f"{status} {len(document)}\n".encode("ascii") + document


def read_input(body: bytes) -> HookInput | None:
    """What standard input said; None where it cannot be read."""
    try:
        return msgspec.json.decode(body, type=HookInput)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def document(event: str, context: str) -> bytes:
    """The hook's output: context for the event that fired, and never anything that decides. Another event gets nothing: from
    some, context would make the agent go on."""
    if event not in EVENTS:
        return b"{}"
    output = {"hookEventName": event, "additionalContext": context}
    return msgspec.json.encode({"hookSpecificOutput": output})


def _length(word: bytes, limit: int) -> int:
    if not word.isdigit() or int(word) > limit:
        raise BadRequest
    return int(word)
