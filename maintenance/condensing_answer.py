"""Asking a model to write several memories into fewer: the notes as numbered lines in sections, the schema of the answer, and
what makes an answer unusable. A note is one line, so that no text inside it can look like another note; an answer names every
note exactly once. Where it can be mended, the model is told what is wrong and asked once more."""

from __future__ import annotations

import dataclasses
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from cems.errors import BadAnswer
from cems.providers import GenerateRequest
from db.rewriting import Source
from maintenance.condensing import Draft, Verdict, judge, tidy, told
from maintenance.job import Job

MOST_NOTES = 40
"""Notes of one request: a small model can still account for each of them."""
MOST_CHARACTERS = 24_000
"""Of notes in one request."""
MOST_WRITTEN = 10
OUTPUT_TOKENS = 8000
_FENCE = re.compile(r"<(\s*/?\s*notes\b)", re.I)


@dataclasses.dataclass(frozen=True)
class Section:
    """Notes that may be written into one: of one kind and one trust, or of one topic."""

    heading: str
    sources: tuple[Source, ...]


@dataclasses.dataclass(frozen=True)
class Task:
    """What is asked for."""

    purpose: str
    instructions: str
    called: str
    """What the texts are called in the answer: `reflections`, `summaries`."""
    least: int
    """Notes a text has to replace at least."""
    once: bool = False
    """At most one text for a section, and it has the titles of decisions and dead ends."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """A checked answer."""

    drafts: tuple[tuple[Draft, Verdict], ...]
    kept: tuple[Source, ...]


class _Written(msgspec.Struct, rename={"sources": "from"}):
    title: Annotated[str, msgspec.Meta(max_length=4000)]
    body: Annotated[str, msgspec.Meta(max_length=20_000)]
    sources: Annotated[list[int], msgspec.Meta(min_length=1, max_length=200)]


class _Answer(msgspec.Struct):
    written: Annotated[list[_Written], msgspec.Meta(max_length=MOST_WRITTEN)]
    kept: Annotated[list[int], msgspec.Meta(max_length=400)] = []


def size(source: Source) -> int:
    """Characters a note takes in a request."""
    return len(told(source)) + 20


def render(sections: Sequence[Section]) -> tuple[str, dict[int, tuple[int, Source]]]:
    """The notes for a model, and for each number its section and its memory. Oldest first, so that later words come later."""
    lines: list[str] = []
    numbers: dict[int, tuple[int, Source]] = {}
    for place, section in enumerate(sections):
        lines.append(f"## {section.heading}")
        for source in sorted(section.sources, key=lambda s: (s.occurred_at, s.id)):
            numbers[len(numbers) + 1] = (place, source)
            words = _FENCE.sub(r"‹\1", told(source))
            lines.append(f"[{len(numbers)}] {source.occurred_at:%Y-%m-%d} {words}")
        lines.append("")
    return "\n".join(lines), numbers


def schema(called: str) -> dict[str, Any]:
    """JSON Schema of the answer. The numbers come first: what belongs together is decided before it is worded."""
    written = {
        "type": "object",
        "properties": {
            "from": {"type": "array", "items": {"type": "integer"}, "minItems": 1},
            "title": {"type": "string"},
            "body": {"type": "string"},
        },
        "required": ["from", "title", "body"],
        "propertyOrdering": ["from", "title", "body"],
    }
    return {
        "type": "object",
        "properties": {
            called: {"type": "array", "items": written, "maxItems": MOST_WRITTEN},
            "kept": {"type": "array", "items": {"type": "integer"}},
        },
        "required": [called, "kept"],
        "propertyOrdering": [called, "kept"],
    }


def ask(job: Job, task: Task, sections: Sequence[Section], redact: Callable[[str], str]) -> Answer | None:
    """A model's texts for some notes; None where there is no usable answer: then nothing is written about any of them. An
    answer with faults is sent back once; the better one counts."""
    notes, numbers = render(sections)
    best: Answer | None = None
    faults: list[str] = []
    for attempt in range(2):
        again = _again(faults) if attempt else ""
        prompt = f"<notes>\n{notes}</notes>\n\n{again}Write the {task.called} now; name every number once."
        reply = job.ask(
            GenerateRequest(
                task.purpose,
                task.instructions,
                prompt,
                schema(task.called),
                OUTPUT_TOKENS,
                job.settings.llm_timeout,
            )
        )
        if reply is None:
            break
        try:
            found = checked(reply.data, task, numbers, redact)
        except BadAnswer as error:
            faults = [str(error)]
            continue
        best = _better(best, found)
        faults = faults_of(found, numbers)
        if not faults:
            break
    if best is None and faults:
        job.report.failed += 1
        job.report.note(f"{task.purpose}: {faults[0]}")
    return best


def checked(
    data: Mapping[str, Any],
    task: Task,
    numbers: Mapping[int, tuple[int, Source]],
    redact: Callable[[str], str],
) -> Answer:
    """The texts of an answer, each judged.

    Raises:
        BadAnswer: its shape is wrong, or it does not name every note exactly once, or it mixes sections.
    """
    try:
        named = {"written" if k == task.called else k: v for k, v in data.items()}
        answer = msgspec.convert(named, _Answer)
    except msgspec.ValidationError as error:
        raise BadAnswer(f"the answer does not have the shape asked for: {error}") from None
    _accounted(answer, numbers)
    places: list[int] = []
    drafts: list[tuple[Draft, Verdict]] = []
    kept = [numbers[n][1] for n in answer.kept]
    for given in answer.written:
        found = {numbers[n][0] for n in given.sources}
        if len(found) > 1:
            raise BadAnswer(f"{_numbers(given.sources)} stand in different sections")
        if task.once and found <= set(places):
            raise BadAnswer(f"{_numbers(given.sources)}: a second text for one section")
        places += found
        sources = tuple(numbers[n][1] for n in given.sources)
        if len(sources) == 1:
            kept += sources  # another wording of one note is no gain
            continue
        draft = Draft(*tidy(given.title, given.body, redact), sources)
        drafts.append((draft, judge(draft, task.least, titles=task.once)))
    return Answer(tuple(drafts), tuple(kept))


def _accounted(answer: _Answer, numbers: Mapping[int, tuple[int, Source]]) -> None:
    named = [n for written in answer.written for n in written.sources] + answer.kept
    if unknown := sorted(set(named) - numbers.keys()):
        raise BadAnswer(f"there is no note {_numbers(unknown)}")
    if twice := sorted({n for n in named if named.count(n) > 1}):
        raise BadAnswer(f"{_numbers(twice)} named more than once")
    if missing := sorted(numbers.keys() - set(named)):
        raise BadAnswer(f"{_numbers(missing)} named nowhere")


def faults_of(answer: Answer, numbers: Mapping[int, tuple[int, Source]]) -> list[str]:
    """What is wrong with an answer's texts, in the words and numbers its writer knows."""
    number_of: dict[uuid.UUID, int] = {source.id: n for n, (_, source) in numbers.items()}
    found = []
    for draft, verdict in answer.drafts:
        for source, fault in verdict.faults:
            about = f"[{number_of[source]}]" if source else _numbers(number_of[s.id] for s in draft.sources)
            found.append(f"the text from {about}: {fault}" if source is None else f"{about}: {fault}")
    return found


def _again(faults: Sequence[str]) -> str:
    listed = "\n".join(f"- {fault}" for fault in faults[:20])
    return (
        f"An earlier answer to this had faults:\n{listed}\n"
        "Where a text cannot say a note's details within its limits, put that note under kept.\n\n"
    )


def _better(one: Answer | None, two: Answer) -> Answer:
    """The one of two answers that replaces more notes; the later one where they are equal."""
    return one if one and _worth(one) > _worth(two) else two


def _worth(answer: Answer) -> int:
    return sum(len(v.replaced) for _, v in answer.drafts if v.usable)


def _numbers(numbers: Any) -> str:
    return ", ".join(f"[{n}]" for n in numbers)
