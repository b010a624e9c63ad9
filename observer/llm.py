"""Extraction by a model: ask, then believe nothing that is not checked. Shape, limits, kinds, concepts and every quote are
verified here; what has no evidence is dropped, and an answer with nothing usable in it is no answer."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec

from cems.errors import BadAnswer
from cems.models import (
    BODY_LIMIT,
    LIST_LIMIT,
    TITLE_LIMIT,
    Evidence,
    Kind,
    Line,
    Observation,
    Usage,
    least_trusted,
)
from cems.providers import GenerateRequest, TextGenerator
from cems.text import one_line, sanitise, shorten
from observer import prompt
from observer.around import around_of
from observer.evidence import find
from observer.extract import Context, Extracted
from observer.rules_text import paired
from observer.turns import Turn

PURPOSE = "extraction"
OUTPUT_TOKENS = 6000
TOOL_CONFIDENCE = 0.4
"""The most that something only a tool said can be trusted."""


class _Evidence(msgspec.Struct):
    line: int
    quote: Annotated[str, msgspec.Meta(max_length=20_000)]


class _Observation(msgspec.Struct):
    kind: Kind
    title: Annotated[str, msgspec.Meta(min_length=1, max_length=4000)]
    body: Annotated[str, msgspec.Meta(max_length=20_000)]
    confidence: Annotated[float, msgspec.Meta(ge=0, le=1)]
    evidence: Annotated[list[_Evidence], msgspec.Meta(max_length=50)]
    concepts: Annotated[list[str], msgspec.Meta(max_length=200)] = []
    files: Annotated[list[str], msgspec.Meta(max_length=200)] = []


class _Answer(msgspec.Struct):
    observations: Annotated[list[_Observation], msgspec.Meta(max_length=100)]


class LlmExtractor:
    """Extracts with a `TextGenerator`. `usage` holds what the last call used, for the ledger."""

    def __init__(self, generator: TextGenerator, *, timeout: float = 60.0) -> None:
        self._generator = generator
        self._timeout = timeout
        self.usage: Usage | None = None
        self.output_tokens = OUTPUT_TOKENS

    @property
    def author(self) -> str:
        """The model's name."""
        return self._generator.model

    def extract(self, turns: Sequence[Turn], context: Context) -> Extracted:
        """Observations of these turns.

        Raises:
            ProviderError: as the generator raises it; BadAnswer also where the answer holds nothing usable.
        """
        text, numbers = prompt.render(turns, context.concepts)
        self.usage = None
        reply = self._generator.generate(
            GenerateRequest(
                PURPOSE,
                prompt.SYSTEM,
                text,
                prompt.schema(context.concepts),
                self.output_tokens,
                self._timeout,
            )
        )
        self.usage = reply.usage
        return checked(reply.data, turns, numbers, context)


def checked(
    data: Mapping[str, Any], turns: Sequence[Turn], numbers: Mapping[int, uuid.UUID], context: Context
) -> Extracted:
    """The usable observations of an answer.

    Raises:
        BadAnswer: the shape is wrong, or there are observations and none has evidence.
    """
    try:
        answer = msgspec.convert(data, _Answer)
    except msgspec.ValidationError as error:
        raise BadAnswer(f"the answer does not have the shape asked for: {error}") from None
    lines = {line.uuid: line for turn in turns for line in turn.lines}
    kept: list[Observation] = []
    refused: list[str] = []
    for given in answer.observations[: prompt.MAX_OBSERVATIONS]:
        found = _one(given, lines, numbers, context, turns)
        if isinstance(found, str):
            refused.append(found)
        else:
            kept.append(found)
    if refused and not kept and set(refused) == {"no_evidence"}:
        raise BadAnswer("none of the quotes stands in the transcript")
    return Extracted(tuple(kept), tuple(refused))


def _one(
    given: _Observation,
    lines: Mapping[uuid.UUID, Line],
    numbers: Mapping[int, uuid.UUID],
    context: Context,
    turns: Sequence[Turn],
) -> Observation | str:
    """A checked observation, or why it is refused."""
    carried = {turn.question.uuid for turn in turns if turn.carried and turn.question}
    evidence: dict[uuid.UUID, Evidence] = {}
    for claim in given.evidence[:6]:
        named = [numbers[claim.line]] if claim.line in numbers else []
        for found in find(claim.quote, lines, named):
            evidence.setdefault(found.line, found)
    if not evidence:
        return "no_evidence"
    title = paired(one_line(context.redact(sanitise(given.title)), TITLE_LIMIT))
    if not title:
        return "no_title"
    # What stands on two projects' lines belongs to the first one's: no memory crosses projects.
    project = lines[next(iter(evidence))].project_id
    kept = [e for e in evidence.values() if lines[e.line].project_id == project]
    origin = least_trusted([e.origin for e in kept])
    if given.kind == "preference":
        # A user's line beside somebody else's words would lend them the user's authority.
        if origin != "user":
            return "preference_without_user"
        if all(e.line in carried for e in kept):
            return "seen_before"
    own = next(t for t in turns if any(line.uuid == kept[0].line for line in t.lines))
    times = [at for e in kept if (at := lines[e.line].at)]
    at = max(times) if times else turns[-1].at
    if at is None:
        return "no_time"
    return Observation(
        kind=given.kind,
        title=title,
        body=shorten(context.redact(sanitise(given.body)).strip(), BODY_LIMIT),
        concepts=tuple(dict.fromkeys(c for c in given.concepts if c in context.concepts))[:LIST_LIMIT],
        files=tuple(
            dict.fromkeys(one_line(context.redact(sanitise(f)), 300) for f in given.files if f.strip())
        )[:LIST_LIMIT],
        confidence=min(given.confidence, TOOL_CONFIDENCE) if origin == "tool" else given.confidence,
        evidence=tuple(kept[:3]),
        occurred_at=at,
        project_id=project,
        around=around_of(own, [e.line for e in kept], project),
    )
