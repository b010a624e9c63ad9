"""What the server is told: settings, who may connect, and under which names. All three files are ours and are
written anew at every start; the owner's own settings go into `local.conf` beside them, which is read last."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from cems.errors import EmbeddedPostgresError

from . import sockets
from .layout import Layout, user_name, write_private

SUPERUSER = "postgres"
ROLES = (SUPERUSER, "cems_owner", "cems_writer", "cems_reader")

SETTINGS: dict[str, str] = {
    # The socket alone; the folder it lies in is private too.
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "50",
    "work_mem": "16MB",
    "maintenance_work_mem": "128MB",
    "max_wal_size": "512MB",
    "jit": "off",
    # Files instead of /dev/shm: containers give that 64 MB, less than a parallel HNSW build takes, and
    # systemd's RemoveIPC empties it when a user logs out.
    "dynamic_shared_memory_type": "mmap",
    # No private text in the log: no statement, no parameter, and no DETAIL (which quotes whole rows). An
    # ERROR is the client's, who gets it in full and logs what is proper; the log keeps what the server itself
    # goes through.
    "log_destination": "stderr",
    "log_line_prefix": "%m [%p] ",
    "log_min_messages": "log",
    "log_error_verbosity": "terse",
    "log_min_error_statement": "panic",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
    "log_checkpoints": "off",
    "log_timezone": "UTC",
    "timezone": "UTC",
    "datestyle": "iso, mdy",
    "lc_messages": "C",
    "lc_monetary": "C",
    "lc_numeric": "C",
    "lc_time": "C",
    "default_text_search_config": "pg_catalog.english",
}
BUFFERS_MB = 128, 512
"""The least and the most of memory that the server keeps pages in. At 100,000 memories the pages of searches take more than
the least; with the most, a search takes an eighth less of the processor's time, and a third less at the 95th percentile."""


def buffers_mb(memory: int) -> int:
    """Megabytes for pages: an eighth of the machine's memory (bytes), within the limits."""
    least, most = BUFFERS_MB
    return max(least, min(most, memory // 8 // 2**20))


def _memory() -> int:
    """Bytes of this machine's memory; 0 where the system does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


SETTINGS["shared_buffers"] = f"{buffers_mb(_memory())}MB"
if sys.platform == "linux":
    # After a crash Postgres first syncs all its thousand files: one call for the file system takes a tenth of
    # the time.
    SETTINGS["recovery_init_sync_method"] = "syncfs"


def write(layout: Layout, socket_folder: Path) -> list[str]:
    """Write the three files and give the arguments that make `postgres` use them."""
    # A list of folders: in quotes, or a space or comma could divide the name.
    folders = '"' + str(socket_folder).replace('"', '""') + '"'
    lines = [f"{name} = {_quote(value)}" for name, value in SETTINGS.items()]
    lines += [
        f"port = {sockets.PORT}",
        f"unix_socket_directories = {_quote(folders)}",
        f"cluster_name = {_quote(cluster_name(layout))}",
        "include_if_exists 'local.conf'",
    ]
    head = "# Written at every start; own settings belong into local.conf beside this file.\n"
    files = {
        "config_file": ("postgresql.conf", head + "\n".join(lines) + "\n"),
        "hba_file": ("pg_hba.conf", head + f"local all {','.join(ROLES)} peer map=cems\n"),
        "ident_file": ("pg_ident.conf", head + _ident(layout)),
    }
    folder = layout.place
    for name, text in files.values():
        write_private(folder / name, text, layout, for_server=True)
    return [part for key, (name, _) in files.items() for part in ("-c", f"{key}={folder / name}")]


def cluster_name(layout: Layout) -> str:
    """Begins the title of each of the server's processes, which is how orphans are found."""
    return f"cems-{layout.id}"


def _ident(layout: Layout) -> str:
    """The home's owner may be any of the roles; so may root, who could become the owner anyway, when it is
    root who started the server. Nobody else, not even the user who runs the server."""
    lines = []
    for uid in sorted({layout.admin_uid, os.geteuid()}):
        name = user_name(uid)
        if name == str(uid):
            raise EmbeddedPostgresError(
                f"the system has no name for user {uid}, and Postgres knows its clients by name",
                hint="add the user to /etc/passwd, or use another Postgres by CEMS_DATABASE_URL",
            )
        quoted = '"' + name.replace('"', '""') + '"'
        lines += [f"cems {quoted} {role}\n" for role in ROLES]
    return "".join(lines)


def _quote(value: str) -> str:
    """As a string of a configuration file, where a backslash escapes."""
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
