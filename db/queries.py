"""The named SQL statements: `db/queries/AREA.sql` holds several, each under a line `-- name: NAME`, and is read once.
`SQL["area.name"]` is a statement; a name that does not exist is an error at import of whoever asks for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources

_NAME = re.compile(rb"^-- name: (\w+)\s*$", re.M)


def _load() -> Mapping[str, bytes]:
    """Every statement by `area.name`."""
    found: dict[str, bytes] = {}
    for file in sorted((resources.files("db") / "queries").iterdir(), key=lambda f: f.name):
        if not file.name.endswith(".sql"):
            continue
        area = file.name.removesuffix(".sql")
        parts = _NAME.split(file.read_bytes())
        for name, text in zip(parts[1::2], parts[2::2], strict=True):
            found[f"{area}.{name.decode()}"] = text.strip()
    return found


SQL: Mapping[str, bytes] = _load()
