"""Observations without a model: rules read what the user and the assistant wrote and keep, of each turn that
matters, its best sentence where that is good enough, and a standing rule where the user stated one. Silence
is better than noise: what is no clear statement gives nothing, and every observation quotes the words it
comes from.

Confidence: a standing rule has its cue's strength (0.6 to 0.9); everything else nine tenths of its
sentence's score, kept between 0.4 and 0.9."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cems.clock import Clock, SystemClock
from cems.models import KINDS, QUOTE_LIMIT, Kind, Line, Observation
from cems.text import normalise
from observer.around import around_of
from observer.evidence import verify
from observer.extract import Context, Extracted
from observer.kinds import DEFECT, About, cue_of
from observer.rules_body import body_of, concepts_of, files_of, rule_body
from observer.rules_standing import is_question, standing
from observer.rules_text import UNSPACED, Sentence, is_document, sentences
from observer.rules_title import title_of
from observer.turns import Turn
from observer.worth import THRESHOLD, fault_of, names_in, proposes, score_of

_SHORT_TITLE = 24
_QUIET = 0.7
# A longer prompt holds what others wrote: its rules may be the user's, its statements are not.
_LONG = 1500
_OWN = 600


class _Found(NamedTuple):
    kind: Kind
    score: float
    line: Line
    sentence: Sentence
    around: Sequence[Sentence]
    title: str


class RuleExtractor:
    """Keeps the `Extractor` contract with rules alone; the clock is asked only where no line of a batch has
    a time."""

    author = "rules"

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    def extract(self, turns: Sequence[Turn], context: Context) -> Extracted:
        """At most one observation a turn, and one more for a standing rule of the user's."""
        observations: list[Observation] = []
        refused: list[str] = []
        said: set[str] = set()
        at: dt.datetime | None = next((t.at for t in turns if t.at), None)
        for turn in turns:
            at = turn.at or at
            for found in _found(turn):
                if (key := normalise(found.title)) in said:
                    continue
                said.add(key)
                observation = _observation(found, turn, context, at or self._clock.now())
                if observation:
                    observations.append(observation)
                else:
                    refused.append("no_evidence")
        return Extracted(tuple(observations), tuple(refused))


def _observation(found: _Found, turn: Turn, context: Context, at: dt.datetime) -> Observation | None:
    evidence = verify(found.sentence.raw[:QUOTE_LIMIT], found.line)
    if evidence is None:
        return None
    rule = found.kind == "preference"
    write = rule_body if rule else body_of
    body = write(turn, found.sentence, found.around, found.title)
    return Observation(
        kind=found.kind,
        title=found.title,
        body=body,
        concepts=concepts_of(found.kind, found.sentence.text, context.concepts),
        # A rule holds beyond the files of the turn in which it was said.
        files=() if rule else files_of(turn),
        confidence=round(found.score if rule else min(0.9, max(0.4, 0.9 * found.score)), 2),
        evidence=(evidence,),
        occurred_at=at,
        project_id=turn.project_id,
        around=around_of(turn, (evidence.line,), turn.project_id),
    )


def _found(turn: Turn) -> Iterator[_Found]:
    said = _own_words(turn)
    rule = _standing_rule(turn, said)
    if rule:
        yield rule
    if not turn.matters():
        return
    best = _best(turn, [s for s in said if not rule or s.index != rule.sentence.index])
    if best:
        yield best


def _own_words(turn: Turn) -> list[Sentence]:
    """What the user wrote in this batch, without what they pasted: people write first and paste below."""
    if turn.carried or turn.question is None or turn.question.origin != "user" or is_document(turn.asked):
        return []
    return sentences(turn.asked if len(turn.asked) <= _LONG else turn.asked[:_LONG].rpartition("\n")[0])


def _standing_rule(turn: Turn, said: Sequence[Sentence]) -> _Found | None:
    best: tuple[float, Sentence] | None = None
    for sentence in said:
        strength = standing(sentence.text)
        if strength > (best[0] if best else 0.0):
            best = strength, sentence
    if best is None or turn.question is None:
        return None
    strength, sentence = best
    title = title_of(sentence.text)
    before = said[sentence.index - 1] if sentence.index else None
    if before and len(title) < _SHORT_TITLE and UNSPACED.search(title):
        title = title_of(f"{before.text} {sentence.text}")
    rules = [s for s in said if s is sentence or standing(s.text)]
    return _Found("preference", strength, turn.question, sentence, rules, title)


def _best(turn: Turn, said: Sequence[Sentence]) -> _Found | None:
    """The best statement of the turn; among equals the first of the kinds, then the last said."""
    answers = turn.answers
    about = About(_is_about_a_defect(turn), bool(turn.changed_files))
    least = THRESHOLD if about.changed or turn.commands else _QUIET
    best: _Found | None = None
    for line in reversed(answers):
        for found in _statements(line, sentences(line.text), about, final=line is answers[-1]):
            if found.score >= least and (best is None or _rank(found) > _rank(best)):
                best = found
    if turn.question and len(turn.asked) <= _OWN:
        for found in _statements(turn.question, said, about, final=False):
            if found.score >= least and (best is None or _rank(found) >= _rank(best)):
                best = found
    return best


def _statements(line: Line, found: Sequence[Sentence], about: About, *, final: bool) -> Iterator[_Found]:
    by_user = line.origin == "user"
    proposing = not by_user and not about.changed and proposes(line.text)
    for sentence in found:
        if by_user and is_question(sentence.text):
            continue
        if (proposing and sentence.listed) or (fault := fault_of(sentence, by_user)) >= 1.0:
            continue
        names = names_in(sentence.raw)
        cue = cue_of(sentence, about, names)
        if cue is None:
            continue
        score = score_of(sentence, cue, names, about, final=final, by_user=by_user) - fault
        if score >= THRESHOLD and (title := title_of(sentence.spoken, as_is=sentence.raw.startswith("`"))):
            yield _Found(cue.kind, score, line, sentence, found, title)


def _rank(found: _Found) -> tuple[float, int]:
    return round(found.score * 10), -KINDS.index(found.kind)


def _is_about_a_defect(turn: Turn) -> bool:
    """Something was broken: the user says so, or a command failed and a later one did not."""
    if DEFECT.search(turn.asked[:2000]):
        return True
    steps = turn.commands
    return any(s.failed for s in steps) and bool(steps) and not steps[-1].failed
