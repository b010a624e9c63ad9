"""When jobs are due: cron's five fields with cron's own meaning, read in one time zone. A moment of a fixed time of day happens
exactly once over both changes of the clock: one that the spring leaves out follows right after the gap, one that the autumn
has twice is the first of the two."""

from __future__ import annotations

import datetime as dt
import difflib
import warnings
import zoneinfo

import tzlocal
from cronsim import CronSim, CronSimError

from cems.errors import SettingsError
from cems.settings import Settings
from db.runs import JOBS, Job

OFF = "off"
NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_HINT = (
    "five fields: minute, hour, day of the month, month, weekday, such as `0 3 * * *`; or @daily; or `off`"
)
_LONGEST = 200
_SHIFT = dt.timedelta(hours=3)
"""More than any clock is set back in an autumn."""


class Schedule:
    """The moments of one cron string, in UTC."""

    def __init__(self, text: str, zone: dt.tzinfo, *, source: str = "the schedule") -> None:
        """Args:
            source: what the text was given as, for the error.

        Raises:
            SettingsError: the text is no schedule; says where it is wrong.
        """
        self.text, self.zone = text, zone
        self._cron = _cron(text, source)
        self._span: tuple[dt.datetime, dt.datetime] | None = None
        """The latest moment and the next one, as last computed: most looks fall in between."""

    @property
    def off(self) -> bool:
        """Whether there is no moment, ever."""
        return not self._cron

    def latest(self, now: dt.datetime) -> dt.datetime | None:
        """The last moment that is not after `now`."""
        if self._span is not None and self._span[0] <= now < self._span[1]:
            return self._span[0]
        found, following = self._before(now), self.next(now)
        self._span = (found, following) if found and following else None
        return found

    def next(self, now: dt.datetime) -> dt.datetime | None:
        """The first moment after `now`."""
        if self.off:
            return None
        if self._span is not None and self._span[0] <= now < self._span[1]:
            return self._span[1]
        # The library walks on the wall clock; in an hour that comes twice it may name what has been already.
        walk = (at.astimezone(dt.UTC) for at in CronSim(self._cron, now.astimezone(self.zone)))
        return next((at for at in walk if at > now), None)

    def _before(self, now: dt.datetime) -> dt.datetime | None:
        if self.off:
            return None
        # From a little later, because in an hour that comes twice a moment that was has a later time on the wall clock.
        start = (now + _SHIFT).astimezone(self.zone)
        walk = (at.astimezone(dt.UTC) for at in CronSim(self._cron, start, reverse=True))
        return next((at for at in walk if at <= now), None)


def of(settings: Settings, in_zone: dt.tzinfo | None = None) -> dict[Job, Schedule]:
    """The schedule of each job, in the order in which jobs run.

    Raises:
        SettingsError: a schedule or the time zone cannot be used.
    """
    place = in_zone or zone(settings)
    return {
        job: Schedule(
            getattr(settings, f"{job}_schedule"), place, source=_source(settings, f"{job}_schedule")
        )
        for job in JOBS
    }


def problems(settings: Settings) -> list[SettingsError]:
    """Everything that is wrong with the schedules and the time zone."""
    found = []
    for job in JOBS:
        try:
            _cron(getattr(settings, f"{job}_schedule"), _source(settings, f"{job}_schedule"))
        except SettingsError as error:
            found.append(error)
    try:
        zone(settings)
    except SettingsError as error:
        found.append(error)
    return found


def zone(settings: Settings) -> dt.tzinfo:
    """The time zone of the schedules: the one that is set, else this machine's as it is now, else UTC.

    Raises:
        SettingsError: there is no such zone.
    """
    name = settings.timezone.strip()
    if not name:
        return machine_zone()
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        close = difflib.get_close_matches(name.title(), zoneinfo.available_timezones(), 1)
        raise SettingsError(
            f"{_source(settings, 'timezone')}: there is no time zone {name[:_LONGEST]!r}",
            hint=f"did you mean {close[0]}?" if close else "a name such as Europe/Berlin or America/New_York",
        ) from None


def machine_zone() -> dt.tzinfo:
    """This machine's zone: by the variable TZ, its configuration or the link /etc/localtime; read anew, because a laptop
    travels."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return tzlocal.reload_localzone()
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            return dt.UTC  # TZ holds a rule instead of a name, or the configuration contradicts itself


def zone_name(place: dt.tzinfo) -> str:
    """A zone's name, for people."""
    return str(getattr(place, "key", None) or "UTC")


def _source(settings: Settings, name: str) -> str:
    variable, source = f"CEMS_{name.upper()}", settings.sources.get(name, "")
    return f"{variable} ({source})" if source and source != variable else variable


def _cron(text: str, source: str) -> str:
    """The five fields of a schedule; empty for one that is off."""
    wanted = " ".join(text.split())
    if wanted.lower() == OFF:
        return ""
    cron = NICKNAMES.get(wanted.lower(), wanted)
    try:
        if cron.startswith("@"):
            raise CronSimError(f"there is no {cron.split()[0]}, only {', '.join(NICKNAMES)}")
        if (count := len(cron.split())) != 5:
            raise CronSimError(f"it has {count} fields instead of 5")
        if len(cron) > _LONGEST:
            raise CronSimError("it is too long")
        CronSim(cron, dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    except (CronSimError, ValueError) as error:
        why = str(error) if isinstance(error, CronSimError) else "a number is too long"
        why = f"its {why.removeprefix('Bad ')} is wrong" if why.startswith("Bad ") else why
        raise SettingsError(f"{source}: {wanted[:_LONGEST]!r} is no schedule: {why}", hint=_HINT) from None
    return cron
