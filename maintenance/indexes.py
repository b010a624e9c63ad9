"""The indexes, looked at and mended: what a killed rebuilding left is dropped, what is missing is made, what is invalid, half
empty, or no longer finds what is near is built anew beside the old one, which serves until then. Last, the statistics by which
Postgres plans are refreshed. Where the database's user may not do that, the notes say what is to be done by whom."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator

import psycopg

from cems.errors import DatabaseUnavailable
from cems.failpoint import failpoint
from db import health, indexes
from db.connect import OUTAGES
from db.indexes import Index, Mender, Stopped
from db.search import INDEXED
from maintenance.job import Job

RECALL = 0.9
"""Of the ten nearest, the share that an index must find; a sound one finds .98 and more."""
BLOATED = 0.6
"""The share of an index that is empty from which it is built anew; the estimate is within .15, and half is normal for an
ordered index that grows at random places."""
WORTH = 16 * 2**20
"""Bytes below which an empty half is not worth the work."""


@dataclasses.dataclass(frozen=True)
class _Work:
    """One thing to mend."""

    why: str
    """Begins with the index's name."""
    done: str
    by_hand: str
    """What an administrator would run."""
    run: Callable[[Mender], None]


def check(job: Job) -> None:
    """Look at every index, mend what is broken, and say what else is wrong."""
    _Checking(job).run()


def refresh_statistics(job: Job) -> None:
    """Let Postgres count again what is in the tables."""
    if job.run is None or job.stopping():
        return
    with _mender(job, quiet=True) as mender:
        if mender is None:
            return
        for table in health.tables(job.db):
            with contextlib.suppress(psycopg.errors.LockNotAvailable):
                try:
                    mender.analyze(table["name"], job.stopping)
                except Stopped:
                    return


class _Checking:
    """One look at all of them."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._found = {index.name: index for index in indexes.look(job.db)}
        self._wanted = indexes.expected()

    def run(self) -> None:
        job = self._job
        job.report.seen += len(self._found)
        self._say()
        work = [*self._leftovers(), *self._missing(), *self._rebuilt()]
        if job.dry_run:
            for one in work:
                job.report.changed += 1
                job.report.note(f"{one.why}: would be mended")
        elif work:
            self._mend(work)

    def _say(self) -> None:
        for what, number in indexes.orphans(self._job.db).items():
            self._job.report.note(f"{number} {what}: restore from a backup, or report it")
        size = sum(index.bytes for index in self._found.values()) / 2**20
        self._job.report.note(f"{len(self._found)} indexes, {size:,.0f} MB")

    def _leftovers(self) -> Iterator[_Work]:
        for index in self._found.values():
            if index.leftover:
                yield _Work(
                    f"{index.name} was left by a rebuilding that was killed",
                    "dropped",
                    f"drop index concurrently cems.{index.name}",
                    lambda mender, name=index.name: mender.drop(name, self._job.stopping),  # type: ignore[misc]
                )

    def _missing(self) -> Iterator[_Work]:
        for name, statement in self._wanted.items():
            if name not in self._found:
                yield _Work(
                    f"{name} is missing",
                    "made",
                    statement,
                    lambda mender, made=statement: mender.make(made, self._job.stopping),  # type: ignore[misc]
                )

    def _rebuilt(self) -> Iterator[_Work]:
        poor = {name: share for name, share in self._recalls() if share < RECALL}
        for index in self._found.values():
            why = self._why(index, poor.get(index.name))
            if why is not None:
                yield _Work(
                    f"{index.name} {why}",
                    "built anew",
                    f"reindex index concurrently cems.{index.name}",
                    lambda mender, name=index.name: mender.rebuild(name, self._job.stopping),  # type: ignore[misc]
                )

    def _why(self, index: Index, recall: float | None) -> str | None:
        if index.leftover:
            return None
        if not index.valid:
            return "is invalid"
        if recall is not None:
            return f"finds {recall:.0%} of what is near"
        if index.bloat is not None and index.bloat > BLOATED and index.bytes > WORTH:
            return f"is {index.bytes / 2**20:,.0f} MB, of which about {index.bloat:.0%} is not needed"
        return None

    def _recalls(self) -> Iterator[tuple[str, float]]:
        """How much each vector index finds, of those that can be asked."""
        seed = f"{self._job.clock.now():%Y-%m}"
        for model in INDEXED:
            name = indexes.index_of(model)
            if name is None or name not in self._found or not self._found[name].valid or self._job.stopping():
                continue
            if (share := indexes.recall(self._job.db, model, seed)) is not None:
                self._job.report.note(f"{name} finds {share:.0%} of the ten nearest")
                yield name, share

    def _mend(self, work: list[_Work]) -> None:
        report = self._job.report
        with _mender(self._job) as mender:
            if mender is None:
                report.waiting += len(work)
                for one in work:
                    report.note(f"{one.why}; the tables' owner mends it: {one.by_hand}")
                return
            for number, one in enumerate(work):
                if self._job.stopping():
                    report.waiting += len(work) - number
                    report.note("stopped early; the next run goes on")
                    return
                self._job.progress("indexes mended", number, len(work))
                self._one(mender, one)
            self._after(mender, work)

    def _one(self, mender: Mender, one: _Work) -> None:
        report = self._job.report
        self._job.renew()
        failpoint("before_mending")
        try:
            one.run(mender)
        except Stopped:
            report.waiting += 1
            report.note(f"{one.why}: stopped early; the next run goes on")
        except psycopg.errors.LockNotAvailable:
            report.waiting += 1
            report.note(f"{one.why}: somebody was in the way; the next run tries again")
        except (psycopg.errors.DiskFull, psycopg.errors.OutOfMemory):
            report.failed += 1
            report.note(f"{one.why}: the server has no room for building it")
        except psycopg.errors.UniqueViolation:
            report.failed += 1
            report.note(f"{one.why}: it cannot be mended, two rows have the same key")
        else:
            report.changed += 1
            report.note(f"{one.why}: {one.done}")

    def _after(self, mender: Mender, work: list[_Work]) -> None:
        """What went wrong leaves something invalid behind; and an index that is new must find what is near."""
        now = {index.name: index for index in indexes.look(self._job.db)}
        for index in now.values():
            if index.leftover and not self._job.stopping():
                with contextlib.suppress(Stopped, psycopg.errors.LockNotAvailable):
                    mender.drop(index.name, self._job.stopping)
        for model in INDEXED:
            name = indexes.index_of(model)
            mended = any(one.done != "dropped" and one.why.split(" ", 1)[0] == name for one in work)
            if not mended or self._job.stopping():
                continue
            share = indexes.recall(self._job.db, model, f"{self._job.clock.now():%Y-%m}")
            if share is not None and share < RECALL:
                self._job.report.failed += 1
                self._job.report.note(f"{name} finds only {share:.0%} of what is near though it is new")


@contextlib.contextmanager
def _mender(job: Job, *, quiet: bool = False) -> Iterator[Mender | None]:
    """The owner's way in; None, and a note, where there is none."""
    try:
        mender = Mender(job.settings)
    except (DatabaseUnavailable, *OUTAGES):
        if not quiet:
            job.report.note("no connection as the tables' owner")
        yield None
        return
    with mender:
        may = mender.may
        if not may and not quiet:
            job.report.note(
                "this database user does not have the rights of cems_owner: indexes are only looked at"
            )
        yield mender if may else None
