"""From a command to its database: the pool of the role it acts as, with the embedded server started on the way where that
makes sense. A command that only reads does not make a database that is not there."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

from cems.cli import output
from cems.errors import DatabaseUnavailable
from cems.settings import Settings
from db import access, embedded
from db.connect import Database, Role


@contextlib.contextmanager
def database(settings: Settings, role: Role, *, make: bool = False) -> Iterator[Database]:
    """A pool of this role's connections, closed at the end.

    Args:
        make: create the embedded database where there is none yet.

    Raises:
        DatabaseUnavailable: there is none, or it does not answer.
    """
    # The pool logs each failed attempt; the error that follows says it once.
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)
    if not (make or settings.database_url or embedded.status(settings.home).version):
        raise DatabaseUnavailable(
            f"there are no memories yet: {settings.home} has no database",
            hint="`cems up` makes one and reads your sessions; `cems memory add` makes one too",
        )
    with access.database(settings, role, progress=output.note) as db:
        yield db
