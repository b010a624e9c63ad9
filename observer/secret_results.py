"""Which tool results show a file of secrets, by the call they answer or by the file a record names: such a result is left out
whole, whatever redaction would have recognised in it."""

from __future__ import annotations

import functools
import re

from cems.models import ToolUse
from cems.redact import is_secret_file
from observer.records import Record

_SHELL_PARTS = re.compile(r"[|;&\n]+")
_PRINTING = frozenset(
    "cat bat less more head tail grep rg egrep sed awk cut strings xxd hexdump od base64 jq yq nl tac diff sort sudo".split()  # noqa: SIM905 - a list of words
)

# The same files and words come again and again; looking at a path anew each time was a sixth of landing.
is_secret = functools.lru_cache(8192)(is_secret_file)


def call_shows_secret(call: ToolUse) -> bool:
    """Whether the result of this call would show a file of secrets."""
    if call.command:
        return _command_prints_secret(call.command)
    return any(map(is_secret, call.files))


def record_shows_secret(record: Record) -> bool:
    """Whether the file that a result's own record names is one of secrets."""
    shown = record.toolUseResult
    if shown is None or isinstance(shown, str | list):
        return False
    path = shown.file.filePath if shown.file else shown.filePath
    return bool(path and is_secret(path[:4096]))


def _command_prints_secret(command: str) -> bool:
    for part in _SHELL_PARTS.split(command[:4000]):
        words = part.split()
        # Behind `VAR=1`, `ssh host`, `docker exec c` the printing command is not the first word.
        if any(w.rpartition("/")[2] in _PRINTING for w in words) and any(
            is_secret(w.strip("\"'`()<>")) for w in words
        ):
            return True
    return False
