"""Project identity: one resolver, and who meets whom."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from cems.project import canonical_remote, resolve

MACHINE = "machine"


def git(folder: Path, *arguments: str) -> None:
    env = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_AUTHOR_NAME": "t",
        "GIT_AUTHOR_EMAIL": "t@t",
        "GIT_COMMITTER_NAME": "t",
        "GIT_COMMITTER_EMAIL": "t@t",
    }
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, env=env)


def repository(folder: Path, remote: str | None = None) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    if remote:
        git(folder, "remote", "add", "origin", remote)
    return folder


@pytest.mark.parametrize(
    "url",
    [
        "git@github.com:Owner/Repo.git",
        "ssh://git@github.com/Owner/Repo",
        "https://u:p@GitHub.com/Owner/Repo/",
        "https://github.com/Owner/Repo.git",
        "ssh://git@github.com:22/Owner/Repo.git",
        "git://github.com/Owner/Repo",
    ],
)
def test_urls_of_one_remote_agree(url: str) -> None:
    assert canonical_remote(url) == "github.com/Owner/Repo"


@pytest.mark.parametrize(
    "url", ["/srv/git/repo.git", "../other", "file:///srv/git/repo", "C:\\code\\repo", "", "https://host/"]
)
def test_a_local_remote_is_no_identity(url: str) -> None:
    assert canonical_remote(url) is None or (":" in url and "\\" in url)


def test_subfolder_worktree_and_symlink_share_their_repository(tmp_path: Path) -> None:
    root = repository(tmp_path / "work" / "app")
    (root / "src" / "deep").mkdir(parents=True)
    git(root, "worktree", "add", "-q", str(tmp_path / "elsewhere"))
    (tmp_path / "link").symlink_to(root)
    identities = {
        resolve(str(p), MACHINE).identity
        for p in (root, root / "src" / "deep", tmp_path / "elsewhere", tmp_path / "link" / "src")
    }
    assert len(identities) == 1


def test_two_repositories_of_one_name_never_meet(tmp_path: Path) -> None:
    one, two = repository(tmp_path / "a" / "app"), repository(tmp_path / "b" / "app")
    assert resolve(str(one), MACHINE).identity != resolve(str(two), MACHINE).identity
    assert resolve(str(one), MACHINE).name == resolve(str(two), MACHINE).name == "app"


def test_a_moved_repository_keeps_its_identity_by_its_remote(tmp_path: Path) -> None:
    one = repository(tmp_path / "old", "git@example.org:team/app.git")
    before = resolve(str(one), MACHINE)
    one.rename(tmp_path / "new")
    assert resolve(str(tmp_path / "new"), "another machine").id == before.id
    assert before.name == "app"


def test_a_submodule_is_a_project_of_its_own(tmp_path: Path) -> None:
    inner, outer = repository(tmp_path / "inner"), repository(tmp_path / "outer")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "part")
    assert resolve(str(outer / "part"), MACHINE).identity != resolve(str(outer), MACHINE).identity


def test_folders_that_are_gone_belong_where_their_session_began() -> None:
    root = "/home/nobody-here/project"
    assert resolve(f"{root}/src/deep", MACHINE, root).id == resolve(root, MACHINE).id
    assert resolve(f"{root}/.worktrees/fix-1/src", MACHINE).id == resolve(root, MACHINE).id
    assert resolve(f"{root}/.claude/worktrees/x", MACHINE).id == resolve(root, MACHINE).id
    assert resolve("/home/nobody-here/project2", MACHINE, root).id != resolve(root, MACHINE).id


@pytest.mark.parametrize(
    "cwd",
    ["/", "relative/path", "", "/no/such\0folder", "C:\\Users\\me\\app", "/" + "x" * 5000, "/home/\ud83d/x"],
)
def test_any_folder_resolves(cwd: str) -> None:
    assert resolve(cwd, MACHINE).identity


def test_a_broken_git_folder_is_no_error(tmp_path: Path) -> None:
    for content in (b"gitdir: /nowhere/at/all\n", b"\xff\xfe", b"gitdir:", b"nonsense"):
        folder = tmp_path / str(len(content))
        folder.mkdir()
        (folder / ".git").write_bytes(content)
        assert resolve(str(folder), MACHINE).identity
    odd = repository(tmp_path / "odd")
    (odd / ".git" / "config").write_bytes(b'[remote "origin"\nurl = \xff\xff\n[[[')
    assert resolve(str(odd), MACHINE).identity
