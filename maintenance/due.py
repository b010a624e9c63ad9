"""What is due, from the rows of runs alone, so that neither a restart nor a laptop that sleeps forgets anything. Only a job's
latest scheduled moment counts: however many were missed, they are caught up by one run."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from cems.settings import Settings
from db import health, runs
from db.connect import Database, Row
from db.runs import Job
from maintenance import schedule
from maintenance.schedule import Schedule

ASKED: Literal["asked"] = "asked"
"""Under `ended_by` in a stopped run's report: its process was asked to end, which is no reason to wait for another night."""
ATTEMPTS = 3
"""Runs that fail for one moment, after which the next moment is waited for."""
_AFTER_FAILURE = (dt.timedelta(minutes=10), dt.timedelta(hours=1))
_AFTER_KILL = (dt.timedelta(0), dt.timedelta(0), dt.timedelta(minutes=10), dt.timedelta(hours=1))
"""A machine that is switched off is no fault of the job; one that runs out of memory is, and gets time to breathe."""

State = Literal["answered", "due", "waiting", "given up"]


@dataclasses.dataclass(frozen=True)
class Standing:
    """What became of a scheduled moment."""

    state: State
    at: dt.datetime | None = None
    """When a waiting one is tried again."""

    @property
    def settled(self) -> bool:
        """Whether no run is needed any more."""
        return self.state in ("answered", "given up")


def judge(moment: dt.datetime, found: Sequence[Row], now: dt.datetime) -> Standing:
    """What became of a moment that has come.

    Args:
        found: the runs by schedule for it and for later ones, newest first, as `db.runs.answered` gives them.
    """
    # A run for a moment that has not come was begun while the clock was ahead: it must not stand for that moment's run.
    ours = [run for run in found if moment <= run["due_at"] <= now]
    if any(_answers(run) for run in ours):
        return Standing("answered")
    if not ours:
        return Standing("due")
    failed = sum(run["outcome"] == "failed" for run in ours)
    if failed >= ATTEMPTS:
        return Standing("given up")
    killed = sum(run["outcome"] in ("killed", "running") for run in ours)
    wait, newest = dt.timedelta(0), ours[0]
    if newest["outcome"] == "failed":
        wait = _AFTER_FAILURE[failed - 1]
    elif newest["outcome"] != "stopped":
        wait = _AFTER_KILL[min(killed, len(_AFTER_KILL)) - 1]
    ended = newest["finished_at"] or newest["started_at"]
    if ended > now or ended + wait <= now:  # an end that has not come yet: the clock was set back
        return Standing("due")
    return Standing("waiting", ended + wait)


def _answers(run: Row) -> bool:
    outcome, ended_by = run["outcome"], run["ended_by"]
    return bool(outcome == "done" or (outcome == "stopped" and ended_by != ASKED))


class Due:
    """Asks which jobs are due. Remembers what is settled, so that most looks ask nothing of the database; `forget` when it may
    be another one."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._first: dt.datetime | None = None
        self._settled: dict[Job, dt.datetime] = {}
        self._database: int | None = None

    def forget(self) -> None:
        """Ask everything again."""
        self._first = None
        self._settled.clear()

    def notice(self) -> None:
        """Forget where another database took over the name, as after a restore."""
        found = health.identity(self._db)
        if self._database not in (None, found):
            self.forget()
        self._database = found

    def moment(self, job: Job, plan: Schedule, now: dt.datetime) -> dt.datetime | None:
        """The scheduled moment a job is to be run for now; None where it is not due."""
        moment = plan.latest(now)
        if moment is None or self._settled.get(job) == moment:
            return None
        standing = self.standing(job, moment, now)
        if standing.settled:
            self._settled[job] = moment
        return moment if standing.state == "due" else None

    def standing(self, job: Job, moment: dt.datetime, now: dt.datetime) -> Standing:
        """What became of a job's moment."""
        if self._first is None:
            self._first = runs.first_due(self._db)
        # A database that was made in the future was made while the clock was ahead, and says nothing.
        if moment <= self._first <= now:
            return Standing("answered")
        return judge(moment, runs.answered(self._db, job, moment), now)


def outlook(db: Database, settings: Settings, now: dt.datetime) -> dict[str, Any]:
    """How each job stands: `zone`, and for each of `jobs` its job, schedule, last run, the moment it is due for, when it is
    tried next (`next_local`: in the schedules' zone), the run that goes on, whether it is stuck.

    Raises:
        SettingsError: a schedule cannot be used.
    """
    plans, ask = schedule.of(settings), Due(db)
    last, going = runs.latest(db), {row["job"]: row for row in runs.running(db, now)}
    jobs = [_job(db, ask, job, plan, last.get(job), going.get(job), now) for job, plan in plans.items()]
    return {"zone": schedule.zone_name(schedule.zone(settings)), "jobs": jobs}


def _job(
    db: Database,
    ask: Due,
    job: Job,
    plan: Schedule,
    last: Mapping[str, Any] | None,
    going: Mapping[str, Any] | None,
    now: dt.datetime,
) -> dict[str, Any]:
    moment, following = plan.latest(now), plan.next(now)
    standing = ask.standing(job, moment, now) if moment else Standing("answered")
    if standing.state == "due":
        following = moment
    elif standing.state == "waiting":
        following = standing.at
    return {
        "job": job,
        "schedule": plan.text if not plan.off else None,
        "last": _last(last) if last else None,
        "due_since": moment if not standing.settled else None,
        "next_at": following,
        "next_local": following.astimezone(plan.zone).isoformat(timespec="minutes") if following else None,
        "running": {k: going[k] for k in ("id", "asked_by", "started_at", "described")} if going else None,
        "stuck": runs.stuck(db, job),
    }


def _last(run: Mapping[str, Any]) -> dict[str, Any]:
    names = ("id", "asked_by", "due_at", "started_at", "finished_at", "outcome", "error", "undone_at")
    counts = {name: run["report"].get(name) for name in ("seen", "changed", "failed", "waiting")}
    return {name: run[name] for name in names} | counts
