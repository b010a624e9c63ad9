"""Schedules: cron's own meaning, both changes of the clock, and what is said of a text that is none."""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
import zoneinfo
from collections.abc import Iterator
from pathlib import Path

import pytest

from cems.errors import SettingsError
from cems.settings import Settings
from maintenance import schedule
from maintenance.schedule import Schedule

UTC = dt.UTC
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
NEW_YORK = zoneinfo.ZoneInfo("America/New_York")


def at(text: str, zone: dt.tzinfo = UTC) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC)


def coming(plan: Schedule, start: dt.datetime) -> Iterator[dt.datetime]:
    now: dt.datetime | None = start
    while now is not None and (now := plan.next(now)) is not None:
        yield now


def between(plan: Schedule, begin: dt.datetime, end: dt.datetime) -> list[dt.datetime]:
    return list(itertools.takewhile(lambda moment: moment < end, coming(plan, begin)))


def weekdays(text: str) -> set[str]:
    return {f"{m:%a}" for m in between(Schedule(text, UTC), at("2026-06-01"), at("2026-06-08"))}


@pytest.mark.parametrize(
    ("field", "days"),
    [
        ("0", "Sun"), ("7", "Sun"), ("sun", "Sun"), ("1", "Mon"), ("SAT", "Sat"), ("5-7", "Fri Sat Sun"),
        ("0,3", "Sun Wed"), ("1-5", "Mon Tue Wed Thu Fri"), ("1-5/2", "Mon Wed Fri"), ("mon-wed", "Mon Tue Wed"),
    ],
)  # fmt: skip
def test_case_J83_weekdays_are_numbered_as_cron_numbers_them(field: str, days: str) -> None:
    assert weekdays(f"0 4 * * {field}") == set(days.split())


@pytest.mark.parametrize(
    ("text", "moments"),
    [
        # A day of the month or a weekday, where both are given.
        ("0 3 13 * 5", ["2027-01-01T03:00", "2027-01-08T03:00", "2027-01-13T03:00", "2027-01-15T03:00"]),
        ("0 5 1 * *", ["2027-01-01T05:00", "2027-02-01T05:00"]),
        ("0 0 29 feb *", ["2028-02-29T00:00", "2032-02-29T00:00"]),
        ("*/20 6-7 1 jan *", ["2027-01-01T06:00", "2027-01-01T06:20", "2027-01-01T06:40", "2027-01-01T07:00"]),
        ("5,10 0 2 1 *", ["2027-01-02T00:05", "2027-01-02T00:10", "2028-01-02T00:05"]),
        ("@daily", ["2027-01-01T00:00", "2027-01-02T00:00"]),
        ("@weekly", ["2027-01-03T00:00", "2027-01-10T00:00"]),
        ("@YEARLY", ["2027-01-01T00:00", "2028-01-01T00:00"]),
        ("  0  3 * *   * ", ["2027-01-01T03:00"]),
    ],
)  # fmt: skip
def test_fields_mean_what_they_mean_to_cron(text: str, moments: list[str]) -> None:
    found = coming(Schedule(text, UTC), at("2026-12-31T12:00"))
    assert list(itertools.islice(found, len(moments))) == [at(m) for m in moments]


def test_off_is_never() -> None:
    for text in ("off", " OFF "):
        plan = Schedule(text, UTC)
        assert plan.off and plan.latest(at("2026-06-01")) is None and plan.next(at("2026-06-01")) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "0 fields"), ("daily", "1 fields"), ("0 3 * *", "4 fields"), ("0 0 3 * * *", "6 fields"),
        ("60 3 * * *", "minute"), ("0 24 * * *", "hour"), ("0 3 0 * *", "day-of-month"), ("0 3 * 13 *", "month"),
        ("0 3 * * 8", "day-of-week"), ("0 3 * * fri-mon", "day-of-week"), ("0 3 30 2 *", "day-of-month"),
        ("@reboot", "no @reboot"), ("*/0 * * * *", "minute"), ("0 3 * * \N{SUPERSCRIPT TWO}", "day-of-week"),
        ("9" * 5000 + " 3 * * *", "too long"), ("-1 3 * * *", "minute"), ("0 3 1#2/3 * 1#2/3", "day-of-month"),
    ],
)  # fmt: skip
def test_a_text_that_is_no_schedule_says_which_setting_and_which_field(text: str, why: str) -> None:
    settings = dataclasses.replace(Settings(), timezone="UTC", reflection_schedule=text)
    with pytest.raises(SettingsError, match=r"CEMS_REFLECTION_SCHEDULE: ") as caught:
        schedule.of(settings)
    assert why in str(caught.value) and "weekday" in caught.value.hint and len(str(caught.value)) < 400
    assert [str(problem) for problem in schedule.problems(settings)] == [str(caught.value)]


def test_the_error_names_the_file_where_that_is_where_it_stands(tmp_path: Path) -> None:
    from cems.settings import load

    (tmp_path / "config.toml").write_text('[maintenance]\nreindexing = "x"\ntimezone = "europe/berlin"\n')
    settings = load({"CEMS_HOME": str(tmp_path)})
    first, second = schedule.problems(settings)
    assert "CEMS_REINDEXING_SCHEDULE (config.toml: maintenance.reindexing)" in str(first)
    assert "CEMS_TIMEZONE" in str(second) and second.hint == "did you mean Europe/Berlin?"


# ---- both changes of the clock


@pytest.mark.parametrize(
    ("zone", "spring", "autumn"),
    [
        (BERLIN, ("2026-03-29T01:00", "2026-03-29"), ("2026-10-25T00:30", "2026-10-25")),
        (NEW_YORK, ("2026-03-08T07:00", "2026-03-08"), ("2026-11-01T05:30", "2026-11-01")),
    ],
)
def test_a_moment_that_is_left_out_or_comes_twice_happens_once(
    zone: dt.tzinfo, spring: tuple[str, str], autumn: tuple[str, str]
) -> None:
    hour = 2 if zone is BERLIN else 1
    for (moment, day), text in ((spring, "30 2 * * *"), (autumn, f"30 {hour} * * *")):
        plan, begin = Schedule(text, zone), at(day, zone)
        found = between(plan, begin, begin + dt.timedelta(hours=23))
        assert found == [at(moment)]
        # Whatever minute one asks in, the latest moment never goes back and the next one is never past.
        seen, now = [], begin
        for _ in range(23 * 60):
            latest, following = plan.latest(now), Schedule(text, zone).next(now)
            assert latest is not None and following is not None and latest <= now < following
            assert latest == Schedule(text, zone).latest(now)
            seen.append(latest)
            now += dt.timedelta(minutes=1)
        assert seen == sorted(seen) and len(set(seen)) == 2


def test_every_day_of_a_year_has_its_moment_in_every_kind_of_zone() -> None:
    for name in (
        "Europe/Berlin",
        "America/New_York",
        "America/Santiago",
        "Australia/Lord_Howe",
        "Asia/Kolkata",
    ):
        zone = zoneinfo.ZoneInfo(name)
        for text in ("30 2 * * *", "0 0 * * *", "30 1 * * *", "59 23 * * *"):
            begin, end = at("2026-01-01", zone) - dt.timedelta(seconds=1), at("2027-01-01", zone)
            moments = between(Schedule(text, zone), begin, end)
            assert [f"{m.astimezone(zone):%j}" for m in moments] == [f"{d:03}" for d in range(1, 366)]
            for earlier, later in itertools.pairwise(moments):
                assert Schedule(text, zone).latest(later - dt.timedelta(microseconds=1)) == earlier
                assert Schedule(text, zone).latest(later) == later


# ---- the zone


def test_the_zone_is_the_set_one_else_the_machine_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert schedule.zone_name(schedule.zone(Settings())) == "Asia/Tokyo"
    assert schedule.zone(dataclasses.replace(Settings(), timezone=" Europe/Berlin ")) is BERLIN
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    assert schedule.zone_name(schedule.zone(Settings())), "a rule is not a name, and no reason to fail"
    for name in (
        "Nowhere/City",
        "../../etc/passwd",
        "/etc/localtime",
        "Europe",
        "x" * 5000,
        "Europe/Berlin\n2",
    ):
        with pytest.raises(SettingsError, match="CEMS_TIMEZONE: there is no time zone"):
            schedule.zone(dataclasses.replace(Settings(), timezone=name))
