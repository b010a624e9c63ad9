"""A Postgres of one's own, out of the packages that pip installed: no server to set up, no port, no password.
Its clients come through a Unix socket that only the home's owner can reach, and it runs until it is told to
stop."""

from .config import SUPERUSER
from .layout import outside
from .server import ServerInfo, start, status, stop, tool

__all__ = ["SUPERUSER", "ServerInfo", "outside", "start", "status", "stop", "tool"]
