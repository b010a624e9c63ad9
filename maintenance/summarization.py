"""The job that puts old, little used memories away: those of one topic are written into one summary, which keeps every name,
number, decision and reason, and what is over is archived.

Old means that it was neither said nor used for `summarization_age_days`; being shown is no use. Preferences, what is pinned and
what was written by hand are never touched. A summary links to what it stands for, which is archived and can be restored."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Sequence

from cems import home
from cems.redact import Redactor
from db import changes, rewriting
from db.changes import Change
from db.rewriting import Source
from maintenance.condensing import Draft, Verdict, judge, write
from maintenance.condensing_answer import Section, Task, ask
from maintenance.job import Job
from maintenance.reflection import packed
from maintenance.related import topics
from maintenance.summarization_prompt import SYSTEM
from maintenance.summarization_rule import extract

MARK, MARK_OF_RULES = "summarization", "summarization by rules"
"""What a model has looked at, and what rules have."""
LEAST, MOST = 4, 12
"""Memories of a topic."""
REPLACED = 3
"""Memories that a summary has to stand for at least; one of four may stay for a detail of its own."""
ROOM = 1_400
"""Characters of their titles at most: a summary has to have room for them."""
NEAR = 0.2
"""How near the memories of a topic are to one of them; see `maintenance.related`."""
_TASK = Task("summarization", SYSTEM, "summaries", least=REPLACED, once=True)


def run_once(job: Job) -> None:
    """Archive what is over, then summarise what is old, project by project."""
    _archive(job)
    _Summarization(job).run()


def _archive(job: Job) -> None:
    """Archive what is over; see `over` in db/queries/rewriting.sql."""
    now, age = job.clock.now(), dt.timedelta(days=job.settings.summarization_age_days)
    for memory in rewriting.over(job.db, job.project, now - age):
        if job.stopping():
            job.report.waiting += 1
            continue
        job.report.seen += 1
        gone = {memory.id: {"archived_at": now}}
        change = Change("archived", memory.why, {memory.id: memory.changed_at}, gone)
        job.apply(change, memory.title)


class _Summarization:
    """One run over the projects that have something old."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._redactor = Redactor(home.redaction_key(job.settings.home))
        self._before = job.clock.now() - dt.timedelta(days=job.settings.summarization_age_days)
        self._silent = False
        """No model answers any more in this run."""

    def run(self) -> None:
        """Every project that has something old."""
        job = self._job
        projects = rewriting.quiet_projects(job.db, job.project, self._before)
        total, done = sum(count for _, count in projects), 0
        for project, count in projects:
            self._project(project)
            done += count
            job.progress("old memories summarised", done, total)

    def _project(self, project: uuid.UUID | None) -> None:
        job = self._job
        marks = (MARK,) if job.generator else (MARK, MARK_OF_RULES)
        old = rewriting.quiet(job.db, marks, project, self._before, job.clock.now())
        sorts: dict[tuple[str, bool], list[Source]] = {}
        for source in old:
            sorts.setdefault((source.kind, source.origin == "tool"), []).append(source)
        groups = [g for _, s in sorted(sorts.items()) for g in topics(s, NEAR, LEAST, MOST, ROOM)]
        if job.generator is None:
            for group in groups:
                self._by_rule(group)
        elif job.dry_run:
            self._left(groups, "topics would be put to the model")
        else:
            sections = [
                Section(f"topic {number}: {group[0].kind}", tuple(group))
                for number, group in enumerate(groups, 1)
            ]
            for request in packed(sections):
                if self._silent or job.stopping() or not self._request(request):
                    self._left([s.sources for s in request], "")

    def _left(self, groups: Sequence[Sequence[Source]], why: str) -> None:
        self._job.leave(len(groups))
        if groups and why:
            self._job.report.note(f"{len(groups)} {why}")

    def _by_rule(self, group: Sequence[Source]) -> None:
        """Write the sentences that cannot be missed; a topic that does not get shorter so is left for a model."""
        job = self._job
        if job.stopping():
            job.report.waiting += 1
            return
        job.report.seen += len(group)
        draft = extract(group)
        verdict = judge(draft, REPLACED, titles=True) if draft else None
        if draft and verdict and verdict.usable:
            self._write(draft, verdict, "rules", MARK_OF_RULES)
        else:
            self._decline(group, MARK_OF_RULES, "what rules cannot make shorter was left as it is")

    def _request(self, request: Sequence[Section]) -> bool:
        """Put some topics to the model and write what comes back; False where that has to be done again."""
        job, failed = self._job, self._job.report.failed
        answer = ask(job, _TASK, request, self._redactor.redact)
        if answer is None:
            self._silent = job.report.failed == failed
            return False
        assert job.generator is not None
        job.report.seen += sum(len(section.sources) for section in request)
        for draft, verdict in answer.drafts:
            if verdict.usable:
                self._write(draft, verdict, job.generator.model, MARK)
            else:
                self._decline(draft.sources, MARK, "a summary lost or added details, or was no shorter")
        job.report.kept_apart += len(answer.kept)
        self._mark(MARK, answer.kept)
        return True

    def _write(self, draft: Draft, verdict: Verdict, author: str, mark: str) -> None:
        become = write(self._job, draft, verdict.replaced, "summary", "summarized", author)
        if become != "busy":
            self._mark(mark, draft.sources)

    def _decline(self, sources: Sequence[Source], mark: str, why: str) -> None:
        self._job.report.kept_apart += 1
        self._job.report.note(why)
        self._mark(mark, sources)

    def _mark(self, mark: str, sources: Sequence[Source]) -> None:
        if self._job.run is not None and sources:
            changes.mark(self._job.db, mark, {s.id: s.changed_at for s in sources})
