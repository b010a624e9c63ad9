"""A write path that is wrong on purpose: the cursor is committed before the lines. A process that dies in between has lost
them for ever. The fault tests must find that out; if they do not, they prove nothing about the real one."""

from __future__ import annotations

import dataclasses
import datetime as dt

from cems.errors import LostRace
from cems.failpoint import failpoint
from db import ingest
from db.connect import Database
from db.ingest import Landing

_right = ingest.land


def install() -> None:
    """Break this process's write path."""
    ingest.land = cursor_first


def cursor_first(db: Database, landing: Landing, now: dt.datetime) -> int:
    before, after = landing.before, landing.after
    _right(db, Landing(before, after), now)
    failpoint("before_land_commit")
    try:  # the lines, with a cursor that "moves" to where it is
        return _right(db, dataclasses.replace(landing, before=after), now)
    except LostRace:
        return 0
