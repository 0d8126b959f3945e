import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fulmen.engine.jvm.workdir import LONGEST_PATH, WorkDir, remove_leftovers
from fulmen.errors import FulmenError


@pytest.fixture
def parent():
    """A folder with a short path."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


def test_a_work_folder_is_private_and_gone_after_close(parent):
    folder = WorkDir(parent)
    assert folder.path.parent == parent
    assert folder.path.stat().st_mode & 0o777 == 0o700
    (folder.path / "sub").mkdir()
    (folder.path / "sub" / "file").touch()
    folder.close()
    folder.close()
    assert list(parent.iterdir()) == []


def test_two_do_not_disturb_each_other(parent):
    first, second = WorkDir(parent), WorkDir(parent)
    assert first.path.is_dir()
    first.close()
    assert second.path.is_dir()
    second.close()


KILLED = """
import os, signal, sys
from pathlib import Path
from fulmen.engine.jvm.workdir import WorkDir
folder = WorkDir(Path(sys.argv[1]))
(folder.path / "file").touch()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_folder_of_a_killed_process_is_removed_by_the_next(parent):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", KILLED, str(parent)], env=environment, check=False)
    assert len(list(parent.iterdir())) == 1
    folder = WorkDir(parent)
    assert list(parent.iterdir()) == [folder.path]
    folder.close()


def test_two_may_remove_the_same_folders_at_once(parent):
    for name in ("fulmen-1", "fulmen-2"):
        (parent / name).mkdir()
        (parent / name / "lock").touch()

    class Found(type(parent)):
        def glob(self, pattern):
            first, second = sorted(super().glob(pattern))
            shutil.rmtree(first)  # the other one's doing
            return [first, second]

    remove_leftovers(Found(parent))
    assert list(parent.iterdir()) == []


def test_folders_that_are_not_ours_are_left_alone(parent):
    (parent / "fulmen-notes").mkdir()
    (parent / "fulmen-link").symlink_to("/etc")
    (parent / "fulmen-file").touch()
    WorkDir(parent).close()
    assert len(list(parent.iterdir())) == 3


def test_a_path_too_long_for_sockets_is_refused(tmp_path):
    deep = tmp_path / ("x" * LONGEST_PATH)
    with pytest.raises(FulmenError, match=re.escape(f"'{deep}' is too long a path")):
        WorkDir(deep)


def test_a_work_folder_can_be_made_in_the_default_place():
    folder = WorkDir()
    assert folder.path.is_dir()
    folder.close()
    assert not folder.path.exists()


def test_a_folder_taken_for_abandoned_while_it_is_made_is_made_again(parent, monkeypatch):
    lock = fcntl.flock
    removed = []

    def remove_first(descriptor, operation):
        if operation == fcntl.LOCK_EX and not removed:
            (path,) = parent.glob("fulmen-*")
            removed.append(path)
            (path / "lock").unlink()
            path.rmdir()
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    folder = WorkDir(parent)
    assert folder.path.is_dir()
    assert folder.path not in removed
    folder.close()
