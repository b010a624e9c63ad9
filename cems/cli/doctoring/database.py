"""The database: it answers, its schema and clock are right, and its roles can do what they should and nothing else."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator

from cems.cli.doctoring.finding import Finding, Patient, bad, ok, reason, warning
from cems.errors import CemsError, SchemaOutdated
from cems.settings import Settings
from db import access, embedded, health
from db.connect import OUTAGES, Database, Role

SKEW = dt.timedelta(minutes=2)
"""Between two clocks; leases and schedules bear more."""


def check_server(patient: Patient) -> Iterator[Finding]:
    """It runs, with this program's schema."""
    settings, part = patient.settings, "database"
    if not settings.database_url:
        info = embedded.status(settings.home)
        if not info.running:
            yield bad(
                part,
                "Postgres does not run",
                "`cems db start`, or `cems up` for everything",
                _start(settings),
            )
            return
    try:
        with _database(settings, "cems_writer") as db:
            row = health.server(db)
    except SchemaOutdated as error:
        yield bad(part, str(error), "`cems db migrate` (make a backup first: `cems db backup`)")
        return
    except (CemsError, *OUTAGES) as error:
        hint = getattr(error, "hint", "") or "look at the server's own log"
        yield bad(part, reason(error), hint)
        return
    yield ok(part, f"Postgres {row['version']}, pgvector {row['pgvector']}, schema current")
    off = abs(row["at"] - dt.datetime.now(dt.UTC))
    if off > SKEW:
        yield bad(
            "clock", f"this machine and the database differ by {off}", "set both clocks, such as with NTP"
        )
    else:
        yield ok("clock", "agrees with the database")


def check_times(patient: Patient) -> Iterator[Finding]:
    """Nothing was stored at a time that is still to come."""
    with _database(patient.settings, "cems_writer") as db:
        times = health.newest_times(db)
    ahead = [at for at in times.values() if at and at > patient.now + SKEW]
    if ahead:
        yield warning(
            "clock",
            f"something was stored at {max(ahead):%Y-%m-%d %H:%M}, which is still to come",
            "the clock was ahead once, or is behind now: set it",
        )


def check_roles(patient: Patient) -> Iterator[Finding]:
    """The reader can read and really cannot write; whose rows they are is held by the server."""
    part = "roles"
    with _database(patient.settings, "cems_reader") as db:
        found, who = health.tables(db), health.server(db)["who"]
        writable = [row["name"] for row in found if row["updatable"] or health.may_write(db, row["name"])]
    if writable:
        yield bad(
            part,
            f"{who} may write {', '.join(writable)}",
            f"revoke insert, update, delete on {writable[0]} from {who}",
        )
    else:
        yield ok(part, f"{who} reads, and cannot write any of {len(found)} tables")
    if unguarded := [
        row["name"] for row in found if not row["guarded"] and row["name"] != "schema_migration"
    ]:
        yield bad(
            part,
            f"rows of other owners can be read in {', '.join(unguarded)}",
            f"alter table {unguarded[0]} enable row level security; alter table {unguarded[0]} force row level security",
        )


def check_indexes(patient: Patient) -> Iterator[Finding]:
    """Every index is valid."""
    with _database(patient.settings, "cems_writer") as db:
        names = health.invalid_indexes(db)
    if names:
        yield bad(
            "indexes",
            f"not valid: {', '.join(names)}",
            "`cems maintenance --job reindexing` builds them again",
        )
    else:
        yield ok("indexes", "all valid")


def _database(settings: Settings, role: Role) -> Database:
    return access.database(settings, role, start=False)


def _start(settings: Settings) -> Callable[[], None]:
    def do() -> None:
        access.access(settings, "cems_writer")

    return do
