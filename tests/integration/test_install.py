"""Installation as its user does it: into a folder of the agent's, with and without services, in every order, and out again."""

from __future__ import annotations

import json
import os
import plistlib
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cems.cli.doctoring.finding import Finding, Patient
from cems.cli.doctoring.system import check_agents
from cems.cli.installing import services
from cems.cli.installing.hooks import refresh
from cems.cli.installing.steps import Step
from cems.errors import CemsError
from cems.settings import Settings, load
from tests.conftest import FakeClock
from tests.program import Program
from tests.waiting import wait_until

FOREIGN = {"type": "command", "command": "/other/tool"}
SETTINGS: dict[str, Any] = {
    "model": "opus",
    "hooks": {
        "UserPromptSubmit": [{"hooks": [FOREIGN]}],
        "SessionStart": [{"matcher": "startup", "hooks": [FOREIGN]}],
        "Stop": [{"hooks": [FOREIGN]}],
    },
}


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder and its content."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def own(folder: Path) -> dict[str, bytes]:
    """The same without what running a hook leaves for the next one."""
    return {k: v for k, v in tree(folder).items() if k.startswith(("hook/", "backups/"))}


@pytest.fixture
def program(environment: dict[str, str], tmp_path: Path) -> Program:
    return Program(environment | {"CEMS_RECALL_ENABLED": "0"}, tmp_path)


@pytest.fixture
def settings_json(config_dir: Path) -> Path:
    path = config_dir / "settings.json"
    path.write_text(json.dumps(SETTINGS, indent=4) + "\n")
    return path


def handlers(config_dir: Path) -> dict[str, dict[str, Any]]:
    """The plugin's handler of each event."""
    found = json.loads((config_dir / "skills/cems/hooks/hooks.json").read_text())["hooks"]
    return {event: groups[0]["hooks"][0] for event, groups in found.items()}


def run(handler: dict[str, Any], given: bytes, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """A handler as the agent runs it: no shell, its own environment."""
    env = {"PATH": os.environ["PATH"], "HOME": "/nowhere"} | environment
    argv = [handler["command"], *handler["args"]]
    return subprocess.run(argv, input=given, capture_output=True, env=env, cwd="/", timeout=20, check=False)


def test_a_plugin_comes_works_and_goes(program: Program, config_dir: Path, home: Path) -> None:
    looked = program.json("install", "--dry-run")
    assert looked["done"] is False and tree(config_dir) == {}
    done = program.json("install", "--yes")
    assert done["done"] and done["problems"] == [] and done["way"] == "plugin"
    assert [s["step"] for s in done["steps"]] == [s["step"] for s in looked["steps"]]
    installed = tree(config_dir)
    assert {"skills/cems/.claude-plugin/plugin.json", "skills/cems/hooks/hooks.json"} <= set(installed)
    server = json.loads(installed["skills/cems/.mcp.json"])["mcpServers"]["cems"]
    assert Path(server["command"]).is_absolute() and server["args"][0] == "-I"
    again = program.json("install", "--yes")
    assert again["steps"] == [] and tree(config_dir) == installed
    program("uninstall", "--yes")
    assert tree(config_dir) == {} and not (config_dir / "skills/cems").exists() and own(home) == {}
    assert program.json("uninstall", "--yes")["steps"] == []


def test_the_installed_hook_knows_its_home_and_never_erases_a_prompt(
    program: Program, config_dir: Path, home: Path
) -> None:
    program("install", "--yes", "--only", "hooks")
    found = handlers(config_dir)
    assert set(found) == {"UserPromptSubmit", "SessionStart", "SubagentStart"}
    for event, handler in found.items():
        assert Path(handler["command"]).is_absolute() and handler["args"][:2] == ["-I", "-S"]
        done = run(handler, json.dumps({"hook_event_name": event, "cwd": "/"}).encode())
        assert json.loads(done.stdout)["hookSpecificOutput"]["hookEventName"] == event
    assert (home / "recall").is_dir(), "it looked for the service in its own home"
    (compiled,) = (home / "hook/__pycache__").iterdir()
    assert run(found["SessionStart"], b"{}").stdout != b"{}"
    compiled.write_bytes(b"rubbish")
    (home / "hook/hook.py").write_text("this is not Python")
    for broken in ("garbled", "not compiled", "gone"):
        if broken == "not compiled":
            compiled.unlink()
        if broken == "gone":
            (home / "hook/hook.py").unlink()
        done = run(found["UserPromptSubmit"], b'{"prompt": "hello"}')
        assert (done.returncode, done.stdout, done.stderr) == (0, b"{}", b"")


def test_case_N87_entries_come_and_go_and_the_rest_stays(
    program: Program, config_dir: Path, settings_json: Path, home: Path
) -> None:
    before = settings_json.read_bytes()
    settings_json.chmod(0o600)
    program("install", "--yes", "--settings", "--only", "hooks")
    found = json.loads(settings_json.read_text())
    assert {e: groups[0] for e, groups in found["hooks"].items() if e in SETTINGS["hooks"]} == {
        e: groups[0] for e, groups in SETTINGS["hooks"].items()
    }
    assert stat.S_IMODE(settings_json.stat().st_mode) == 0o600
    written = settings_json.read_bytes()
    assert program.json("install", "--yes", "--settings", "--only", "hooks")["steps"] == []
    assert settings_json.read_bytes() == written
    program("uninstall", "--yes")
    assert settings_json.read_bytes() == before and own(home) == {}


def test_case_N87_a_file_that_others_rewrote_meanwhile_loses_only_ours(
    program: Program, config_dir: Path, settings_json: Path
) -> None:
    program("install", "--yes", "--settings", "--only", "hooks")
    found = json.loads(settings_json.read_text())
    found["theme"] = "dark"
    settings_json.write_text(json.dumps(found))
    program("uninstall", "--yes")
    assert json.loads(settings_json.read_text()) == SETTINGS | {"theme": "dark"}


def test_case_N87_a_link_stays_a_link(program: Program, config_dir: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "claude.json"
    real.parent.mkdir()
    real.write_text(json.dumps(SETTINGS))
    (config_dir / "settings.json").symlink_to(real)
    program("install", "--yes", "--settings", "--only", "hooks")
    assert (config_dir / "settings.json").is_symlink() and "# cems hook" in real.read_text()
    program("uninstall", "--yes")
    assert (config_dir / "settings.json").is_symlink() and real.read_text() == json.dumps(SETTINGS)


@pytest.mark.parametrize(
    ("content", "mode", "word"),
    [
        (b"{ not json", 0o644, "not valid JSON"),
        (b'\xef\xbb\xbf{"a": 1,}', 0o644, "not valid JSON"),
        (b"\xff\xfe{}", 0o644, "not UTF-8"),
        (b"[1]", 0o644, "not a JSON object"),
        (b'{"a": 1}', 0o444, "read-only"),
    ],
)
def test_case_N87_what_cannot_be_edited_is_refused_untouched(
    program: Program, config_dir: Path, content: bytes, mode: int, word: str
) -> None:
    path = config_dir / "settings.json"
    path.write_bytes(content)
    path.chmod(mode)
    done = program("install", "--yes", "--settings", "--only", "hooks", code=1)
    assert word in done.err and "hint:" in done.err and "Traceback" not in done.err
    assert path.read_bytes() == content and tree(config_dir) == {"settings.json": content}


def test_a_byte_order_mark_stays(program: Program, config_dir: Path) -> None:
    path, before = config_dir / "settings.json", b'\xef\xbb\xbf{\r\n  "a": 1\r\n}\r\n'
    path.write_bytes(before)
    program("install", "--yes", "--settings", "--only", "hooks")
    assert path.read_bytes().startswith(b"\xef\xbb\xbf{\r\n")
    program("uninstall", "--yes")
    assert path.read_bytes() == before


def test_never_in_both_ways_at_once(program: Program, config_dir: Path, settings_json: Path) -> None:
    before = settings_json.read_bytes()
    program("install", "--yes")
    program("install", "--yes", "--settings", "--only", "hooks")
    assert "# cems hook" in settings_json.read_text()
    assert not (config_dir / "skills/cems/hooks/hooks.json").exists()
    assert (config_dir / "skills/cems/.mcp.json").exists(), "the server stays where it was"
    program("install", "--yes", "--only", "hooks")
    assert settings_json.read_bytes() == before
    assert (config_dir / "skills/cems/hooks/hooks.json").exists()
    program("uninstall", "--yes")
    assert tree(config_dir) == {"settings.json": before}


def test_a_file_of_the_users_in_the_plugins_folder_is_not_ours_to_keep(
    program: Program, config_dir: Path
) -> None:
    program("install", "--yes")
    (config_dir / "skills/cems/hooks/hooks.json").write_text("{}")
    done = program.json("install", "--yes")
    assert [s["step"].split()[0] for s in done["steps"]] == ["replace"]


def test_folders_with_spaces_and_letters_of_all_kinds(environment: dict[str, str], tmp_path: Path) -> None:
    home, config = tmp_path / "Dätä 日本 'x' $HOME", tmp_path / "Claude ü"
    home.mkdir()
    config.mkdir()
    program = Program(environment | {"CEMS_HOME": str(home), "CLAUDE_CONFIG_DIR": str(config)}, tmp_path)
    assert program.json("install", "--yes")["problems"] == []
    done = run(handlers(config)["SessionStart"], b'{"hook_event_name": "SessionStart", "cwd": "/"}')
    assert "hookSpecificOutput" in json.loads(done.stdout)
    program("uninstall", "--yes")
    assert tree(config) == {} and own(home) == {}


def test_nobody_to_ask_is_no_yes(program: Program, config_dir: Path) -> None:
    done = program("install", code=2)
    assert "--yes" in done.err and tree(config_dir) == {}
    program("install", "--yes")
    done = program("uninstall", "--purge", "--yes", code=2)
    assert "twice" in done.err and tree(config_dir)


def test_purge_deletes_the_home(program: Program, home: Path) -> None:
    program("install", "--yes")
    program("memory", "add", "Always use uv.")
    program("uninstall", "--purge", "--yes", "--yes")
    assert not home.exists()


def test_purge_deletes_no_folder_that_holds_anything_else(program: Program, tmp_path: Path) -> None:
    others = tmp_path / "others"
    others.mkdir()
    (others / "thesis.tex").write_text("years of work")
    marks = {"machine-id": "x", "redaction-key": "x"}
    for home, user in (
        (others, "/nowhere"),
        (others, str(others)),
        (others, str(others / "user")),
        ("/", "/"),
    ):
        having = program.having({"CEMS_HOME": str(home), "HOME": user})
        done = having("uninstall", "--purge", "--yes", "--yes", code=2)
        assert "not deleted" in done.err and (others / "thesis.tex").exists()
        for name, text in marks.items():
            (others / name).write_text(text)


def test_purge_deletes_nothing_under_a_process_that_runs(program: Program, home: Path) -> None:
    program("install", "--yes", "--only", "hooks")
    with program.running("observe") as observer:
        wait_until(lambda: "looked at once" in observer.err)
        done = program("uninstall", "--purge", "--yes", "--yes", code=1)
        assert f"observer (process {observer.process.pid})" in done.err and "Traceback" not in done.err
        assert (home / "machine-id").exists() and observer.process.poll() is None
    looked = program.json("uninstall", "--purge", "--dry-run")
    assert "memories stay in the other server" in looked["steps"][-1]["step"]
    program("uninstall", "--purge", "--yes", "--yes")
    assert not home.exists()
    assert program.json("uninstall", "--purge", "--yes", "--yes")["steps"] == []


def test_no_home_variable(program: Program, config_dir: Path) -> None:
    without = {k: v for k, v in program.environment.items() if k != "HOME"}
    assert Program(without, program.folder).json("install", "--yes")["problems"] == []


@pytest.mark.skipif(
    not Path("/dev/full").exists() or os.geteuid() != 0, reason="needs a full disk that root can make"
)
def test_a_full_disk_leaves_the_file_as_it_was(program: Program, tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "cems-test", str(full)], check=False)
    if mounted.returncode:
        pytest.skip("no file system may be mounted here")
    try:
        before = json.dumps(SETTINGS).encode()
        (full / "settings.json").write_bytes(before)
        with (full / "filler").open("wb", buffering=0) as filler, pytest.raises(OSError, match="No space"):
            while True:
                filler.write(b"x" * 4096)
        having = program.having({"CLAUDE_CONFIG_DIR": str(full)})
        done = having("install", "--yes", "--settings", "--only", "hooks", code=1)
        assert "No space left" in done.err and (full / "settings.json").read_bytes() == before
        assert sorted(p.name for p in full.iterdir()) == ["filler", "settings.json"]
        (full / "filler").unlink()
        having("install", "--yes", "--settings", "--only", "hooks")
        having("uninstall", "--yes")
        assert (full / "settings.json").read_bytes() == before
    finally:
        subprocess.run(["umount", str(full)], check=True)


SYSTEMCTL = """#!/bin/sh
echo "$0 $*" >> "$CALLS"
case "$*" in
*property=Version*) echo "252 (252.38)";;
*is-enabled*) [ -f "$CALLS.on" ] && echo enabled || exit 1;;
*is-active*) [ -f "$CALLS.on" ] && echo active || exit 3;;
*enable*--now*) touch "$CALLS.on";;
*disable*) rm -f "$CALLS.on";;
esac
"""


@pytest.fixture
def systemd(program: Program, tmp_path: Path) -> Program:
    """The program beside stand-ins for systemd's own programs, which write down how they are called."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    for name in ("systemctl", "systemd-run", "loginctl"):
        (bin_ / name).write_text(SYSTEMCTL)
        (bin_ / name).chmod(0o755)
    return program.having(
        {
            "PATH": f"{bin_}:{os.environ['PATH']}",
            "CALLS": str(tmp_path / "calls"),
            "XDG_CONFIG_HOME": str(tmp_path / "config"),
            "CEMS_GEMINI_API_KEY": 'zq"e y',
            "HTTPS_PROXY": "http://proxy:3128",
        }
    )


def test_services_come_start_and_go(systemd: Program, tmp_path: Path, home: Path) -> None:
    units, calls = tmp_path / "config/systemd/user", tmp_path / "calls"
    done = systemd.json("install", "--yes", "--only", "services")
    assert done["problems"] == []
    names = {"cems-observer.service", "cems-maintenance.service", "cems-recall.service", "cems-recall.socket"}
    assert names <= {p.name for p in units.iterdir()}
    assert (units / "cems-observer.service.d/files.conf").exists(), "the trial run succeeded"
    assert not (units / "cems-postgres.service").exists(), "another server is set"
    written = (home / "service.env").read_text()
    assert "zq" not in json.dumps(done), "no key is shown"
    assert 'CEMS_GEMINI_API_KEY="zq\\"e y"' in written and "HTTPS_PROXY=http://proxy:3128" in written
    assert "CEMS_HOME" not in written.replace("`CEMS_HOME`", "")
    assert stat.S_IMODE((home / "service.env").stat().st_mode) == 0o600
    said = calls.read_text()
    assert "daemon-reload" in said and "enable --no-block --now cems-observer.service" in said
    assert systemd.json("install", "--yes", "--only", "services")["steps"] == []
    (units / "cems-observer.service").write_text("[Service]\n")
    again = systemd.json("install", "--yes", "--only", "services")
    assert again["steps"][0]["step"].startswith("replace ")
    systemd("uninstall", "--yes")
    assert tree(units) == {} and "disable --now" in calls.read_text()
    assert (home / "service.env").exists(), "settings stay"


def test_case_N88_services_that_end_at_logout_are_told(systemd: Program, tmp_path: Path) -> None:
    (tmp_path / "bin/loginctl").write_text("#!/bin/sh\necho no\n")
    assert any("enable-linger" in line for line in systemd.json("install", "--yes")["next"])
    (tmp_path / "bin/loginctl").write_text("#!/bin/sh\necho yes\n")
    assert not any("enable-linger" in line for line in systemd.json("install", "--yes")["next"])


def test_a_service_manager_that_refuses_is_an_error_with_its_words(systemd: Program, tmp_path: Path) -> None:
    (tmp_path / "bin/systemctl").write_text(
        '#!/bin/sh\ncase "$*" in *Version*) echo 252;; *) echo "Unit is masked." >&2; exit 1;; esac\n'
    )
    done = systemd("install", "--yes", "--only", "services", code=1)
    assert "Unit is masked." in done.err and "Traceback" not in done.err


LAUNCHCTL = """#!/bin/sh
echo "$*" >> "$CALLS"
mkdir -p "$CALLS.loaded"
label=$(basename "$3" .plist); [ "$1" = bootstrap ] || label=${2##*/}
case "$1" in
print) [ -f "$CALLS.loaded/$label" ] || exit 113
    printf 'x = {\\n\\tactive count = 1\\n\\tstate = %s\\n\\t\\tstate = active\\n}\\n' "$(cat "$CALLS.loaded/$label")";;
bootstrap) [ ! -f "$CALLS.loaded/$label" ] || { echo "Bootstrap failed: 5: Input/output error" >&2; exit 5; }
    [ ! -f "$CALLS.broken" ] || exit 5
    [ -d "$LOGS" ] || exit 78
    echo running > "$CALLS.loaded/$label";;
bootout) rm "$CALLS.loaded/$label" || exit 3;;
esac
"""


class Mac:
    """A user of launchd, whose program writes down how it is called."""

    def __init__(self, folder: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.home, self.calls = folder / "user", folder / "calls"
        self.agents = self.home / "Library/LaunchAgents"
        tool = folder / "mac-bin" / "launchctl"
        tool.parent.mkdir()
        tool.write_text(LAUNCHCTL)
        tool.chmod(0o755)
        self.settings = load(environment)
        given = {
            "PATH": f"{tool.parent}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "CALLS": str(self.calls),
            "LOGS": str(self.settings.home / "logs"),
            "HTTPS_PROXY": "http://me:pass-word@proxy:3128",
        }
        for name, value in given.items():
            monkeypatch.setenv(name, value)

    def install(self, settings: Settings | None = None) -> list[Step]:
        """What is to be done, done."""
        return done(services.install(settings or self.settings, "/venv/bin/python", "launchd"))

    def doctor(self, clock: FakeClock) -> list[Finding]:
        """What a check of the agents finds."""
        return list(check_agents(Patient(self.settings, clock.now(), "/venv/bin/python")))

    def state(self, name: str) -> Path:
        """Holds what the stand-in says of an agent."""
        return Path(f"{self.calls}.loaded") / f"dev.cems.{name}"


def done(steps: list[Step]) -> list[Step]:
    for step in steps:
        step.do()
    return steps


@pytest.fixture
def mac(tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Mac:
    return Mac(tmp_path, environment, monkeypatch)


def test_agents_of_launchd_come_start_and_go(mac: Mac, clock: FakeClock) -> None:
    assert mac.doctor(clock)[0].says == "none are installed"
    steps = mac.install()
    assert not any("pass-word" in step.detail + step.says for step in steps)
    assert stat.S_IMODE((mac.settings.home / "logs").stat().st_mode) == 0o700
    names = {"observer", "maintenance", "recall"}
    assert {p.name for p in mac.agents.iterdir()} == {f"dev.cems.{name}.plist" for name in names}
    for name in names:
        path = mac.agents / f"dev.cems.{name}.plist"
        found = plistlib.loads(path.read_bytes())
        assert found["Label"] == f"dev.cems.{name}" and found["ProgramArguments"][:2] == [
            "/venv/bin/python",
            "-I",
        ]
        assert found["EnvironmentVariables"]["CEMS_HOME"] == str(mac.settings.home)
        assert Path(found["StandardErrorPath"]).parent.is_dir() and stat.S_IMODE(path.stat().st_mode) == 0o600
        assert mac.state(name).exists()
    assert mac.install() == [] and [one.level for one in mac.doctor(clock)] == ["ok"]
    done(services.uninstall(mac.settings, "launchd"))
    assert list(mac.agents.iterdir()) == [] and not mac.state("observer").exists()
    assert services.uninstall(mac.settings, "launchd") == []


def test_an_agent_that_was_replaced_is_started_anew(mac: Mac, clock: FakeClock) -> None:
    mac.install()
    (mac.agents / "dev.cems.observer.plist").write_bytes(plistlib.dumps({"Label": "dev.cems.observer"}))
    assert "not this version" in mac.doctor(clock)[0].says
    mac.calls.write_text("")
    mac.install()
    said = [line.split()[0] for line in mac.calls.read_text().splitlines() if not line.startswith("print")]
    assert said == ["bootout", "bootstrap"] and mac.doctor(clock)[0].level == "ok"


def test_an_agent_that_did_not_start_is_started_by_the_next_installation(mac: Mac, clock: FakeClock) -> None:
    broken = Path(f"{mac.calls}.broken")
    broken.touch()
    with pytest.raises(CemsError, match="bootstrap"):
        mac.install()
    assert {one.level for one in mac.doctor(clock)} == {"bad"}
    broken.unlink()
    mac.install()
    assert mac.doctor(clock)[0].level == "ok"
    mac.state("recall").write_text("not running")
    (found,) = mac.doctor(clock)
    assert "does not run" in found.says and "recall.log" in found.todo


def test_an_agent_for_the_embedded_database_goes_where_another_server_is_set(
    mac: Mac, environment: dict[str, str]
) -> None:
    mac.install(load({k: v for k, v in environment.items() if k != "CEMS_DATABASE_URL"}))
    assert mac.state("postgres").exists()
    mac.install()
    assert not mac.state("postgres").exists() and not (mac.agents / "dev.cems.postgres.plist").exists()


def test_a_full_temporary_folder_does_not_end_the_recall_service(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.mkdtemp", fail)
    refresh(home)
