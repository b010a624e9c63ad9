"""The words every part shares: what a landed line, a turn, an observation and a memory are.
Names follow the vocabulary in ARCHITECTURE.md; nothing here touches a file or a database."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any, Literal, get_args
from uuid import UUID

import msgspec

Kind = Literal["preference", "decision", "deadend", "bugfix", "pattern", "context"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""In the order in which rules decide: the first that fits."""

CONCEPTS: tuple[str, ...] = (
    "how-it-works",
    "why-it-exists",
    "what-changed",
    "problem-solution",
    "gotcha",
    "pattern",
    "trade-off",
)
"""The default list; `extraction.concepts` replaces it."""

Origin = Literal["user", "assistant", "tool"]
ORIGINS: tuple[Origin, ...] = get_args(Origin)
"""Most trusted first."""

Layer = Literal["observation", "fact", "reflection", "summary"]
LAYERS: tuple[Layer, ...] = get_args(Layer)

LineKind = Literal["prompt", "answer", "thinking", "call", "result", "boundary"]
"""What a landed line is: the user's words, the assistant's text, its thinking, a tool call, a tool's result, or a mark
that a stretch of the session ended (compaction, clear, exit)."""

BatchStatus = Literal["pending", "observed", "set_aside"]

TITLE_LIMIT = 160
"""Characters of a memory's title."""
BODY_LIMIT = 2000
"""Characters of a memory's body."""
QUOTE_LIMIT = 600
"""Characters of a quote."""
LIST_LIMIT = 20
"""Files or concepts a memory names at most."""


def least_trusted(origins: list[Origin]) -> Origin:
    """The origin of something that stands on lines of several origins."""
    return max(origins, key=ORIGINS.index)


class ToolUse(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of one tool call, or of the result that answers it."""

    id: str = ""
    name: str = ""
    files: tuple[str, ...] = ()
    changes: bool = False
    """The call changes `files`."""
    command: str = ""
    detail: str = ""
    """A short word on the rest: a pattern searched, a description, a URL."""
    error: bool = False
    """For a result: the call failed or was refused."""
    secret: bool = False
    """The result of this call shows a file of secrets, and is left out."""


class Line(msgspec.Struct, frozen=True):
    """A landed line: one record of a transcript, redacted and shortened, as the database keeps it."""

    uuid: UUID
    session_id: UUID
    project_id: UUID
    kind: LineKind
    origin: Origin
    text: str
    tools: tuple[ToolUse, ...] = ()
    at: dt.datetime | None = None
    bytes: int = 0
    """Bytes of the record in the transcript."""


@dataclasses.dataclass(frozen=True)
class Evidence:
    """Where an observation comes from: a verbatim quote of one landed line."""

    line: UUID
    quote: str
    origin: Origin


@dataclasses.dataclass(frozen=True)
class Observation:
    """What an extractor found in a batch, checked, and ready to be stored."""

    kind: Kind
    title: str
    body: str
    concepts: tuple[str, ...]
    files: tuple[str, ...]
    confidence: float
    """0 to 1."""
    evidence: tuple[Evidence, ...]
    occurred_at: dt.datetime
    project_id: UUID
    around: str = ""
    """What stood around it in its session, a line each; never shown, only searched."""

    @property
    def origin(self) -> Origin:
        """The least trusted origin among its lines."""
        return least_trusted([e.origin for e in self.evidence])


@dataclasses.dataclass(frozen=True)
class Memory:
    """A memory as it is read back."""

    id: UUID
    layer: Layer
    kind: Kind
    title: str
    body: str
    concepts: tuple[str, ...]
    files: tuple[str, ...]
    project: str | None
    """The project's name, or None where the memory holds everywhere."""
    confidence: float
    origin: Origin
    author: str
    """Who wrote it: `hand`, `rules`, or a model's name."""
    occurred_at: dt.datetime
    recorded_at: dt.datetime
    seen_count: int
    """How often it was observed."""
    state: str
    """`active`, `forgotten`, `archived` or `superseded`."""

    def to_json(self) -> dict[str, Any]:
        """A dict of JSON types, for `--json`."""
        out = dataclasses.asdict(self)
        return {
            k: v.isoformat() if isinstance(v, dt.datetime) else str(v) if isinstance(v, UUID) else v
            for k, v in out.items()
        }


@dataclasses.dataclass(frozen=True)
class Usage:
    """Tokens one call used, as the provider counted them, or as estimated when it did not say."""

    input_tokens: int = 0
    output_tokens: int = 0
    thought_tokens: int = 0
    cached_tokens: int = 0
