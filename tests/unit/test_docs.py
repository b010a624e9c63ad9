"""The documents: what is generated is current, links hold, and what they name exists."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from cems.cli import cli
from cems.settings import environment_name, fields
from tests import docs_files

ROOT = docs_files.FOLDER.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *docs_files.FOLDER.glob("*.md")])
NOT_SETTINGS = {"CEMS_SHARED", "CEMS_TEST_MODEL_DIR"}


@pytest.mark.parametrize("name", docs_files.FILES)
def test_what_is_generated_is_current(name: str) -> None:
    assert (docs_files.FOLDER / name).read_text() == docs_files.FILES[name](), "run `make docs`"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_links_hold(path: Path) -> None:
    for target in docs_files.links(path.read_text()):
        file, _, anchor = target.partition("#")
        at = (path.parent / file) if file else path
        assert at.exists(), f"{path.name} links to {target}"
        if anchor:
            assert anchor in docs_files.anchors(at.read_text()), f"{path.name} links to {target}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_settings_that_are_named_exist(path: Path) -> None:
    known = {environment_name(field) for field in fields()} | NOT_SETTINGS
    for name in re.findall(r"\bCEMS_[A-Z][A-Z_]*[A-Z]\b(?!\*)", path.read_text()):
        assert name in known or any(k.startswith(name + "_") for k in known), f"{path.name} names {name}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_commands_that_are_named_exist(path: Path) -> None:
    for words in re.findall(r"`cems ([a-z][^`]*)`", path.read_text()):
        command: click.Command | None = cli
        for word in words.split():
            if not isinstance(command, click.Group) or not re.fullmatch(r"[a-z-]+", word):
                break
            command = command.get_command(click.Context(command), word)
            assert command is not None, f"{path.name} names `cems {words}`"
        for option in re.findall(r"--[a-z-]+", words):
            assert command is not None
            known = {o for p in command.params for o in (*p.opts, *p.secondary_opts)} | {"--help"}
            assert option in known, f"{path.name} names `cems {words}`"
