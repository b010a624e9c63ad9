"""What is kept of a tool call: which files it read or changed, which command ran, and a short word on the rest."""

from __future__ import annotations

import msgspec

from cems.models import ToolUse
from observer.records import Block
from observer.secret_results import is_secret

COMMAND_LIMIT = 1000
DETAIL_LIMIT = 500
NAME_LIMIT = 80
ID_LIMIT = 120
FILE_LIMIT = 500
_CHANGING = {"Edit", "MultiEdit", "Write", "NotebookEdit", "Update", "str_replace_editor", "apply_patch"}
_SILENT = {"TodoWrite", "TaskCreate", "TaskUpdate", "TodoRead", "ExitPlanMode"}


class _Input(msgspec.Struct, gc=False):
    """The fields of a tool's input that say what it is about; all tools share them."""

    file_path: str | None = None
    notebook_path: str | None = None
    path: str | None = None
    command: str | None = None
    pattern: str | None = None
    query: str | None = None
    url: str | None = None
    description: str | None = None
    prompt: str | None = None
    new_string: str | None = None
    new_source: str | None = None
    content: str | None = None
    plan: str | None = None


_decoder = msgspec.json.Decoder(_Input)
_generic = msgspec.json.Decoder(dict[str, msgspec.Raw])


def summarise(block: Block) -> ToolUse:
    """What is kept of a tool_use block; its texts are whole and not redacted yet."""
    name = block.name or ""
    given = _read(block.input)
    # `path` is mostly a folder that was searched; a file of secrets there must be known as one.
    path = given.path if given.path and is_secret(given.path) else None
    files = tuple(f for f in (given.file_path, given.notebook_path, path) if f)
    changes = name in _CHANGING
    if changes:
        detail = given.new_string or given.new_source or given.content or ""
    elif name in _SILENT:
        detail = given.plan or ""
    else:
        words = (given.description, given.pattern, given.query, given.url, given.path, given.prompt)
        detail = " · ".join(w for w in words if w)
    return ToolUse(
        id=block.id or "",
        name=name,
        files=tuple(f[:4096] for f in files),
        changes=changes,
        command=given.command or "",
        detail=detail,
    )


def _read(raw: msgspec.Raw) -> _Input:
    """The input's known fields; those of an odd type are left out one by one."""
    if not bytes(raw):
        return _Input()
    try:
        return _decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        pass
    given = _Input()
    try:
        fields = _generic.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return given
    for name in _Input.__struct_fields__:
        if name in fields:
            try:
                setattr(given, name, msgspec.json.decode(fields[name], type=str))
            except (msgspec.DecodeError, RecursionError):
                continue
    return given
