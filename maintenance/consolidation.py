"""The job that merges memories which state the same fact, and lets an earlier one end where a later one replaced it.

What is new or changed is compared with all that is live in its project, layer and kind; rules decide what they can, a model
judges some of the rest, and what nobody can decide stays apart. A memory is marked once it was looked at, so that a second
run without new input does nothing, and a run that ended early is taken up by the next one."""

from __future__ import annotations

import datetime as dt
import itertools
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set

from cems.failpoint import failpoint
from cems.models import Layer
from db import candidates, changes
from db.candidates import Group, Member
from maintenance import linkage
from maintenance.candidates import Found, Pair, Vectors, by_vectors
from maintenance.deciding import Case, Judge, by_rule
from maintenance.job import Job
from maintenance.merge import merge, replace
from maintenance.shared_words import by_words

LAYERS: tuple[Layer, ...] = ("observation", "reflection")
"""Layers in which one memory may say what another one says; a summary is of its own time."""
_TOGETHER = 300
"""Pairs whose memories are loaded and judged together."""
_MARKED = 5_000
"""Marks written in one go."""


def run_once(job: Job) -> None:
    """Look at what is new or changed, until that is done or the job is asked to stop."""
    _Consolidation(job).run()


class _Consolidation:
    """One run."""

    def __init__(self, job: Job) -> None:
        self._job, self._judge = job, Judge(job)
        self._vectors = None
        if job.embedder is not None:
            threshold = job.settings.consolidation_threshold
            self._vectors = Vectors(job.embedder.model_id, job.embedder.dimensions, threshold)
        # A mark for each way of looking: when there is a better one, everything is looked at again.
        by = f"consolidation by {self._vectors.model if self._vectors else 'words'}"
        self._marks = [by, f"{by} and a model"] if job.generator else [by]
        self._threshold = job.settings.consolidation_threshold
        self._apart: Counter[str] = Counter()

    def run(self) -> None:
        """Compare, decide, write, until nothing is left."""
        job, mark = self._job, self._marks[-1]
        groups = candidates.groups(job.db, mark, job.project, LAYERS)
        total = sum(group.unlooked for group in groups)
        for found in self._found(groups, mark):
            self._settle(found)
            job.report.seen += len(found.looked_at)
            job.progress("memories compared", job.report.seen, total)
        self._say(total)

    def _say(self, total: int) -> None:
        """What is left, and why pairs were kept apart."""
        report, left = self._job.report, total - self._job.report.seen
        report.waiting += left
        report.kept_apart += sum(self._apart.values())
        if left and self._job.stopping():
            report.note("stopped early; the next run goes on")
        elif left:
            report.note(f"{left} without a vector yet")
        if self._apart:
            report.note("kept apart: " + ", ".join(f"{why} {n}" for why, n in self._apart.most_common()))
        if self._judge.unasked:
            report.note(f"{self._judge.unasked} pairs only a model could decide")

    def _found(self, groups: Sequence[Group], mark: str) -> Iterator[Found]:
        job = self._job
        if self._vectors is not None and groups:
            yield from by_vectors(job.db, groups, mark, self._vectors, job.stopping)
        elif self._vectors is None:
            for group in groups:
                if (found := by_words(job.db, group, mark, job.stopping)) is not None:
                    yield found

    def _settle(self, found: Found) -> None:
        """Decide on what was found, write it, and mark what was looked at; what is left when it is time to stop is not."""
        if found.cut:
            self._job.report.note("more near pairs than can be looked at; the nearest were")
        ends = {m for pair in found.pairs for m in pair[:2]}
        alone = {m: at for m, at in found.looked_at.items() if m not in ends}
        self._mark(alone, frozenset())
        parted = changes.undone_pairs(self._job.db, sorted(ends)) if ends else set()
        for pairs in _batches(linkage.touching(found.pairs)):
            cases = self._cases(pairs, found.looked_at)
            exact = self._vectors is None
            if not all(
                by_rule(c, parted, self._threshold, self._job.stopping, only_exact=exact) for c in cases
            ):
                break
            self._judge.decide(cases)
            for case in cases:
                self._write(case)
                alone.update(case.looked_at)
            self._job.progress("memories settled", self._job.report.seen + len(alone), None)
            if self._job.stopping():
                break
        found.looked_at = alone

    def _cases(self, pairs: Sequence[list[Pair]], looked_at: Mapping[uuid.UUID, dt.datetime]) -> list[Case]:
        ids = {m for together in pairs for pair in together for m in pair[:2]}
        loaded = candidates.members(self._job.db, sorted(ids))
        # What changed since it was compared is looked at again by the next run.
        members = {m: row for m, row in loaded.items() if looked_at.get(m, row.changed_at) == row.changed_at}
        cases = []
        for together in pairs:
            ends = {m for pair in together for m in pair[:2]}
            cases.append(Case(together, members, {m: looked_at[m] for m in sorted(ends) if m in looked_at}))
        return cases

    def _write(self, case: Case) -> None:
        """Write what was decided of a case, merges first, and mark who was looked at."""
        groups = linkage.groups(case.same)
        linked = {pair for group in groups for pair in _pairs(group)}
        case.apart["not the same as all of a group"] += len(case.same.keys() - linked)
        # First those that nothing happens to: after a kill they are not compared with what the others have become.
        settled = {m for group in groups for m in group}.union(*case.replaced)
        self._mark({m: at for m, at in case.looked_at.items() if m not in settled}, case.waiting)
        writing = _Writing(self._job, case, self._mark)
        for group in groups:
            writing.merge(group)
        writing.replace({m: frozenset(group) for group in groups for m in group})
        left = {m: at for m, at in case.looked_at.items() if m not in writing.busy | writing.gone}
        rest = {m: at for m, at in left.items() if m in settled and m not in writing.stands}
        self._mark(rest, case.waiting)
        self._job.report.waiting += len(case.waiting & left.keys())
        self._apart += case.apart

    def _mark(self, looked_at: Mapping[uuid.UUID, dt.datetime], waiting: Set[uuid.UUID]) -> None:
        """Note that memories were looked at; for those that still wait for a model only that rules looked at them."""
        if self._job.run is None:
            return
        for names, marked in (
            (self._marks, {m: at for m, at in looked_at.items() if m not in waiting}),
            (self._marks[:-1], {m: at for m, at in looked_at.items() if m in waiting}),
        ):
            every = list(marked.items())
            for start in range(0, len(every), _MARKED):
                candidates.mark(self._job.db, names, dict(every[start : start + _MARKED]))
                failpoint("after_marks")


class _Writing:
    """Writes one case."""

    def __init__(
        self, job: Job, case: Case, mark: Callable[[Mapping[uuid.UUID, dt.datetime], Set[uuid.UUID]], None]
    ) -> None:
        self._job, self._case, self._mark = job, case, mark
        self._unfinished = case.unfinished
        self.stands: dict[uuid.UUID, Member] = {}
        """Who stands for each memory that was merged, as it is now."""
        self.busy: set[uuid.UUID] = set()
        """Memories that changed meanwhile; the next run looks at them as they are then."""
        self.gone: set[uuid.UUID] = set()
        """Memories that are superseded now."""

    def merge(self, group: Sequence[uuid.UUID]) -> None:
        """Merge a group of one fact."""
        case, job = self._case, self._job
        if job.stopping():
            self.busy.update(group)
            return
        least = min(case.same[pair] for pair in _pairs(group))
        by_model = not case.judged.isdisjoint(_pairs(group))
        by = "a model" if by_model else f"rule, cosine {least:.3f} or more"
        planned = merge([case.members[m] for m in group], f"the same fact by {by}", job.clock.now())
        if planned is None:
            case.apart["too long"] += len(group) - 1
            return
        case.apart["too long"] += len(planned.left)
        together, result = planned.together, planned.result
        # This mark counts from the instant at which the change is there, and not before: they cannot come apart.
        again = not self._unfinished.isdisjoint(m.id for m in together)
        self._mark({result.id: result.changed_at}, {result.id} if again else frozenset())
        if not job.apply(planned.change, result.title):
            self.busy |= {m.id for m in together}
            return
        self.stands |= {m.id: result for m in together}
        self.gone |= {m.id for m in together if m.id != result.id}

    def replace(self, group_of: Mapping[uuid.UUID, frozenset[uuid.UUID]]) -> None:
        """Let memories that a later one replaced end, the oldest first."""
        case = self._case
        order = sorted(case.replaced, key=lambda pair: ([case.members[m].said_at for m in pair], pair))
        for earlier, later in order:
            old, new = (group_of.get(m, frozenset((m,))) for m in (earlier, later))
            one, two = (self.stands.get(m, case.members[m]) for m in (earlier, later))
            if one.id in self.gone:
                continue
            if (old | new) & self.busy or two.id in self.gone:
                self.busy |= old | new
            elif not self._wholly(old, new):
                case.apart["replaced in part only"] += 1
            elif self._job.apply(replace(one, two), two.title):
                self.gone.add(one.id)
            else:
                self.busy |= {one.id, two.id}

    def _wholly(self, old: frozenset[uuid.UUID], new: frozenset[uuid.UUID]) -> bool:
        """Whether every pair between two groups that was compared says that the one replaces the other."""
        case = self._case
        between = {
            tuple(sorted(pair[:2], key=old.__contains__, reverse=True))
            for pair in case.pairs
            if len(old.intersection(pair[:2])) == 1 and len(new.intersection(pair[:2])) == 1
        }
        kept = any(case.members[m].pinned or case.members[m].author == "hand" for m in old)
        return between <= case.replaced and not kept


def _pairs(group: Sequence[uuid.UUID]) -> Iterator[frozenset[uuid.UUID]]:
    """Every pair of a group."""
    return (frozenset(pair) for pair in itertools.combinations(group, 2))


def _batches(cases: Sequence[list[Pair]]) -> Iterator[list[list[Pair]]]:
    """Cases by the hundred pairs; one that is larger stands alone."""
    batch: list[list[Pair]] = []
    size = 0
    for pairs in cases:
        if batch and size + len(pairs) > _TOGETHER:
            yield batch
            batch, size = [], 0
        batch.append(pairs)
        size += len(pairs)
    if batch:
        yield batch
