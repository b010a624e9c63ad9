"""Settings: where they come from, and how a bad one is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cems.errors import SettingsError
from cems.home import machine_id, redaction_key
from cems.settings import environment_name, fields, load


def env(home: Path, **more: str) -> dict[str, str]:
    return {"CEMS_HOME": str(home), **more}


def write(home: Path, text: str, mode: int = 0o600) -> None:
    (home / "config.toml").write_text(text)
    (home / "config.toml").chmod(mode)


def test_environment_beats_file_beats_default(tmp_path: Path) -> None:
    assert load(env(tmp_path)).observer_batch_size == 50_000
    assert load(env(tmp_path)).observer_poll_interval == 30
    write(tmp_path, "[observer]\nbatch_size = 7000\n")
    found = load(env(tmp_path))
    assert (
        found.observer_batch_size == 7000
        and found.sources["observer_batch_size"] == "config.toml: observer.batch_size"
    )
    assert load(env(tmp_path, CEMS_OBSERVER_BATCH_SIZE="9")).observer_batch_size == 9


def test_the_usual_variables_of_other_programs_count_last(tmp_path: Path) -> None:
    both = env(tmp_path, GEMINI_API_KEY="gemini", GOOGLE_API_KEY="google")
    assert load(both).gemini_api_key == "google"
    assert load({**both, "CEMS_GEMINI_API_KEY": "ours"}).gemini_api_key == "ours"
    assert load({**both, "CEMS_GEMINI_API_KEY": ""}).gemini_api_key == ""
    assert load(env(tmp_path, CLAUDE_CONFIG_DIR="/a, /b")).claude_dirs() == [Path("/a"), Path("/b")]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CEMS_OBSERVER_BATCH_SIZE", "0"),
        ("CEMS_OBSERVER_BATCH_SIZE", "many"),
        ("CEMS_OBSERVER_POLL_INTERVAL", "-1"),
        ("CEMS_OBSERVER_POLL_INTERVAL", "nan"),
        ("CEMS_OBSERVER_WATCH", "perhaps"),
        ("CEMS_EMBEDDER", "cloud"),
        ("CEMS_LOG_LEVEL", "loud"),
        ("CEMS_ARCHIVE_AFTER_DAYS", "999999"),
        ("CEMS_SUMMARIZATION_AGE_DAYS", "36501"),
        ("CEMS_EMBEDDING_DIMENSIONS", "100000"),
    ],
)
def test_a_bad_value_is_refused_by_name(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name):
        load(env(tmp_path, **{name: value}))


def test_an_unknown_key_is_refused_with_the_nearest(tmp_path: Path) -> None:
    write(tmp_path, "[observer]\nbatchsize = 1\n")
    with pytest.raises(SettingsError) as caught:
        load(env(tmp_path))
    assert "observer.batch_size" in caught.value.hint


@pytest.mark.parametrize("text", ["[observer", "a = ", "\x00"])
def test_a_broken_file_is_refused(tmp_path: Path, text: str) -> None:
    write(tmp_path, text)
    with pytest.raises(SettingsError, match="not valid TOML"):
        load(env(tmp_path))


def test_a_file_with_a_key_must_be_private(tmp_path: Path) -> None:
    write(tmp_path, '[llm]\ngemini_api_key = "x"\n', 0o644)
    with pytest.raises(SettingsError) as caught:
        load(env(tmp_path))
    assert "chmod 600" in caught.value.hint
    write(tmp_path, '[llm]\ngemini_api_key = "x"\n', 0o600)
    assert load(env(tmp_path)).gemini_api_key == "x"


def test_lists_and_switches_as_people_write_them(tmp_path: Path) -> None:
    found = load(env(tmp_path, CEMS_OBSERVER_EXCLUDE_PROJECTS="/a, ~/b", CEMS_OBSERVER_WATCH="off"))
    assert found.observer_exclude_projects == ("/a", "~/b") and found.observer_watch is False


def test_every_setting_has_a_name_a_key_and_a_meaning() -> None:
    for field in fields():
        assert environment_name(field) == "CEMS_" + field.name.upper()
        assert field.metadata["meaning"]
        assert field.name == "home" or "." in field.metadata["toml"]


@pytest.mark.parametrize("place", ["u:p@s3cretPW@h/db", "u:s3cretPW/x@h/db", "u:a:s3cretPW@h/db"])
def test_a_password_that_would_be_taken_for_something_else_is_refused_unseen(
    tmp_path: Path, place: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        load(env(tmp_path, CEMS_DATABASE_URL=f"postgresql://{place}"))
    assert "s3cretPW" not in str(caught.value) and "%40" in caught.value.hint


@pytest.mark.parametrize(
    "url", ["postgresql:///db?host=/tmp/x@y", "postgresql://u:p%40q@h:5432/db", "host=/tmp user=u"]
)
def test_a_proper_address_is_taken(tmp_path: Path, url: str) -> None:
    assert load(env(tmp_path, CEMS_DATABASE_URL=url)).database_url == url


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("CEMS_EXCLUDE_PROJECTS", "CEMS_OBSERVER_EXCLUDE_PROJECTS"),
        ("CEMS_OBSERVER_EXCLUDED_PROJECTS", "CEMS_OBSERVER_EXCLUDE_PROJECTS"),
        ("CEMS_LLM_DAILY_CALL", "CEMS_LLM_DAILY_CALLS"),
    ],
)
def test_a_misspelt_variable_is_not_ignored(tmp_path: Path, name: str, meant: str) -> None:
    with pytest.raises(SettingsError, match=name) as caught:
        load(env(tmp_path, **{name: "/secret"}))
    assert meant in caught.value.hint
    load(env(tmp_path, CEMS_SHARED="/x", CEMS_SOMETHING_ELSE="1", OTHER="1"))


@pytest.mark.parametrize("name", ["CEMS_HOME", "CLAUDE_CONFIG_DIR"])
def test_a_folder_of_a_user_who_does_not_exist_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingsError, match="does not exist"):
        load(env(tmp_path) | {name: "~nobody-of-this-name/x"})


@pytest.mark.parametrize(
    "text", ['[observer]\nclaude_config_dir = "/a\\u0000b"\n', "[log]\nlevel = " + "[" * 5000 + "]" * 5000]
)
def test_a_file_of_rubbish_is_refused(tmp_path: Path, text: str) -> None:
    write(tmp_path, text)
    with pytest.raises(SettingsError):
        load(env(tmp_path))


@pytest.mark.parametrize(("file", "read"), [("machine-id", machine_id), ("redaction-key", redaction_key)])
@pytest.mark.parametrize("content", [b"", b"rubbish\n", b"\xff\xfe", b"ab" * 31])
def test_what_is_made_once_is_refused_when_it_is_broken(
    tmp_path: Path, file: str, read: Callable[[Path], object], content: bytes
) -> None:
    first = read(tmp_path)
    assert read(tmp_path) == first
    (tmp_path / file).write_bytes(content)
    with pytest.raises(SettingsError, match=file):
        read(tmp_path)
