"""Preferences that hold everywhere. What the user said in two projects or more is taken for a rule of theirs: the same sentence
by rule, a paraphrase where a model says so and no guard speaks. Only the user's own preferences, only in words one of them has,
and nothing but plain words beside the sentence, because names and numbers may belong to one project."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator, Sequence

import msgspec

from cems.models import BODY_LIMIT, TITLE_LIMIT
from cems.providers import GenerateRequest
from cems.text import normalise, one_line
from db import changes, rewriting
from db.changes import Change
from db.memories import content_hash
from db.rewriting import Source
from maintenance.condensing import Draft, fact, values_in, write
from maintenance.guards import same_fact, why_apart
from maintenance.job import Job
from maintenance.merge import sentences
from maintenance.reflection_prompt import EVERYWHERE, SAME_SCHEMA
from maintenance.related import Related
from maintenance.statement import Statement

MARK, MARK_OF_MODEL = "reflection everywhere", "reflection everywhere by a model"
_NEAR = 0.3
"""How near two sentences have to be for a model to be asked."""
_MOST = 60
"""Sentences of one request."""


class _Same(msgspec.Struct):
    same: list[list[int]]


class Everywhere:
    """One look at the user's preferences."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def run(self) -> None:
        """By rule first; what is left, by a model if there is one."""
        job = self._job
        found = rewriting.preferences(job.db, MARK, job.clock.now())
        by_sentence: dict[str, list[Source]] = {}
        for source in found:
            by_sentence.setdefault(normalise(source.title), []).append(source)
        for group in by_sentence.values():
            if len({s.project_id for s in group}) > 1 and any(map(self._new, group)):
                self._settle(group, "rules")
        self._mark(MARK, found)
        if job.generator is not None and not job.dry_run and not job.stopping():
            self._by_model()

    def _new(self, source: Source) -> bool:
        """Whether a preference is to be compared with the others in this run."""
        return source.fresh and self._job.project in (None, source.project_id)

    def _settle(self, group: Sequence[Source], author: str) -> None:
        """Let one memory stand for preferences that are the same. One that changes meanwhile is looked at by the next run."""
        standing = next((s for s in group if s.project_id is None), None)
        if standing is not None:
            self._join(standing, [s for s in group if s.project_id is not None])
            return
        if self._forgotten(group):
            self._job.report.kept_apart += 1
            return
        newest = max(group, key=lambda s: (s.occurred_at, s.id))
        draft = Draft(one_line(newest.title, TITLE_LIMIT), _plain_words(group), tuple(group))
        replaced = [s for s in group if not s.kept and _covered(s, draft.text)]
        write(self._job, draft, replaced, "reflection", "promoted", author)

    def _forgotten(self, group: Sequence[Source]) -> bool:
        """Whether a person forgot one of these in some project: what holds everywhere would come back there."""
        gone = rewriting.forgotten_rules(self._job.db)
        return any(content_hash(s.kind, s.title, s.body) in gone for s in group) or any(
            same_fact(_sentence(s.title), _sentence(title), 1.0)
            for title in gone.values()
            if title
            for s in group
        )

    def _join(self, standing: Source, others: Sequence[Source]) -> None:
        """Let what holds everywhere already stand for what a project says again."""
        told = f"{standing.title}\n{standing.body}"
        gone = [s for s in others if not s.kept and _covered(s, told)]
        if not gone or changes.undone_pairs(self._job.db, [s.id for s in gone]) & {
            frozenset((standing.id, s.id)) for s in gone
        }:
            return
        change = Change(
            what="promoted",
            why="it holds in every project already",
            seen={s.id: s.changed_at for s in (standing, *gone)},
            updates={s.id: {"superseded_by": standing.id, "superseded_how": "condensed"} for s in gone},
            into=standing.id,
            links=[s.id for s in gone],
        )
        self._job.apply(change, standing.title)

    def _mark(self, mark: str, sources: Sequence[Source]) -> None:
        """Note what was compared with all others: in a run for one project only what belongs to it."""
        job = self._job
        compared = [s for s in sources if job.project in (None, s.project_id)]
        if job.run is not None and compared:
            changes.mark(job.db, mark, {s.id: s.changed_at for s in compared})

    def _by_model(self) -> None:
        """Ask about sentences that may be paraphrases of each other, and have not been asked about."""
        job = self._job
        found = rewriting.preferences(job.db, MARK_OF_MODEL, job.clock.now())
        new = [place for place, source in enumerate(found) if self._new(source)]
        asked = dict.fromkeys(place for group in _candidates(found, new) for place in group)
        for stretch in _stretches([found[place] for place in asked]):
            if not self._ask(stretch):
                job.leave(1)
                return
        self._mark(MARK_OF_MODEL, found)

    def _ask(self, sources: Sequence[Source]) -> bool:
        job = self._job
        request = GenerateRequest(
            "reflection", EVERYWHERE, _rendered(sources), SAME_SCHEMA, 2000, job.settings.llm_timeout
        )
        reply = job.ask(request)
        if reply is None:
            return False
        try:
            groups = _groups(msgspec.convert(reply.data, _Same).same, sources)
        except (msgspec.ValidationError, ValueError) as error:
            job.report.failed += 1
            job.report.note(f"rules of several projects: {one_line(str(error), 200)}")
            return False
        assert job.generator is not None
        for group in groups:
            if len({s.project_id for s in group}) > 1 and _all_the_same(group):
                self._settle(group, job.generator.model)
            else:
                job.report.kept_apart += 1
        return True


def _plain_words(group: Sequence[Source]) -> str:
    """What the memories of a group say besides their sentence, without all that may belong to one project."""
    known = {normalise(s.title) for s in group} | {""}
    kept, length = list[str](), 0
    for source in sorted(group, key=lambda s: (s.occurred_at, s.id), reverse=True):
        for sentence in sentences(fact(source)):
            plain = not values_in(source.kind, sentence)
            if plain and normalise(sentence) not in known and length + len(sentence) < BODY_LIMIT:
                known.add(normalise(sentence))
                kept.append(sentence)
                length += len(sentence) + 1
    return " ".join(kept)


def _covered(source: Source, text: str) -> bool:
    """Whether a text has every sentence that a memory says besides its title."""
    told = normalise(text)
    return all(normalise(sentence) in told for sentence in sentences(fact(source)))


def _candidates(sources: Sequence[Source], new: Sequence[int]) -> Iterator[list[int]]:
    """The place of each new preference with those of other projects that may say the same."""
    if not new:
        return
    related = Related(sources)
    for place in new:
        source = sources[place]
        near = [o for score, o in related.near(place) if score >= _NEAR]
        others = [
            o for o in near if sources[o].project_id != source.project_id and _may_be_same(source, sources[o])
        ]
        if others:
            yield [place, *others]


def _may_be_same(one: Source, two: Source) -> bool:
    """Whether no rule keeps two sentences apart."""
    return why_apart(_sentence(one.title), _sentence(two.title)) is None


def _sentence(title: str) -> Statement:
    return Statement("preference", None, title, "")


def _all_the_same(group: Sequence[Source]) -> bool:
    """Whether every two of a group may be the same: no chains."""
    return all(_may_be_same(a, b) for a, b in itertools.combinations(group, 2))


def _stretches(sources: Sequence[Source]) -> Iterator[Sequence[Source]]:
    for start in range(0, len(sources), _MOST):
        yield sources[start : start + _MOST]


def _rendered(sources: Sequence[Source]) -> str:
    letters: dict[uuid.UUID | None, str] = {}
    for source in sources:
        letters.setdefault(source.project_id, f"P{len(letters) + 1}" if source.project_id else "everywhere")
    lines = [
        f"[{number}] ({letters[s.project_id]}) {one_line(s.title, TITLE_LIMIT)}"
        for number, s in enumerate(sources, 1)
    ]
    return "<rules>\n" + "\n".join(lines) + "\n</rules>\n\nWhich of them are the same rule?"


def _groups(same: Sequence[Sequence[int]], sources: Sequence[Source]) -> list[list[Source]]:
    """The groups an answer names.

    Raises:
        ValueError: a number that is not there, or stands twice.
    """
    named = [number for numbers in same for number in numbers]
    if any(not 1 <= n <= len(sources) for n in named) or len(set(named)) < len(named):
        raise ValueError("the answer names a number that is not there, or one twice")
    return [[sources[n - 1] for n in numbers] for numbers in same if len(numbers) > 1]
