"""Files and folders in places where others may write, too."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fulmen.own_files import (
    PrivateFolder,
    kept_folder,
    open_own_folder,
    refuse_of_others,
    remove_leftovers,
    written_whole,
)

OTHER = 4321
"""The id of another user."""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may make another user's files")


@pytest.fixture
def shared():
    """A folder in which anybody may write, as /tmp is one."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o1777)
        yield folder


@pytest.fixture
def as_user():
    """This process as an ordinary user, to whom root's files are no better than others'."""
    if os.geteuid() == 0:
        os.seteuid(1234)
        yield
        os.seteuid(0)
    else:
        yield


# ---- a folder for one process --------------------------------------------------------------------


def test_a_folder_is_private_and_gone_after_close(tmp_path):
    folder = PrivateFolder("code", tmp_path)
    assert folder.path.parent == tmp_path
    assert folder.path.stat().st_mode & 0o777 == 0o700
    (folder.path / "sub").mkdir()
    (folder.path / "sub" / "file").touch()
    folder.close()
    folder.close()
    assert list(tmp_path.iterdir()) == []


def test_two_do_not_disturb_each_other(tmp_path):
    first, second = PrivateFolder("code", tmp_path), PrivateFolder("code", tmp_path)
    assert first.path.is_dir()
    first.close()
    assert second.path.is_dir()
    second.close()


KILLED = """
import fcntl, os, signal, sys
from pathlib import Path
from fulmen.own_files import PrivateFolder
if sys.argv[2] == "unlocked":
    fcntl.flock = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
folder = PrivateFolder("code", Path(sys.argv[1]))
(folder.path / "file").touch()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("moment", ["unlocked", "locked"])
def test_the_folder_of_a_killed_process_is_removed_by_the_next(tmp_path, moment):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", KILLED, str(tmp_path), moment]
    killed = subprocess.run(command, env=environment, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 1
    with PrivateFolder("work", tmp_path) as folder:
        assert list(tmp_path.iterdir()) == [folder.path]


def test_two_may_remove_the_same_folders_at_once(tmp_path):
    for number in (1, 2):
        (tmp_path / f"fulmen-code-{number:016}").mkdir()

    class Found(type(tmp_path)):
        def glob(self, pattern):
            first, second = sorted(super().glob(pattern))
            shutil.rmtree(first)  # the other one's doing
            return [first, second]

    remove_leftovers(Found(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_ours_is_left_alone(tmp_path):
    name = "fulmen-code-0123456789abcde"
    (tmp_path / "kept").mkdir()
    (tmp_path / "fulmen-code-examples").mkdir()
    (tmp_path / f"{name}1").symlink_to(tmp_path / "kept")
    (tmp_path / f"{name}2").touch()
    PrivateFolder("code", tmp_path).close()
    assert len(list(tmp_path.iterdir())) == 4


@needs_root
def test_the_folder_of_another_user_is_left_alone(tmp_path):
    folder = tmp_path / "fulmen-code-0123456789abcdef"
    folder.mkdir()
    os.chown(folder, OTHER, -1)
    remove_leftovers(tmp_path)
    assert folder.exists()


def test_a_folder_taken_for_a_leftover_while_it_is_made_is_made_again(tmp_path, monkeypatch):
    lock = fcntl.flock
    removed = []

    def remove_first(descriptor, operation):
        if operation == fcntl.LOCK_SH and not removed:
            (path,) = tmp_path.glob("fulmen-*")
            removed.append(path)
            path.rmdir()
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    with PrivateFolder("code", tmp_path) as folder:
        assert folder.path.is_dir()
        assert folder.path not in removed


# ---- a folder that stays -------------------------------------------------------------------------


def test_a_folder_of_ours_is_made_and_others_can_not_enter(tmp_path):
    (tmp_path / "runs").mkdir(mode=0o777)
    for path in (tmp_path / "runs", tmp_path / "new" / "runs"):
        os.close(open_own_folder(path))
        assert path.stat().st_mode & 0o777 == 0o700


def _made_by_another(shared):
    (shared / "runs").mkdir(mode=0o777)
    os.chown(shared / "runs", OTHER, -1)


def _linked_by_another(shared):
    (shared / "ours").mkdir()
    (shared / "runs").symlink_to(shared / "ours")
    os.lchown(shared / "runs", OTHER, -1)


def _way_by_another(shared):
    (shared / "way").mkdir(mode=0o777)
    (shared / "way" / "runs").mkdir()
    os.chown(shared / "way", OTHER, -1)


@needs_root
@pytest.mark.parametrize(
    ("make", "name"),
    [(_made_by_another, "runs"), (_linked_by_another, "runs"), (_way_by_another, "way/runs")],
)
def test_a_folder_that_somebody_else_has_put_there_is_refused(shared, make, name):
    make(shared)
    before = sorted(shared.rglob("*"))
    with pytest.raises(PermissionError, match=f"belongs to the user with the id {OTHER}"):
        os.close(open_own_folder(shared / name))
    assert sorted(shared.rglob("*")) == before


def test_a_folder_where_anybody_may_replace_it_is_refused(shared):
    shared.chmod(0o777)
    with pytest.raises(PermissionError, match="in which anybody may replace it"):
        os.close(open_own_folder(shared / "runs"))


@needs_root
def test_in_a_place_that_is_named_rights_are_not_looked_at_but_whose_a_folder_is(shared):
    """A volume of a pod is for everybody, and nobody else is there."""
    shared.chmod(0o777)
    made = kept_folder("state", "mine", shared)
    assert made.stat().st_mode & 0o777 == 0o700
    others = shared / kept_folder("state", "other", shared / "elsewhere").name
    others.mkdir()
    os.chown(others, OTHER, -1)
    with pytest.raises(PermissionError, match=f"belongs to the user with the id {OTHER}"):
        kept_folder("state", "other", shared)


def test_what_root_has_put_on_the_way_is_trusted(shared, as_user):
    refuse_of_others(shared / "runs")  # pytest's folder is in /tmp


# ---- a file as a whole ---------------------------------------------------------------------------


def test_a_file_is_written_as_a_whole_or_not_at_all(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "link").symlink_to("file")
    with written_whole(tmp_path / "link") as into:
        into.write(b"new")
        into.flush()
        assert (tmp_path / "file").read_bytes() == b"old"
    assert (tmp_path / "file").read_bytes() == b"new"
    with pytest.raises(KeyError), written_whole(tmp_path / "file") as into:
        raise KeyError
    assert (tmp_path / "file").read_bytes() == b"new"
    assert {path.name for path in tmp_path.iterdir()} == {"file", "link"}


@needs_root
def test_no_file_is_written_through_the_link_of_another_user(shared):
    (shared / "ours").write_bytes(b"old")
    (shared / "report").symlink_to(shared / "ours")
    os.lchown(shared / "report", OTHER, -1)
    with pytest.raises(PermissionError), written_whole(shared / "report") as into:
        into.write(b"new")
    assert (shared / "ours").read_bytes() == b"old"
