"""The job that condenses what was observed in a project into fewer, higher-level reflections, and lets a preference that was
said in several projects hold in all of them.

A project is due when enough of its observations are new, or when an earlier run wrote some reflections of it and did not
come to its end. What is new is put to a model together with what it is near to; what the model condenses remains as evidence,
superseded by the reflection. Without a model nothing is condensed, and what is new waits for one."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence

from cems import home
from cems.redact import Redactor
from db import rewriting
from db.rewriting import Source, Waiting
from maintenance.condensing import Draft, Verdict, write
from maintenance.condensing_answer import MOST_CHARACTERS, MOST_NOTES, Section, Task, ask, size
from maintenance.job import Job
from maintenance.reflection_everywhere import Everywhere
from maintenance.reflection_prompt import SYSTEM
from maintenance.related import around_fresh

MARK = "reflection"
"""The mark of what a model has looked at."""
_TASK = Task("reflection", SYSTEM, "reflections", least=2)


def run_once(job: Job) -> None:
    """Promote first, while the sentences are still those of the user; then condense, project by project."""
    Everywhere(job).run()
    _Reflection(job).run()


class _Reflection:
    """One run over the projects that are due."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._redactor = Redactor(home.redaction_key(job.settings.home))
        self._silent = False
        """No model answers any more in this run."""

    def run(self) -> None:
        """Every project that is due."""
        job = self._job
        enough = job.settings.reflection_observations
        found = rewriting.waiting(job.db, MARK, job.project, job.clock.now())
        due = [w for w in found if w.fresh >= enough or w.unfinished]
        if job.generator is None or job.dry_run:
            self._leave(due)
            return
        total, done = sum(w.fresh for w in due), 0
        for waiting in due:
            self._project(waiting)
            done += waiting.fresh
            job.progress("observations condensed", done, total)

    def _leave(self, due: Sequence[Waiting]) -> None:
        """Say what only a model can do."""
        count = sum(w.fresh for w in due)
        self._job.leave(count)
        if due and self._job.generator is None:
            self._job.report.note(f"{count} new observations in {len(due)} projects wait for a model")
        elif due:
            self._job.report.note(
                f"{count} new observations in {len(due)} projects would be put to the model"
            )

    def _project(self, waiting: Waiting) -> None:
        job = self._job
        sources = rewriting.of_project(job.db, MARK, waiting.project, job.clock.now())
        sections, alone = sections_of(sources)
        job.mark({s.id: s.changed_at for s in alone})
        for request in packed(sections):
            notes = [s for section in request for s in section.sources]
            if self._silent or job.stopping() or not self._request(request):
                job.report.waiting += sum(s.fresh and s.layer == "observation" for s in notes)

    def _request(self, request: Sequence[Section]) -> bool:
        """Put some sections to the model and write what comes back; False where that has to be done again."""
        job, failed = self._job, self._job.report.failed
        answer = ask(job, _TASK, request, self._redactor.redact)
        if answer is None:
            # A failure concerns this request; where there was none, the model is paused or capped for all of them.
            self._silent = job.report.failed == failed
            return False
        job.report.seen += sum(len(section.sources) for section in request)
        looked_at = {s.id: s.changed_at for section in request for s in section.sources}
        for draft, verdict in answer.drafts:
            if not self._written(draft, verdict):
                for source in draft.sources:
                    del looked_at[source.id]
        job.report.kept_apart += len(answer.kept)
        job.mark(looked_at)
        return True

    def _written(self, draft: Draft, verdict: Verdict) -> bool:
        """Write a draft, or leave it; False where a memory changed meanwhile."""
        job = self._job
        if not verdict.usable:
            job.report.kept_apart += 1
            job.report.note(
                "some reflections were not written: they lost or added details, or were no shorter"
            )
            return True
        assert job.generator is not None
        new = write(job, draft, verdict.replaced, "reflection", "condensed", job.generator.model)
        if isinstance(new, uuid.UUID):
            # What it is near to was in sight when it was written.
            job.mark({new: job.clock.now()})
            if len(verdict.replaced) < len(draft.sources):
                job.report.note("some memories stay beside a reflection: it does not say all their details")
        return new != "busy"


def sections_of(sources: Sequence[Source]) -> tuple[list[Section], list[Source]]:
    """What may be written into one, and what has nothing beside it: memories of one kind, and what only a tool's output
    says apart, because a text is trusted as little as the least trusted note it stands on. Only sections with something new."""
    sorts: dict[tuple[str, bool], list[Source]] = {}
    for source in sources:
        sorts.setdefault((source.kind, source.origin == "tool"), []).append(source)
    sections, alone = list[Section](), list[Source]()
    for (kind, tool), members in sorted(sorts.items()):
        heading = f"{kind}, seen in the output of tools only" if tool else kind
        for group in around_fresh(members, MOST_NOTES, MOST_CHARACTERS, size):
            if len(group) > 1:
                sections.append(Section(heading, tuple(group)))
            else:
                alone += group
    return sections, alone


def packed(sections: Sequence[Section]) -> Iterator[list[Section]]:
    """Sections as they fit into one request."""
    request, notes, characters = list[Section](), 0, 0
    for section in sections:
        length = sum(map(size, section.sources))
        full = notes + len(section.sources) > MOST_NOTES or characters + length > MOST_CHARACTERS
        if request and full:
            yield request
            request, notes, characters = [], 0, 0
        request.append(section)
        notes += len(section.sources)
        characters += length
    if request:
        yield request
