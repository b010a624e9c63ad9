"""Where the content of a memory lives on after maintenance merged or condensed it into another one. What is observed again
counts for the memory at the end of that chain, and is refused where that one was forgotten."""

from __future__ import annotations

import uuid
from typing import Literal

from db.connect import Connection
from db.queries import SQL

DEPTH = 1000
"""Steps of a chain that are followed; longer ones, and circles, lead nowhere."""


def successor(
    conn: Connection, owner: uuid.UUID, project: uuid.UUID | None, kind: str, content_hash: bytes
) -> uuid.UUID | Literal["forgotten"] | None:
    """The memory that stands for this content, live or archived; `forgotten` where a person forgot it; None where the content
    was never merged, or what it was merged into was replaced since."""
    args = {
        "owner": owner,
        "project": project,
        "kind": kind,
        "content_hash": content_hash,
        "depth": DEPTH,
    }
    row = conn.execute(SQL["successor.of_content"], args).fetchone()
    if row is None:
        return None
    found: uuid.UUID = row["id"]
    return "forgotten" if row["forgotten"] else found
