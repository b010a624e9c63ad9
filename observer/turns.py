"""Lines → turns. A turn is what somebody asked, with everything that was said and done until the next
question. Rules and prompts both read turns, and both ask here whether a turn matters."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import re
import uuid
from collections.abc import Sequence

from cems.models import Line, ToolUse

# Commands that only look: a turn whose commands are all of these did nothing.
_LOOKS = re.compile(
    r"^(?:ls|cat|head|tail|less|pwd|cd|echo|printf|which|type|file|stat|wc|find|fd|rg|grep|egrep|tree|"
    r"du|df|env|printenv|date|whoami|id|uname|ps|top|sleep|true|jq|sed -n|awk|sort|uniq|cut|diff|xxd|hexdump|"
    r"git (?:status|log|diff|show|branch|remote|rev-parse|blame|ls-files|stash list|config --get|fetch)|"
    r"gh (?:pr|issue|run|repo) (?:view|list|diff|checks|status)|"
    r"(?:docker|podman) (?:ps|images|logs|inspect)|kubectl (?:get|describe|logs)|"
    r"systemctl (?:status|list-units)|"
    r"(?:npm|pnpm|yarn) (?:ls|list|view|outdated)|pip (?:list|show|index)|"
    r"cargo (?:tree|metadata)|go (?:list|env|version)|"
    r"[\w./-]+ (?:--version|-V|--help|-h))\b"
)
# What stands in quotes may hold separators of its own.
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"")
# Output sent into a file.
_WRITES = re.compile(r"(?<![\d&<>=-])>>?\s*(?!/dev/null|[&>=])[\w./~$\"']")
_BEFORE = re.compile(r"^(?:(?:\w+=\S+|sudo|time|command|do|then|else|if|while|!) +)+")
_SEPARATORS = re.compile(r"\s*(?:&&|\|\||;|\||\n)\s*")
_STATES = re.compile(
    r"\b(?:always|never|don'?t|do not|must|should(?:n'?t)?|prefer|instead of|rather than|"
    r"from now on|remember|decided?|"
    r"we use|we're using|let'?s (?:use|go with|stick)|use \w+,? (?:not|over|instead)|rule|"
    r"convention|policy|avoid|"
    r"no longer|switch(?:ed)? to|going forward|make sure|keep in mind|important|reverted?|"
    r"rolled? back|root cause|because|"
    r"hate|only|no more|negotiable|every time|whenever|stop \w+ing|dont|instead|went with|chose|fixed|"
    r"owns?|owner|job|"
    r"immer|nie(?:mals)?|ab (?:jetzt|sofort)|künftig|(?:bitte|möchte|will) keine?|wir (?:nutzen|verwenden)|weil|"
    r"siempre|nunca|prefiero|a partir de|usamos|no uses|porque|"
    r"toujours|jamais|désormais|préfère|n'utilise[zs]?|on utilise|parce que)\b|今後|以后|今后|앞으로|"
    r"\b(?:prod|production|staging|stage|dev|ci|server|host|cluster)\b.{0,40}\d+\.\d",
    re.I,
)
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")


@dataclasses.dataclass(frozen=True)
class Step:
    """A tool call and the result that answers it, which may be missing for ever."""

    call: ToolUse
    line: Line
    result: Line | None
    failed: bool


@dataclasses.dataclass(frozen=True)
class Turn:
    """A question and what followed. `question` is None where a batch begins in the middle and the question
    is lost."""

    question: Line | None
    lines: Sequence[Line]
    """All lines in order, the question included."""
    carried: bool
    """The question was observed in an earlier batch and stands here only so that its answer is understood."""
    before: Line | None = None
    after: Line | None = None
    """What people or the assistant said last before it and first after it, up to where a stretch of the session ended."""
    begun: Line | None = None
    """The question that was being worked on when this one came, typed meanwhile or in place of it: what follows answers
    both. None where the one before was answered."""

    @property
    def asked(self) -> str:
        """The question's text."""
        return self.question.text if self.question else ""

    @property
    def answers(self) -> list[Line]:
        """The assistant's texts, in order."""
        return [line for line in self.lines if line.kind == "answer"]

    @property
    def steps(self) -> list[Step]:
        """Tool calls with their results, in order of the calls."""
        results = {
            use.id: (line, use.error)
            for line in self.lines
            if line.kind == "result"
            for use in line.tools
            if use.id
        }
        found = []
        for line in self.lines:
            if line.kind in ("call", "answer"):
                for use in line.tools:
                    result, failed = results.get(use.id, (None, False))
                    found.append(Step(use, line, result, failed))
        return found

    @property
    def changed_files(self) -> list[str]:
        """Files that a call which did not fail changed, each once, in order."""
        return list(
            dict.fromkeys(f for s in self.steps if s.call.changes and not s.failed for f in s.call.files)
        )

    @property
    def commands(self) -> list[Step]:
        """Steps that ran a command which did more than look."""
        return [s for s in self.steps if s.call.command and is_real_command(s.call.command)]

    @property
    def at(self) -> dt.datetime | None:
        """When the turn ended, as far as its lines say."""
        return max((line.at for line in self.lines if line.at), default=None)

    @property
    def project_id(self) -> uuid.UUID:
        """The project most of the turn's own lines belong to."""
        own: list[uuid.UUID] = [
            line.project_id for line in self.lines if line is not self.question or not self.carried
        ]
        counted = collections.Counter(own)
        return max(counted, key=counted.__getitem__)

    def matters(self) -> bool:
        """Whether anything can be learnt: it changed a file, ran a real command, or states a rule, a
        decision or a reason."""
        if self.changed_files or self.commands:
            return True
        return states_something(self.asked) or any(
            states_something(a.text) and len(a.text) > 200 for a in self.answers
        )


def turns_of(lines: Sequence[Line], carried_question: uuid.UUID | None = None) -> list[Turn]:
    """Turns of one session's lines, in order. A prompt that comes while the assistant works (no answer yet
    since the last one, or in the middle of calls) begins a turn too: what follows it follows from it."""
    groups: list[list[Line]] = []
    for line in lines:
        if line.kind == "boundary":
            # An empty group stands where the stretch ended.
            groups.extend(([], []))
            continue
        if line.kind == "prompt" or not groups:
            groups.append([])
        groups[-1].append(line)
    turns: list[Turn] = []
    for previous, group, following in zip([[], *groups], groups, [*groups[1:], []], strict=False):
        if not group:
            continue
        question = group[0] if group[0].kind == "prompt" else None
        carried = question is not None and question.uuid == carried_question
        if carried and len(group) == 1:
            continue
        before = next((line for line in reversed(previous) if is_told(line)), None)
        after = next((line for line in following if is_told(line)), None)
        begun = _unanswered(previous, turns[-1] if turns else None)
        turns.append(Turn(question, tuple(group), carried, before, after, begun))
    return turns


def _unanswered(lines: Sequence[Line], turn: Turn | None) -> Line | None:
    """The question that these lines, a turn's, have not answered yet: they do not end in words alone."""
    if not lines or (lines[-1].kind == "answer" and not lines[-1].tools):
        return None
    if turn and turn.lines[0] is lines[0] and turn.begun:
        return turn.begun
    return lines[0] if lines[0].kind == "prompt" else None


def is_told(line: Line) -> bool:
    """Whether a line is what people or the assistant said, and not what a program did or printed."""
    return line.kind in ("prompt", "answer") and line.origin != "tool" and bool(line.text)


def is_real_command(command: str) -> bool:
    """Whether a shell command does more than look."""
    bare = _QUOTED.sub("''", command.strip())
    if _WRITES.search(bare):
        return True
    return any(not _LOOKS.match(_BEFORE.sub("", part)) for part in _SEPARATORS.split(bare) if part)


def states_something(text: str) -> bool:
    """Whether a text may state a rule, a decision or a reason; generous, because rules and models look
    again."""
    return bool(_STATES.search(text)) or len(_UNSPACED.findall(text)) >= 12
