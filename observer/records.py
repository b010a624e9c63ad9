"""Bytes of one physical line → transcript records. The format is unstable by declaration, so decoding is tolerant:
unknown fields are skipped without being built, wrong types are dropped, and a damaged line gives up the whole records
it still holds. Nothing here raises on any input."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import msgspec

from cems.text import sanitise

# A damaged line is searched for records only up to this size and this many starting points, so that no input makes
# the search quadratic in anything large.
RECOVERY_LIMIT = 4 * 1024 * 1024
RECOVERY_STARTS = 64
_STARTS = ('{"parentUuid"', '{"type"', '{"uuid"', '{"sessionId"', '{"isSidechain"', '{"messageId"')


class Inner(msgspec.Struct, gc=False):
    """An element of a tool result's list; only text is kept."""

    type: str = ""
    text: str | None = None


class Block(msgspec.Struct, gc=False):
    """A content block of a message; images and documents lose their data by not being named here."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = msgspec.Raw()
    tool_use_id: str | None = None
    content: str | list[Inner | str] | None = None
    is_error: bool | None = None


class Message(msgspec.Struct, gc=False):
    """The API message inside a user or assistant record."""

    id: str | None = None
    role: str | None = None
    model: str | None = None
    content: str | list[Block] | None = None


class RecordOrigin(msgspec.Struct, gc=False):
    """Who caused a user record."""

    kind: str | None = None


class Attachment(msgspec.Struct, gc=False):
    """What was attached to a turn; only a queued prompt is the user's own."""

    type: str = ""
    prompt: str | list[Block] | None = None
    commandMode: str | None = None
    origin: RecordOrigin | None = None
    hookName: str | None = None


class ResultFile(msgspec.Struct, gc=False):
    """The file a Read result shows."""

    filePath: str | None = None


class ToolUseResult(msgspec.Struct, gc=False):
    """The part of the repeated tool result that says which file it is about."""

    filePath: str | None = None
    file: ResultFile | None = None


class Record(msgspec.Struct, gc=False):
    """One transcript record, as far as anything here needs it."""

    type: str = ""
    uuid: str | None = None
    timestamp: dt.datetime | None = None
    sessionId: str | None = None
    session_id: str | None = None
    cwd: str | None = None
    version: str | None = None
    isSidechain: bool | None = None
    agentId: str | None = None
    isMeta: bool | None = None
    isCompactSummary: bool | None = None
    isApiErrorMessage: bool | None = None
    entrypoint: str | None = None
    promptSource: str | None = None
    origin: RecordOrigin | None = None
    userFeedback: str | None = None
    subtype: str | None = None
    message: Message | None = None
    attachment: Attachment | None = None
    toolUseResult: ToolUseResult | str | list[msgspec.Raw] | None = None
    operation: str | None = None
    content: msgspec.Raw = msgspec.Raw()
    aiTitle: str | None = None
    customTitle: str | None = None
    summary: str | None = None


_decoder = msgspec.json.Decoder(Record)
_FIELDS = {f.name: f for f in msgspec.structs.fields(Record)}


def decode(raw: bytes | memoryview) -> list[Record]:
    """The records on one physical line, without its newline; an empty list where there is none to be had. No string in
    them holds what Postgres or JSON refuse."""
    raw = bytes(raw)
    try:
        if b"\\u0000" not in raw:  # the one escape that is valid JSON and no text of Postgres
            return [_decoder.decode(raw)]
    except (msgspec.DecodeError, RecursionError):  # ValidationError is one too: a field has a type of its own
        pass
    try:
        return _recover(raw)
    except RecursionError:  # nested deeper than anything real
        return []


def _recover(raw: bytes) -> list[Record]:
    """The slow road: NUL runs, invalid UTF-8, lone surrogates, odd types, several records, a cut one before a whole one."""
    text = raw.replace(b"\0", b"").decode("utf-8", "replace").strip()
    if not text.startswith("{") and '{"' not in text:
        return []
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        pass
    else:
        return [_tolerant(_sane(whole))] if isinstance(whole, dict) else []
    if len(text) > RECOVERY_LIMIT:
        return []
    return [_tolerant(_sane(obj)) for obj in _several(text)]


def _sane(value: Any) -> Any:
    """The same value with every string fit for Postgres and JSON."""
    if isinstance(value, str):
        return sanitise(value)
    if isinstance(value, dict):
        return {k: _sane(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_sane(v) for v in value]
    return value


def _several(text: str) -> list[dict[str, Any]]:
    """Whole objects found one after another; what cannot be parsed is stepped over to the next likely start."""
    decoder = json.JSONDecoder()
    found: list[dict[str, Any]] = []
    position = 0
    for _ in range(RECOVERY_STARTS):
        try:
            obj, position = decoder.raw_decode(text, position)
            if isinstance(obj, dict):
                found.append(obj)
            while position < len(text) and text[position].isspace():
                position += 1
            if position >= len(text):
                break
        except (ValueError, RecursionError):
            starts = [i for s in _STARTS if (i := text.find(s, position + 1)) >= 0]
            if not starts:
                break
            position = min(starts)
    return found


def _tolerant(obj: dict[str, Any]) -> Record:
    """A record of whatever fields have a usable type."""
    record = Record()
    for name, value in obj.items():
        if (field := _FIELDS.get(name)) is None or value is None:
            continue
        try:
            setattr(record, name, _convert(name, value, field.type))
        except (msgspec.ValidationError, ValueError, TypeError, RecursionError):
            continue
    return record


def _convert(name: str, value: Any, wanted: Any) -> Any:
    if name == "content":
        return msgspec.Raw(msgspec.json.encode(value))
    if name == "message" and isinstance(value, dict):
        return _tolerant_message(value)
    return msgspec.convert(value, wanted, strict=False)


def _tolerant_message(value: dict[str, Any]) -> Message:
    message = Message()
    for name in ("id", "role", "model"):
        if isinstance(value.get(name), str):
            setattr(message, name, value[name])
    content = value.get("content")
    if isinstance(content, str):
        message.content = content
    elif isinstance(content, list):
        message.content = [_tolerant_block(b) for b in content if isinstance(b, dict)]
    return message


def _tolerant_block(value: dict[str, Any]) -> Block:
    block = Block()
    for name in ("type", "text", "thinking", "id", "name", "tool_use_id"):
        if isinstance(value.get(name), str):
            setattr(block, name, value[name])
    block.is_error = value.get("is_error") is True
    if "input" in value:
        try:
            block.input = msgspec.Raw(json.dumps(value["input"]).encode("utf-8", "replace"))
        except (ValueError, TypeError, RecursionError):
            block.input = msgspec.Raw()
    content = value.get("content")
    if isinstance(content, str):
        block.content = content
    elif isinstance(content, list):
        block.content = [
            c
            if isinstance(c, str)
            else Inner(str(c.get("type") or ""), c["text"] if isinstance(c.get("text"), str) else None)
            for c in content
            if isinstance(c, str | dict)
        ]
    return block


def decode_whole(raw: bytes) -> bool:
    """Whether these bytes are exactly one JSON object with a uuid: then no later byte can belong to it."""
    try:
        return bool(_decoder.decode(raw).uuid)
    except (msgspec.DecodeError, RecursionError):
        return False
