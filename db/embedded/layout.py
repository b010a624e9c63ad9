"""Where the embedded server's files live and whose they are. Promises that only the home's owner (and root)
can reach them, that the system user who runs the server can, and that no folder outside the home loses a
permission bit for it."""

from __future__ import annotations

import hashlib
import os
import pwd
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cems.errors import EmbeddedPostgresError

USER_VARIABLE = "CEMS_POSTGRES_USER"
SYSTEM_USERS = ("postgres", "_postgres", "nobody")
OUTSIDE = ("/var/lib", "/var/db", "/opt")
"""Where data goes when root's home lies in a folder that the server's user cannot pass, as /root: folders
that root alone can write and that nothing cleans. The second one is macOS's."""


@dataclass(frozen=True)
class Layout:
    """The folders of one home and the two users concerned: `admin` owns the home, `server` runs Postgres."""

    home: Path
    place: Path
    """Holds data, socket, configuration and binaries: `home/postgres`, or a folder outside (see OUTSIDE)."""
    admin_uid: int
    admin_gid: int
    server_uid: int
    server_gid: int

    @property
    def top(self) -> Path:
        """Always in the home: lock, state, log."""
        return self.home / "postgres"

    @property
    def data(self) -> Path:
        """Postgres's data folder; owned by the server's user, 0700."""
        return self.place / "data"

    @property
    def binaries(self) -> Path:
        """For binaries that are copied or unpacked."""
        return self.place / "binaries"

    @property
    def log(self) -> Path:
        """The server's log, written through a descriptor that the starter opens."""
        return self.top / "server.log"

    @property
    def shared(self) -> bool:
        """Whether the server runs as another user than the home's owner."""
        return self.server_uid != self.admin_uid

    @property
    def id(self) -> str:
        """Names what belongs to this home where others have things too: process titles, folders in /tmp."""
        return hashlib.sha256(os.fsencode(self.home)).hexdigest()[:12]


def look(home: Path) -> Layout:
    """The layout of `home` as it is, without changing anything; for a home that does not exist, as it would
    be."""
    real = Path(os.path.realpath(home))
    if {"\n", "\r"} & set(str(real)):
        raise EmbeddedPostgresError(
            f"Postgres cannot live in a folder whose name has a line break: {str(real)!r}",
            hint="set CEMS_HOME to another folder",
        )
    admin_uid, admin_gid = os.geteuid(), os.getegid()
    if real.exists():
        owner = real.stat()
        admin_uid, admin_gid = owner.st_uid, owner.st_gid
    if os.geteuid() not in (0, admin_uid):
        raise EmbeddedPostgresError(
            f"{real} belongs to {user_name(admin_uid)}", hint="set CEMS_HOME to a folder of your own"
        )
    place = _place(real / "postgres", admin_uid)
    server_uid, server_gid = _server_user(place / "data", admin_uid, admin_gid)
    return Layout(real, place, admin_uid, admin_gid, server_uid, server_gid)


def prepare(home: Path) -> Layout:
    """The layout of `home` with its folders made and their owners and modes set; changes nothing above
    `home`."""
    _make_folders(Path(os.path.realpath(home)))
    layout = look(home)
    make_folder(layout.top, layout.admin_uid, layout.admin_gid)
    if not layout.shared:
        return layout
    let_pass(layout.top, layout)
    if layout.place == layout.top:
        if can_pass(layout.home.parent, layout):
            let_pass(layout.home, layout)
        else:
            _move_outside(layout)
            layout = look(home)
    let_pass(layout.place, layout)
    return layout


def outside(home: Path) -> Path | None:
    """The folder that holds the data where it does not lie in the home: root's, whose home the server's user cannot enter."""
    found = look(home)
    return found.place if found.place != found.top else None


def make_folder(path: Path, uid: int, gid: int) -> None:
    """`path` as a private folder of that owner. One that is there must be a real folder of that owner
    already."""
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (uid, os.geteuid()):
            raise EmbeddedPostgresError(
                f"{path} is not a folder of {user_name(uid)}", hint=f"look at it, then move it away: {path}"
            ) from None
        if stat.S_IMODE(found.st_mode) & 0o067 or found.st_mode & 0o700 != 0o700:
            path.chmod(0o700)
    if path.lstat().st_uid != uid:
        os.chown(path, uid, gid, follow_symlinks=False)


def let_pass(folder: Path, layout: Layout) -> None:
    """Let the server's user pass through (not list) a folder that is ours, preferably through the group
    alone."""
    mode = stat.S_IMODE(folder.stat().st_mode)
    if _passable(folder, layout):
        return
    if mode & 0o070 == 0:
        os.chown(folder, -1, layout.server_gid)
        folder.chmod(mode | 0o010)
    else:  # the group means something to the owner already
        folder.chmod(mode | 0o001)


def can_pass(folder: Path, layout: Layout) -> bool:
    """Whether the server's user gets to what lies in `folder`, by the permission bits."""
    return all(_passable(each, layout) for each in (folder, *folder.parents))


def write_private(path: Path, text: str, layout: Layout, *, for_server: bool = False) -> None:
    """Replace a file of ours in one step, mode 0600. `for_server`: the server's user may read it (0640) if it
    is another one. Written beside and renamed, so nothing is ever written through a link that someone put
    there."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode("utf-8", "surrogateescape"))
            if os.geteuid() == 0:
                os.fchown(
                    file.fileno(), layout.admin_uid, layout.server_gid if for_server else layout.admin_gid
                )
            os.fchmod(file.fileno(), 0o640 if for_server and layout.shared else 0o600)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def user_name(uid: int) -> str:
    """The name of a system user, or its number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _place(top: Path, admin_uid: int) -> Path:
    link = top / "data"
    if not link.is_symlink():
        return top
    data = Path(os.path.realpath(link))
    place = data.parent
    if not place.is_dir():
        raise EmbeddedPostgresError(
            f"the data of {top.parent} should be in {place}, which is gone",
            hint=f"put it back, or remove {link} to begin with an empty database",
        )
    if data.name != "data" or place.lstat().st_uid not in (admin_uid, 0):
        raise EmbeddedPostgresError(f"{link} leads to {data}, which is not a data folder of this program")
    return place


def _server_user(data: Path, admin_uid: int, admin_gid: int) -> tuple[int, int]:
    """Who runs the server: ourselves; or, for root, who owns the data, else the user asked for, else the
    home's owner, else a system user."""
    if os.geteuid() != 0:
        return admin_uid, admin_gid
    wanted = os.environ.get(USER_VARIABLE, "").strip()
    if data.is_dir():
        owner = data.stat()
        if owner.st_uid == 0:
            raise EmbeddedPostgresError(
                f"{data} belongs to root, and Postgres does not run as root",
                hint=f"give it to a system user: chown -R {wanted or 'postgres'} {data}",
            )
        if wanted and user_name(owner.st_uid) != wanted:
            raise EmbeddedPostgresError(
                f"{data} belongs to {user_name(owner.st_uid)}, but {USER_VARIABLE} says {wanted}",
                hint=f"unset {USER_VARIABLE}, or, with the server stopped: chown -R {wanted} {data}",
            )
        return owner.st_uid, owner.st_gid
    if not wanted and admin_uid != 0:
        return admin_uid, admin_gid
    for name in (wanted,) if wanted else SYSTEM_USERS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return entry.pw_uid, entry.pw_gid
    raise EmbeddedPostgresError(
        f"Postgres does not run as root, and there is no other user {wanted or ' or '.join(SYSTEM_USERS)}",
        hint=f"create a system user and name it in {USER_VARIABLE}",
    )


def _make_folders(home: Path) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    home.mkdir(mode=0o700, exist_ok=True)


def _passable(folder: Path, layout: Layout) -> bool:
    found = folder.stat()
    if found.st_uid == layout.server_uid:
        return bool(found.st_mode & 0o100)
    if found.st_gid == layout.server_gid:
        return bool(found.st_mode & 0o010)
    return bool(found.st_mode & 0o001)


def _move_outside(layout: Layout) -> None:
    """Put the data where the server's user can get to it, and leave a symbolic link at its usual place. The
    name is random: a home that was deleted and made anew must not find the old one's data."""
    if (layout.top / "data").exists():
        raise EmbeddedPostgresError(
            f"{user_name(layout.server_uid)}, who runs the server, no longer gets to {layout.data}",
            hint=f"let it pass the folders above {layout.home} (chmod o+x), or move the home elsewhere",
        )
    for base in OUTSIDE:
        if Path(base).is_dir() and can_pass(Path(base), layout):
            place = Path(tempfile.mkdtemp(prefix="cems-postgres-", dir=base))
            write_private(place / "home", f"{layout.home}\n", layout)
            (layout.top / "data").symlink_to(place / "data")
            return
    raise EmbeddedPostgresError(
        f"{user_name(layout.server_uid)}, who runs the server, cannot get to {layout.home}",
        hint="set CEMS_HOME to a folder below one that everybody may pass",
    )
