"""`db/schema.sql`: what all migrations add up to, as Postgres itself tells it. `python -m tests.schema_file` writes it anew;
a test compares."""

from __future__ import annotations

import re
import subprocess
import tempfile
import uuid
from pathlib import Path

from db import embedded, migrate
from db.connect import Access, connect
from db.embedded import ServerInfo

PATH = Path(__file__).resolve().parent.parent / "db" / "schema.sql"
_HEAD = (
    "-- The schema as it is: made from the migrations by `make schema`, compared by a test. Re-indexing\n"
    "-- reads it to know which indexes there should be.\n"
)
_NOISE = re.compile(r"^(?:--.*|SET .*|SELECT pg_catalog\.set_config.*|\\(?:un)?restrict .*)$", re.M)


def dumped(server: ServerInfo, home: Path, dbname: str) -> str:
    """The schema of a database, without what depends on the server or the day."""
    dump = embedded.tool("pg_dump", home)
    done = subprocess.run(
        [dump, "--schema-only", "--schema=cems", "--no-owner", server.dsn(embedded.SUPERUSER, dbname)],
        check=True,
        capture_output=True,
        text=True,
    )
    text = _NOISE.sub("", done.stdout)
    return _HEAD + "\n" + re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def main() -> None:
    """Write the file."""
    home = Path(tempfile.mkdtemp(prefix="cems-schema-", dir="/tmp"))
    server = embedded.start(home, settings={"fsync": "off"})
    try:
        with connect(
            Access(server.dsn(embedded.SUPERUSER, "postgres"), "cems_owner", uuid.UUID(int=0))
        ) as conn:
            migrate.prepare(conn)
            migrate.migrate(conn)
        PATH.write_text(dumped(server, home, "postgres"))
    finally:
        embedded.stop(home, mode="immediate")


if __name__ == "__main__":
    main()
