"""What stands around a chosen sentence: the body in a few labelled lines (asked, why, what failed on the
way, what changed), the concepts and the files. Nothing here decides whether a memory is made."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cems.models import LIST_LIMIT, Kind
from cems.text import one_line
from observer.kinds import REASON
from observer.rules_standing import is_question
from observer.rules_text import Sentence, is_document, paired
from observer.rules_title import strip_lead_in
from observer.turns import Step, Turn
from observer.worth import fault_of, names_in

BODY_LIMIT = 800
_ASKED = 180
_THEN = 90
_ASKED_WORDS = 4
_WHY = 420
_FEW = 3
_NEAR = 2
_TELLING = 2
_ASIDE = 30
# Characters by which a sentence must be longer than its title to say more.
_MORE = 12
_ERROR = re.compile(r"error|fail|cannot|not found|denied|fatal|panic|exception", re.I)
_NO_ERROR = re.compile(r"\b0 (?:errors?|failed|failures?)\b|^[^a-z]*$", re.I)

_CONCEPTS: tuple[tuple[str, tuple[Kind, ...], re.Pattern[str]], ...] = (
    (
        "trade-off",
        ("decision",),
        re.compile(r"\b(?:trade-?off|over|rather than|instead of|cost|slower|faster|cheaper)\b", re.I),
    ),
    (
        "why-it-exists",
        ("decision", "context"),
        re.compile(r"\b(?:because|since|so that|reason|in order to)\b", re.I),
    ),
    ("problem-solution", ("bugfix",), re.compile("")),
    ("gotcha", ("deadend",), re.compile("")),
    (
        "gotcha",
        ("bugfix", "pattern", "context"),
        re.compile(
            r"\b(?:otherwise|unless|must|careful|only works?|silently|never|cannot|doesn't|"
            r"does not|fails?|can't|has to|have to|unexpected\w*|even though|turns? out)\b",
            re.I,
        ),
    ),
    ("pattern", ("pattern", "preference"), re.compile("")),
    (
        "what-changed",
        ("decision", "bugfix", "context"),
        re.compile(
            r"\b(?:added|moved|renamed|removed|replaced|changed|switched|dropped|introduced|"
            r"deleted|now|no longer|fixed|created|updated|implemented)\b",
            re.I,
        ),
    ),
    (
        "how-it-works",
        ("context", "bugfix"),
        re.compile(
            r"\b(?:uses|calls|returns|reads|writes|stores|tracks|sends|expects|takes|runs|listens|"
            r"works|lives|supports|stored|contains|refers)\b",
            re.I,
        ),
    ),
)


def concepts_of(kind: Kind, words: str, allowed: Sequence[str]) -> tuple[str, ...]:
    """The allowed concepts that fit, each once."""
    fitting = [name for name, kinds, pattern in _CONCEPTS if kind in kinds and pattern.search(words)]
    return tuple(dict.fromkeys(name for name in fitting if name in allowed))[:LIST_LIMIT]


def files_of(turn: Turn) -> tuple[str, ...]:
    """The files the turn changed; where it changed none, the few it read."""
    changed = turn.changed_files
    if changed:
        return tuple(changed[:LIST_LIMIT])
    read = list(dict.fromkeys(f for step in turn.steps for f in step.call.files))
    return tuple(read) if len(read) <= _FEW else ()


def rule_body(turn: Turn, chosen: Sentence, rules: Sequence[Sentence], title: str) -> str:
    """The body of a standing rule: what it was said beside, and the other rules of the same breath."""
    lines = []
    if beside := _beside(turn, chosen):
        lines.append(f"Asked: {_cut(beside, _ASKED)}")
    known = "\n".join([title, *lines])
    others = [s.text for s in rules if s.index != chosen.index and s.text not in known]
    if others:
        lines.append("Also: " + one_line(" ".join(map(_ended, others)), _WHY))
    return "\n".join(lines)[:BODY_LIMIT].rstrip()


def body_of(turn: Turn, chosen: Sentence, around: Sequence[Sentence], title: str) -> str:
    """The body of any other observation: asked, why, failed first, changed; each where there is something to
    say."""
    lines = []
    if asked := _asked(turn, chosen):
        lines.append(f"Asked: {asked}")
    if why := _why(chosen, around, title):
        lines.append(why)
    if overcome := _overcome(turn):
        lines.append(overcome)
    if changed := turn.changed_files:
        names = list(dict.fromkeys(f.replace("\\", "/").rsplit("/", 1)[-1] for f in changed))
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        lines.append("Changed: " + ", ".join(names[:4]) + more)
    return "\n".join(lines)[:BODY_LIMIT].rstrip()


def _asked(turn: Turn, chosen: Sentence) -> str:
    """The question, on one line. A prompt typed while another one was being worked on comes after that one."""
    begun = turn.begun.text if turn.begun and not is_document(turn.begun.text) else ""
    questions = [q for q in (begun, _beside(turn, chosen)) if len(q.split()) >= _ASKED_WORDS]
    if not questions:
        return ""
    first, *then = questions
    return _cut(first, _ASKED) + "".join(f" / {_cut(text, _THEN)}" for text in then)


def _cut(text: str, limit: int) -> str:
    return paired(one_line(text, limit))


def _beside(turn: Turn, chosen: Sentence) -> str:
    """What the question says besides the chosen sentence, where it says more than a few words."""
    if is_document(turn.asked):
        return ""
    before, found, after = turn.asked.partition(chosen.raw)
    rest = f"{before.rstrip()} {after.lstrip()}".strip()
    return turn.asked if not found else rest if len(rest) > _ASIDE else ""


def _beyond(chosen: Sentence, title: str) -> str:
    """What the sentence says that its title does not: all that follows it, or the whole sentence where the title is no
    beginning of it."""
    if len(chosen.text) <= len(title) + _MORE:
        return ""
    said, kept = strip_lead_in(chosen.spoken), title.removesuffix("…")
    if said[: len(kept)].casefold() != kept.casefold():
        return chosen.text
    rest = said[len(kept) :]
    more = rest.lstrip(" ,;:.–—-")
    if len(more) <= _MORE:
        return ""
    return more if rest.lstrip()[:1] in (";", ":", ".", "–", "—") else f"…{more}"


def _why(chosen: Sentence, around: Sequence[Sentence], title: str) -> str:
    """What the sentence says beyond the title, and what is said next to it."""
    parts = [more] if (more := _beyond(chosen, title)) else []
    near = [s for s in around if _tells(s, chosen)]
    near.sort(key=lambda s: (not REASON.search(s.text), abs(s.index - chosen.index), s.index))
    for sentence in near[:2]:
        if (
            sentence.index > chosen.index
            or REASON.search(sentence.text)
            or names_in(sentence.raw) >= _TELLING
        ):
            parts.append(sentence.spoken)
    text = one_line(" ".join(map(_ended, parts)), _WHY)
    return f"{'Why' if REASON.search(text) else 'Also'}: {text}" if text else ""


def _tells(sentence: Sentence, chosen: Sentence) -> bool:
    return (
        0 < abs(sentence.index - chosen.index) <= _NEAR
        and sentence.section == chosen.section
        and not sentence.text.endswith(":")
        and not is_question(sentence.text)
        and fault_of(sentence, by_user=False) < 1.0
    )


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "。")) else text + "."


def _overcome(turn: Turn) -> str:
    """The first command that failed and worked later, with the first line of its error."""
    steps = turn.commands
    for number, step in enumerate(steps):
        if step.failed and any(
            not later.failed and _program(later) == _program(step) for later in steps[number + 1 :]
        ):
            error = _first_error(step)
            return f"Failed first: {one_line(step.call.command, 100)}" + (f" → {error}" if error else "")
    return ""


def _program(step: Step) -> str:
    words = step.call.command.split()
    return " ".join(words[:2])


def _first_error(step: Step) -> str:
    lines = (
        [text.strip() for text in step.result.text.splitlines() if not _NO_ERROR.search(text)]
        if step.result
        else []
    )
    telling = [text for text in lines if _ERROR.search(text)]
    plain = [text for text in telling or lines if not text.lower().startswith("exit code")]
    return one_line(plain[0], 140) if plain else ""
