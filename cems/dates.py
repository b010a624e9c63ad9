"""Dates in questions: "what broke last week", "since 2026-11-01", "im März 2026" say from when to when. Only a question is
read so, because a request such as "add a test today" is not about what happened today. Pure: the moment and the time zone
are arguments. English, and the commonest German."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re

Range = tuple[dt.datetime | None, dt.datetime | None]


def _numbered(*names: str) -> dict[str, int]:
    """Each of the names separated by blanks, with its group's place from 1."""
    return {name: number for number, group in enumerate(names, 1) for name in group.split()}


_MONTHS = _numbered(
    "january jan januar", "february feb februar", "march mar märz", "april apr", "may mai", "june jun juni", "july jul juli",
    "august aug", "september sep sept", "october oct oktober okt", "november nov", "december dec dezember dez",
)  # fmt: skip
_DAYS = _numbered(
    "monday montag", "tuesday dienstag", "wednesday mittwoch", "thursday donnerstag", "friday freitag",
    "saturday samstag", "sunday sonntag",
)  # fmt: skip
_NUMBERS = _numbered(
    "a an one ein eine einem einer", "two zwei", "three drei", "four vier", "five fünf", "six sechs", "seven sieben",
    "eight acht", "nine neun", "ten zehn", "eleven elf", "twelve zwölf",
) | {"couple of": 2, "few": 3, "several": 4, "ein paar": 3, "paar": 3}  # fmt: skip
_UNITS = {
    "minute": "minute", "minuten": "minute", "hour": "hour", "stunde": "hour", "stunden": "hour",
    "day": "day", "tag": "day", "tage": "day", "tagen": "day", "week": "week", "woche": "week", "wochen": "week",
    "month": "month", "monat": "month", "monate": "month", "monaten": "month",
    "year": "year", "jahr": "year", "jahre": "year", "jahren": "year",
}  # fmt: skip


def _any(words: dict[str, int] | dict[str, str]) -> str:
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True))


_M, _D, _N, _U = _any(_MONTHS), _any(_DAYS), rf"\d{{1,3}}|{_any(_NUMBERS)}", rf"(?:{_any(_UNITS)})s?"
_DATE = rf"""(?:
    (?P<iso>\d{{4}}-\d{{2}}(?:-\d{{2}})?)\b
  | (?P<german>\d{{1,2}}\.\d{{1,2}}\.\d{{4}})\b
  | (?P<day_first>\d{{1,2}})(?:st|nd|rd|th|\.)?\s+(?:of\s+)?(?P<month_1>{_M})\b\.?(?:,?\s+(?P<year_1>\d{{4}}))?
  | (?P<month_2>{_M})\b\.?\s+(?P<day_last>\d{{1,2}})(?:st|nd|rd|th)?\b(?!\d|:)(?:,?\s+(?P<year_2>\d{{4}}))?
  | (?P<month_3>{_M})\b\.?,?\s+(?:of\s+)?(?P<year_3>\d{{4}})\b
  | (?P<month_4>{_M})\b
  | (?P<year_4>(?:19|20)\d{{2}})\b
  | (?P<word>day\s+before\s+yesterday|yesterday|today|vorgestern|gestern|heute)\b
  | (?P<which>last|this|past|previous|letzte[nrms]?|diese[nrms]?|vergangene[nrms]?)
    \s+(?P<unit>week|month|year|woche|monat|jahr)\b
  | (?:(?:last|past|letzte[nrms]?)\s+)?(?P<weekday>{_D})\b
)"""
_AGO = re.compile(
    rf"\b(?:(?:about|around|some)\s+)?(?:a\s+)?(?P<n>{_N})\s+(?P<u>{_U})\s+ago\b"
    rf"|\bvor\s+(?:etwa\s+)?(?P<n2>{_N})\s+(?P<u2>{_U})\b", re.I)  # fmt: skip
_PAST = re.compile(
    rf"\b(?:(?:in|over|during|within|for|in den)\s+)?(?:the\s+)?(?:last|past|letzten)\s+(?P<n>{_N})\s+(?P<u>{_U})\b",
    re.I,
)
_BESIDE = re.compile(
    rf"\b(?:in\s+|on\s+|during\s+)?(?:the\s+)?(?:(?P<n>{_N})\s+)?(?P<u>{_U}|weekend|{_D})\s+(?P<side>before|after)\s+"
    rf"(?P<date>{re.sub(r'[?]P<[a-z_0-9]+>', '?:', _DATE)})", re.I | re.X)  # fmt: skip
_RANGE = re.compile(
    rf"\b(?:between|from|zwischen|vom|von)\s+({re.sub(r'[?]P<[a-z_0-9]+>', '?:', _DATE)})\s+(?:and|to|until|und|bis)\s+"
    rf"({re.sub(r'[?]P<[a-z_0-9]+>', '?:', _DATE)})", re.I | re.X)  # fmt: skip
_ONE = re.compile(
    r"\b(?:(?P<how>since|after|before|until|till|by|in|on|during|from|seit|nach|vor|bis|im|am|ab)\s+(?:the\s+)?)?"
    + _DATE,
    re.I | re.X,
)
_WHOLE = re.compile(_DATE, re.I | re.X)
_ASKS = re.compile(
    r"\?|？|^\W*(?:what|when|where|which|who|whose|why|how|did|do|does|have|has|had|was|were|is|are|show|list|find|recall|remind"
    r"|was|wann|wo|welche[rsnm]?|wer|warum|wieso|wie|habe?n?|hatten|zeig|such)\b", re.I)  # fmt: skip
_LATEST = re.compile(
    r"\b(?:latest|newest|most\s+recent(?:ly)?|current(?:ly)?|nowadays|these\s+days|right\s+now|now|last\s+time"
    r"|zuletzt|neueste[nrms]?|aktuell(?:e[nrms]?)?|derzeit|momentan|jetzt)\b", re.I)  # fmt: skip
_LONG = 400
"""Characters: a longer text is a task or a paste, and its dates belong to it."""


@dataclasses.dataclass(frozen=True)
class Reading:
    """What a question says about time."""

    text: str
    """The question without the words that were understood as a time."""
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    """The first moment that is too late."""
    latest: bool = False
    """It asks for the newest answer."""


def read(question: str, now: dt.datetime, zone: dt.tzinfo) -> Reading:
    """The time a question asks about. What cannot be understood, or is no question, leaves the text as it is."""
    if len(question) > _LONG or not _ASKS.search(question):
        return Reading(question)
    local = now.astimezone(zone)
    for pattern, read_one in _PATTERNS:
        for match in pattern.finditer(question):
            try:
                found = read_one(match, local)
            except (ValueError, OverflowError):
                continue
            if found is not None:
                text = f"{question[: match.start()]} {question[match.end() :]}"
                return Reading(_LATEST.sub(" ", text), *found, latest=bool(_LATEST.search(text)))
    return Reading(_LATEST.sub(" ", question), latest=bool(_LATEST.search(question)))


def _between(match: re.Match[str], now: dt.datetime) -> Range | None:
    first, last = (_WHOLE.fullmatch(part) for part in match.groups())
    start, end = (_span(part, now) if part else None for part in (first, last))
    return (start[0], end[1]) if start and end and start[0] < end[1] else None


def _beside(match: re.Match[str], now: dt.datetime) -> Range | None:
    """A week or so before or after a date, the date's own day included: it is where one would tell of it."""
    if match["date"].lower() == "yesterday":
        return None  # "the day before yesterday" is one expression
    date = _WHOLE.fullmatch(match["date"])
    span = _span(date, now) if date else None
    if span is None:
        return None
    unit = match["u"].lower()
    known = _UNITS.get(unit) or _UNITS.get(unit.removesuffix("s")) or "week"
    number = _amount(match["n"], known)[0] if match["n"] else 1
    if match["side"].lower() == "before":
        return _day(_back(span[0], number + 1, known)), span[1]
    return span[0], _back(span[1], -number - 1, known)


def _ago(match: re.Match[str], now: dt.datetime) -> Range:
    number, unit = _amount(match["n"] or match["n2"], match["u"] or match["u2"])
    then = _back(now, number, unit)
    if unit in ("minute", "hour"):
        reach = dt.timedelta(minutes=10) if unit == "minute" else dt.timedelta(hours=1)
        return then - reach, then + reach
    if unit == "week":  # people count weeks by feeling
        return _day(then) - dt.timedelta(days=3), _day(then) + dt.timedelta(days=4)
    return _calendar(then, unit)


def _past(match: re.Match[str], now: dt.datetime) -> Range:
    return _back(now, *_amount(match["n"], match["u"])), None


def _named_date(match: re.Match[str], now: dt.datetime) -> Range | None:
    """A date that is the same whenever one asks."""
    relative = match["word"] or match["unit"] or match["weekday"] or match["month_4"]
    return None if relative else _one(match, now)


def _one(match: re.Match[str], now: dt.datetime) -> Range | None:
    how = (match["how"] or "").lower()
    if match["month_4"] and not how:
        return None  # "may" and "march" alone are verbs
    if match["day_first"] and not (how or match["year_1"]) and match["month_1"].lower() in ("may", "march"):
        return None  # "is 3 may fail"
    if match["year_4"] and how in ("", "on", "am"):
        return None  # a port, a size
    if match["weekday"] and not (how or re.match(r"(?:last|past|letzte)", match[0], re.I)):
        return None
    span = _span(match, now)
    if span is None:
        return None
    start, end = span
    if how in ("since", "from", "seit", "ab"):
        return start, None
    if how in ("after", "nach"):
        return end, None
    if how in ("before", "vor"):
        return None, start
    if how in ("until", "till", "by", "bis"):
        return None, end
    return start, end


def _span(match: re.Match[str], now: dt.datetime) -> tuple[dt.datetime, dt.datetime] | None:
    """From when to when a date, month, year or word for a time reaches."""
    got = match.groupdict()
    if got["iso"]:
        parts = [int(p) for p in got["iso"].split("-")]
        return _calendar(_at(now, *parts), "day" if len(parts) == 3 else "month")
    if got["german"]:
        day, month, year = (int(p) for p in got["german"].split("."))
        return _calendar(_at(now, year, month, day), "day")
    for named, numbered, dated in (("month_1", "day_first", "year_1"), ("month_2", "day_last", "year_2")):
        if got[named]:
            return _calendar(_named(now, got[named], got[dated], int(got[numbered])), "day")
    if got["month_3"] or got["month_4"]:
        return _calendar(_named(now, got["month_3"] or got["month_4"], got["year_3"], 1), "month")
    if got["year_4"]:
        return _calendar(_at(now, int(got["year_4"])), "year")
    if got["word"]:
        word = got["word"].lower()
        back = 2 if word.startswith(("day", "vor")) else 1 if word in ("yesterday", "gestern") else 0
        return _calendar(_back(now, back, "day"), "day")
    if got["unit"]:
        unit = _UNITS[got["unit"].lower()]
        return _calendar(
            now if got["which"].lower().startswith(("this", "diese")) else _back(now, 1, unit), unit
        )
    if got["weekday"]:
        back = (now.weekday() + 1 - _DAYS[got["weekday"].lower()]) % 7 or 7
        return _calendar(_back(now, back, "day"), "day")
    return None


def _amount(number: str, unit: str) -> tuple[int, str]:
    word = number.lower()
    name = unit.lower()
    return int(word) if word.isdigit() else _NUMBERS[word], _UNITS.get(name) or _UNITS[name.removesuffix("s")]


def _day(moment: dt.datetime) -> dt.datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)


def _at(now: dt.datetime, year: int, month: int = 1, day: int = 1) -> dt.datetime:
    return dt.datetime(year, month, day, tzinfo=now.tzinfo)


def _named(now: dt.datetime, month: str, year: str | None, day: int) -> dt.datetime:
    """A day of a named month; without a year, the last one that is not in the future."""
    number = _MONTHS[month.lower()]
    if year:
        return _at(now, int(year), number, day)
    found = _at(now, now.year, number, day)
    return found if found <= now else _at(now, now.year - 1, number, day)


def _back(moment: dt.datetime, number: int, unit: str) -> dt.datetime:
    if unit in ("month", "year"):
        months = moment.year * 12 + moment.month - 1 - number * (12 if unit == "year" else 1)
        year, month = divmod(months, 12)
        first = moment.replace(year=year, month=month + 1, day=1)
        last = (first.replace(day=28) + dt.timedelta(days=4)).replace(day=1) - dt.timedelta(days=1)
        return first.replace(day=min(moment.day, last.day))
    return moment - number * dt.timedelta(**{unit + "s": 1})


def _calendar(moment: dt.datetime, unit: str) -> tuple[dt.datetime, dt.datetime]:
    """The day, week (from Monday), month or year around a moment."""
    day = _day(moment)
    if unit == "day":
        return day, day + dt.timedelta(days=1)
    if unit == "week":
        monday = day - dt.timedelta(days=day.weekday())
        return monday, monday + dt.timedelta(days=7)
    first = day.replace(day=1) if unit == "month" else day.replace(month=1, day=1)
    after = first.month % 12 + 1 if unit == "month" else 1
    return first, first.replace(year=first.year + (unit == "year" or after == 1), month=after)


_PATTERNS = (
    (_RANGE, _between),
    (_BESIDE, _beside),
    (_ONE, _named_date),
    (_AGO, _ago),
    (_PAST, _past),
    (_ONE, _one),
)
"""In this order: of two times in a question the more exact one is meant."""
