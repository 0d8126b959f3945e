"""What git says that a working copy changes."""

import os
import subprocess

import pytest

from support.suite.changed_files import changed_files, texts


def git(folder, *arguments):
    names = {
        f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    own = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env=os.environ | names | own,
        check=True,
        capture_output=True,
    )


def commit(folder, **files):
    for name, text in files.items():
        (folder / name).write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--message", "change")


@pytest.fixture
def copy(tmp_path):
    """A repository with one commit on its main branch."""
    git(tmp_path, "init", "--initial-branch", "main")
    commit(tmp_path, kept="1", edited="1", deleted="1")
    return tmp_path


def test_nothing_is_changed_in_a_fresh_clone(copy, tmp_path_factory):
    clone = tmp_path_factory.mktemp("clone")
    git(clone, "clone", str(copy), ".")
    assert changed_files(clone) == set()


def test_what_is_not_committed_is_changed_and_so_is_what_git_does_not_know(copy):
    (copy / ".git/info/exclude").write_text("ignored\n")
    (copy / "edited").write_text("2")
    (copy / "deleted").unlink()
    (copy / "ignored").touch()
    (copy / "übrig file").touch()
    (copy / "staged").touch()
    git(copy, "add", "staged")
    assert changed_files(copy) == {"edited", "deleted", "übrig file", "staged"}


def test_commits_of_a_branch_are_changes_and_later_ones_of_main_are_not(copy):
    git(copy, "switch", "--create", "topic")
    git(copy, "mv", "kept", "moved")
    commit(copy, edited="2")
    git(copy, "switch", "main")
    commit(copy, later="1")
    git(copy, "switch", "topic")
    assert changed_files(copy) == {"edited", "kept", "moved"}


def test_commits_of_main_are_changes_until_they_are_pushed(copy, tmp_path_factory):
    clone = tmp_path_factory.mktemp("clone")
    git(clone, "clone", str(copy), ".")
    commit(clone, edited="2")
    assert changed_files(clone) == {"edited"}
    git(copy, "switch", "--detach")
    git(clone, "push")
    assert changed_files(clone) == set()


def test_without_git_nobody_knows(tmp_path, monkeypatch):
    assert changed_files(tmp_path) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert changed_files(tmp_path) is None


def test_texts_are_those_of_files_that_are_there_and_not_ignored(copy):
    (copy / ".git/info/exclude").write_text("ignored\n")
    (copy / "deleted").unlink()
    (copy / "ignored").touch()
    (copy / "new").write_text("é")
    (copy / "picture").write_bytes(b"\x89PNG\0")
    (copy / "link").symlink_to("folder")
    assert texts(copy) == {"kept": "1", "edited": "1", "new": "é", "picture": ""}
