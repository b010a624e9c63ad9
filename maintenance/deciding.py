"""What becomes of pairs of memories that look alike: the same fact, replaced by a later one, or apart. Rules come first; what
they leave open a model judges, within a number of pairs a run. Where a guard speaks, nothing is ever the same fact."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from cems.errors import BadAnswer
from cems.models import ORIGINS
from db.candidates import Member
from maintenance import judging
from maintenance.candidates import Pair
from maintenance.guards import Statement, same_fact, why_apart
from maintenance.job import Job

MOST_JUDGED = 200
"""Pairs a model is asked about in one run; the rest waits for the next."""
MOST_GUARDED = 100
"""Of those, pairs in which a guard spoke, so that the others do not wait for them."""
RETIRABLE = frozenset(
    {"number", "version", "name", "identifier", "code", "date", "time", "url", "flag", "symbol", "path"}
    | {"negation", "antonym", "order", "modality", "tense"}
)
"""Guards between two words on one subject, of which the later may replace the earlier; the others tell two subjects apart."""
NEAREST = 8
"""Pairs of one memory a model is asked about; what is further away is kept apart."""
_OFTEN = 200
"""Pairs after which a rule looks whether it is time to stop."""


@dataclasses.dataclass
class Case:
    """Memories that hang together by near pairs, and what was decided of each pair."""

    pairs: Sequence[Pair]
    members: Mapping[uuid.UUID, Member]
    looked_at: Mapping[uuid.UUID, dt.datetime]
    """Those of them that are to be looked at."""
    same: dict[frozenset[uuid.UUID], float] = dataclasses.field(default_factory=dict)
    """Pairs of one fact, with their cosine."""
    judged: set[frozenset[uuid.UUID]] = dataclasses.field(default_factory=set)
    """Those of them which a model, not a rule, called so."""
    replaced: set[tuple[uuid.UUID, uuid.UUID]] = dataclasses.field(default_factory=set)
    """The earlier memory, and the later one that says what holds now."""
    undecided: dict[Pair, str | None] = dataclasses.field(default_factory=dict)
    """What rules leave open, with the guard that spoke, if one did."""
    further: set[Pair] = dataclasses.field(default_factory=set)
    """Undecided pairs a model was not asked about, because others are nearer."""
    apart: Counter[str] = dataclasses.field(default_factory=Counter)
    """How many pairs were kept apart, by reason."""

    @property
    def waiting(self) -> set[uuid.UUID]:
        """Memories that are to be looked at again, because a pair of theirs is undecided."""
        return {m for pair in self.undecided for m in pair[:2] if m in self.looked_at}

    @property
    def unfinished(self) -> set[uuid.UUID]:
        """Memories with a pair that nobody decided. What one of them is merged into is looked at again: it may be the same as
        what was further away from each of its parts."""
        return {m for pair in (*self.undecided, *self.further) for m in pair[:2]}


def by_rule(
    case: Case,
    parted: set[frozenset[uuid.UUID]],
    threshold: float,
    stopping: Callable[[], bool],
    *,
    only_exact: bool,
) -> bool:
    """Decide what rules can; False where `stopping` says so before that is done.

    Args:
        parted: pairs that a person parted.
        only_exact: below a cosine of 1 no rule calls two memories the same.
    """
    for number, pair in enumerate(case.pairs, 1):
        if number % _OFTEN == 0 and stopping():
            return False
        one, two = case.members.get(pair.first), case.members.get(pair.second)
        if one is None or two is None:
            continue
        first, second = statement(one), statement(two)
        if frozenset(pair[:2]) in parted:
            case.apart["parted by hand"] += 1
        elif guard := why_apart(first, second):
            if guard in RETIRABLE:
                case.undecided[pair] = guard
            else:
                case.apart[guard] += 1
        elif (pair.cosine >= 1 or not only_exact) and same_fact(first, second, pair.cosine, threshold):
            case.same[frozenset(pair[:2])] = pair.cosine
        else:
            case.undecided[pair] = None
    return True


def statement(member: Member) -> Statement:
    """What of a memory the rules look at."""
    return Statement(member.kind, member.project_id, member.title, member.body, tuple(member.files))


class Judge:
    """The model's part, with the number of pairs that are left in this run."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._left = {False: MOST_JUDGED - MOST_GUARDED, True: MOST_GUARDED}
        self._silent = False
        self.unasked = 0
        """Pairs that only a model could decide, where there is none."""

    def decide(self, cases: Iterable[Case]) -> None:
        """Ask about the nearest undecided pairs of some cases. Without a model they are apart; those that were not answered
        stay undecided."""
        asked: list[tuple[Case, Pair]] = []
        for case in cases:
            if self._job.generator is None:
                self._without_model(case)
                continue
            for pair in _nearest(case):
                guarded = case.undecided[pair] is not None
                if self._left[guarded]:
                    self._left[guarded] -= 1
                    asked.append((case, pair))
        for start in range(0, len(asked), judging.MOST_PAIRS):
            self._ask(asked[start : start + judging.MOST_PAIRS])

    def _without_model(self, case: Case) -> None:
        for guard in case.undecided.values():
            case.apart[guard or "not surely the same"] += 1
            self.unasked += guard is None
        case.undecided.clear()

    def _ask(self, asked: list[tuple[Case, Pair]]) -> None:
        if self._silent or self._job.stopping():
            return
        pairs = [(case.members[pair.first], case.members[pair.second]) for case, pair in asked]
        reply = self._job.ask(judging.request(pairs))
        if reply is None:
            self._silent = True
            return
        try:
            verdicts = judging.verdicts(reply.data, pairs)
        except BadAnswer as error:
            self._job.report.failed += 1
            self._job.report.note(f"judging: {error}")
            return
        for (case, pair), verdict in zip(asked, verdicts, strict=True):
            judged(case, pair, verdict, self._job.clock.now())


def _nearest(case: Case) -> list[Pair]:
    """The undecided pairs a model is asked about, those of one memory together; further ones are apart."""
    taken: Counter[uuid.UUID] = Counter()
    chosen = []
    for pair in list(case.undecided):
        ends = [m for m in pair[:2] if m in case.looked_at]
        if any(taken[m] < NEAREST for m in ends):
            taken.update(ends)
            chosen.append(pair)
        else:
            guard = case.undecided.pop(pair)
            case.apart["others are nearer"] += 1
            if guard is None:
                case.further.add(pair)
    return sorted(chosen, key=lambda pair: min(m for m in pair[:2] if m in case.looked_at))


def judged(case: Case, pair: Pair, verdict: judging.Verdict, now: dt.datetime) -> None:
    """Take a model's verdict, as far as rules allow: the same fact only where no guard speaks; a later memory replaces an
    earlier one, never one that is pinned or by hand. Where the model only says that two contradict each other, the later
    counts if rules see the point in which they differ, and if it is no less trusted."""
    guard = case.undecided.pop(pair)
    if verdict == "same" and guard is None:
        case.same[frozenset(pair[:2])] = pair.cosine
        case.judged.add(frozenset(pair[:2]))
        return
    if verdict in ("same", "different"):
        case.apart[guard or "a model says so"] += 1
        return
    earlier, later = sorted((case.members[m] for m in pair[:2]), key=lambda m: m.said_at)
    meant = {"first_supersedes": pair.first, "second_supersedes": pair.second}.get(verdict, later.id)
    if meant != later.id or earlier.said_at == later.said_at:
        case.apart["not the later one"] += 1
    elif verdict == "contradiction" and (guard is None or not _as_trusted(later, earlier)):
        case.apart["contradict each other"] += 1
    elif earlier.pinned or earlier.author == "hand":
        case.apart["pinned or by hand"] += 1
    elif later.snoozed_until is not None and later.snoozed_until > now:
        case.apart["snoozed"] += 1
    else:
        case.replaced.add((earlier.id, later.id))


def _as_trusted(one: Member, other: Member) -> bool:
    return ORIGINS.index(one.origin) <= ORIGINS.index(other.origin)
