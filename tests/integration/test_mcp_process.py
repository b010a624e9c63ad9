"""The server as a process: quick to answer, on a standard output of its own, patient with what is away, and gone when its agent
is. The reader's role throughout."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cems import home as homes
from cems.cli.mcp import opened
from cems.project import resolve
from cems.settings import Settings, load
from db import embedded
from db.connect import Connection, Database
from db.embedded import ServerInfo
from tests.hooking import remember
from tests.mcping import SERVER, Wire, short_of, wire
from tests.waiting import wait_until


@pytest.fixture
def door(server: ServerInfo, dbname: str) -> Iterator[Path]:
    """A place of the database's socket, short as its path must be, where it can be put and taken away; not there at first."""
    folder = Path(tempfile.mkdtemp(prefix="cems-", dir="/tmp"))
    yield folder / f".s.PGSQL.{server.port}"
    shutil.rmtree(folder)


def said(answer: dict[str, Any]) -> str:
    """The text of a tool's answer."""
    text = answer["result"]["content"][0]["text"]
    assert isinstance(text, str)
    return text


def ask(server: Wire, number: int, tool: str, **given: Any) -> str:
    """Call a tool and wait for its text."""
    server.call(number, tool, **given)
    answer = server.receive()
    assert answer["id"] == number
    return said(answer)


def ended(pid: int) -> bool:
    """Whether a process that is nobody's child here is gone, or only its number is left."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_every_line_is_of_the_protocol_garbage_ends_nothing_and_calls_run_side_by_side(
    environment: dict[str, str], tmp_path: Path
) -> None:
    with wire(environment, tmp_path, log=tmp_path / "log") as server:
        server.write(b"this is no JSON\n{\n\xff\xfe\x00\n[]\n\n" + b"x" * 300_000 + b"\n")
        assert server.initialize()["result"]["serverInfo"]["name"] == "cems"
        server.write(b'{"jsonrpc": "2.0", "id": 99, "method": "tools/steal"}\n"\\ud800"\n')
        for number in range(1, 13):
            server.call(number, "search", query=f"many at once {number} 🚀", limit=3)
        answers = {answer["id"]: answer for answer in (server.receive() for _ in range(13))}
        assert answers.pop(99)["error"]["message"] == "Method not found"
        assert set(answers) == set(range(1, 13))
        assert all("Nothing found" in said(answer) for answer in answers.values())
        assert server.end() == 0
        assert server.process.stdout is not None and server.process.stdout.read() == b""
    log = (tmp_path / "log").read_text()
    assert "many at once" not in log and "Traceback" not in log


def test_the_database_may_be_away_and_comes_back(
    environment: dict[str, str],
    server: ServerInfo,
    dbname: str,
    door: Path,
    db: Database,
    sql: Connection,
    tmp_path: Path,
    home: Path,
) -> None:
    url = f"postgresql:///{dbname}?host={door.parent}&port={server.port}&user={embedded.SUPERUSER}"
    remember(db, sql, "Tides are read at noon", project=resolve(str(tmp_path), str(homes.machine_id(home))))
    behind = server.socket_dir / door.name

    def cut() -> None:
        door.unlink()
        sql.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = %s and application_name = 'cems cems_reader'",
            (dbname,),
        )

    with wire(environment | {"CEMS_DATABASE_URL": url}, tmp_path) as agent:
        agent.initialize()
        away = ask(agent, 1, "search", query="tides")
        assert (
            away == "the database does not answer. Start it with `cems db start`, or check CEMS_DATABASE_URL."
        )
        door.symlink_to(behind)
        assert "Tides are read" in ask(agent, 2, "search", query="tides")
        cut()
        assert ask(agent, 3, "search", query="tides") == away
        door.symlink_to(behind)
        assert "Tides are read" in ask(agent, 4, "search", query="tides")
        # A connection that was lost between two calls is nobody's business.
        cut()
        door.symlink_to(behind)
        assert "Tides are read" in ask(agent, 5, "search", query="tides")


def test_a_mute_database_delays_neither_the_start_nor_other_requests_nor_the_end(
    environment: dict[str, str], tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"postgresql://127.0.0.1:{mute.getsockname()[1]}/cems"
        with wire(environment | {"CEMS_DATABASE_URL": url}, tmp_path) as agent:
            agent.initialize()
            agent.call(1, "search", query="anything")
            agent.send("ping", 2)
            assert agent.receive() == {"jsonrpc": "2.0", "id": 2, "result": {}}
            mute.accept()  # by now it is connecting
            began = time.monotonic()
            assert agent.end() == 0 and time.monotonic() - began < 3


def test_no_database_is_made_by_asking_and_no_address_is_told(
    environment: dict[str, str], home: Path, tmp_path: Path
) -> None:
    del environment["CEMS_DATABASE_URL"]
    with wire(environment, tmp_path) as agent:
        agent.initialize()
        answer = ask(agent, 1, "search", query="anything")
        assert answer.startswith("the embedded Postgres is not running. ") and "`cems up`" in answer
        agent.process.send_signal(signal.SIGTERM)
        assert agent.process.wait(3) == 0
    assert not (home / "postgres").exists()
    url = "postgresql://keeper:hunter2-sesame@127.0.0.1:9/cems"
    with wire(environment | {"CEMS_DATABASE_URL": url}, tmp_path, log=tmp_path / "log") as agent:
        agent.initialize()
        answer = ask(agent, 1, "status")
        assert answer.startswith("the database does not answer. ")
        assert not any(part in answer for part in ("hunter2", "keeper", "127.0.0.1"))
        assert agent.end() == 0
    assert "hunter2" not in (tmp_path / "log").read_text()


def test_it_ends_with_the_agent_that_started_it(environment: dict[str, str], tmp_path: Path) -> None:
    parent = (
        "import subprocess, sys, time; "
        f"p = subprocess.Popen([sys.executable, *{SERVER!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE); "
        "print(p.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", parent], env=environment, cwd=tmp_path, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.kill()
    try:
        wait_until(lambda: ended(pid), 10, "the end of a server whose agent was killed")
    finally:
        if not ended(pid):
            os.kill(pid, signal.SIGKILL)


def test_it_logs_in_as_the_reader_and_the_reader_cannot_write(
    environment: dict[str, str],
    settings: Settings,
    db_url: str,
    dbname: str,
    db: Database,
    sql: Connection,
    tmp_path: Path,
    home: Path,
) -> None:
    hit = remember(
        db, sql, "Tides are read at noon", project=resolve(str(tmp_path), str(homes.machine_id(home)))
    )
    as_reader = db_url.replace(f"user={embedded.SUPERUSER}", "user=cems_reader")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("search", {"query": "tides"}),
        ("get", {"ids": [str(hit)]}),
        ("why", {"id": str(hit)}),
        ("timeline", {"around": "2026-11-30"}),
        ("context", {}),
    ]
    with wire(environment | {"CEMS_READER_DATABASE_URL": as_reader}, tmp_path) as agent:
        agent.initialize()
        for number, (tool, given) in enumerate(calls):
            assert short_of(hit) in ask(agent, number, tool, **given)
        assert "1 of this project" in ask(agent, 9, "status")
        who = sql.execute(
            "select distinct usename, application_name from pg_stat_activity"
            " where datname = %s and pid <> pg_backend_pid() and application_name <> 'cems cems_writer'",
            (dbname,),
        ).fetchall()
        assert who == [{"usename": "cems_reader", "application_name": "cems cems_reader"}]
        assert agent.end() == 0
    bold = as_reader + "&options=-c%20default_transaction_read_only%3Doff"
    for used in (settings, load(environment | {"CEMS_READER_DATABASE_URL": bold})):
        with (
            opened(used, "cems_reader") as reader,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
            reader.transaction() as conn,
        ):
            conn.execute("update memory set pinned = true")


def test_what_else_prints_does_not_reach_the_agent(tmp_path: Path) -> None:
    script = (
        "import os, subprocess, sys; from cems.cli.mcp import claim; incoming, outgoing = claim(); "
        "print('a banner', flush=True); os.write(1, b'raw'); subprocess.run(['echo', 'child']); "
        "assert sys.stdin.read() == ''; outgoing.write(incoming.readline()); outgoing.flush()"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", script],
        input=b"protocol\nmore\n",
        capture_output=True,
        timeout=30,
        check=True,
    )
    assert done.stdout == b"protocol\n"
    assert done.stderr == b"a banner\nrawchild\n"


def test_half_characters_and_parameters_of_a_wrong_shape_get_an_answer(
    environment: dict[str, str], tmp_path: Path
) -> None:
    with wire(environment, tmp_path) as server:
        server.initialize()
        call = '"method": "tools/call", "params": {"name": "search", "arguments": {"query": "\\ud800abc"}}'
        server.write(f'{{"jsonrpc": "2.0", "id": 5, {call}}}\n'.encode())
        assert server.receive()["id"] == 5
        server.write(b'{"jsonrpc": "2.0", "id": 6, "method": "tools/call", "params": []}\n')
        answer = server.receive()
        assert answer["id"] == 6 and "error" in answer
