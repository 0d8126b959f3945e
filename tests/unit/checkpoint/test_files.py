"""Files: atomic, durable, safe between processes, and nothing left behind."""

import errno
import multiprocessing
import os
import shutil
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from fulmen.checkpoint import Store
from fulmen.errors import AlreadyExists, CheckpointError, Denied, Unreachable
from support.stores.checkpoint import race

HOUR = 3600
NOBODY = 65534


@pytest.fixture
def store(tmp_path):
    return Store.open(str(tmp_path))


def temporary(tmp_path):
    return [path.name for path in (tmp_path / ".tmp").iterdir()]


def test_a_put_leaves_only_the_object(store, tmp_path):
    store.put("a/b", b"x")
    with pytest.raises(AlreadyExists):
        store.put("a/b", b"y")
    assert temporary(tmp_path) == []
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


def test_reading_makes_no_folders(tmp_path):
    store = Store.open(str(tmp_path / "x"))
    assert store.list("") == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_of_many_processes_exactly_one_wins_each_key(tmp_path):
    keys = [f"commits/{number}" for number in range(40)]
    processes = 3
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        runs = [pool.submit(race, str(tmp_path), keys, f"process {n}") for n in range(processes)]
        wins = {n: run.result() for n, run in enumerate(runs)}
    assert Counter(key for won in wins.values() for key in won) == dict.fromkeys(keys, 1)
    store = Store.open(str(tmp_path))
    for n, won in wins.items():
        for key in won:
            assert store.get(key) == f"process {n} {key} ".encode() * 100
    assert store.list("commits/") == sorted(keys)


def test_the_name_appears_only_when_the_bytes_are_durable(store, tmp_path, monkeypatch):
    store.put("a/first", b"")  # the folders are there
    happened = []
    fsync, link = os.fsync, os.link

    def watched_fsync(descriptor):
        happened.append(os.path.relpath(os.readlink(f"/proc/self/fd/{descriptor}"), tmp_path))
        fsync(descriptor)

    def watched_link(source, target):
        happened.append("link")
        link(source, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "link", watched_link)
    store.put("a/b", b"x")
    assert happened[0].startswith(".tmp/")
    assert happened[1:] == ["link", "a"]


def test_new_folders_are_durable_too(tmp_path, monkeypatch):
    synced = []
    fsync = os.fsync

    def watched_fsync(descriptor):
        synced.append(os.path.relpath(os.readlink(f"/proc/self/fd/{descriptor}"), tmp_path))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    Store.open(f"file://{tmp_path}/x/y").put("a", b"")
    assert synced[:3] == [".", "x", "x/y"]  # now x, y and .tmp are known


def test_without_fsync_there_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: pytest.fail("fsync was called"))
    Store.open(f"file://{tmp_path}/x?fsync=false").put("a/b", b"")


def test_leftovers_are_ignored_and_the_old_ones_cleaned(tmp_path):
    Store.open(str(tmp_path)).put("a", b"")
    for name, age in (("old", 2 * HOUR), ("new", 0)):
        path = tmp_path / ".tmp" / name
        path.write_bytes(b"half an obj")
        stamp = path.stat().st_mtime - age
        os.utime(path, (stamp, stamp))
    store = Store.open(str(tmp_path))
    assert store.list("") == ["a"]
    store.put("b", b"")
    assert temporary(tmp_path) == ["new"]
    assert store.list("") == ["a", "b"]


def test_folders_that_somebody_removed_are_made_again(store, tmp_path):
    store.put("a/b", b"")
    (tmp_path / "a" / "b").unlink()
    (tmp_path / "a").rmdir()
    (tmp_path / ".tmp").rmdir()
    store.put("a/b", b"x")
    assert store.get("a/b") == b"x"


def test_a_link_that_nfs_made_twice_is_ours(store, monkeypatch):
    link = os.link

    def answer_lost(source, target):
        link(source, target)
        link(source, target)  # the client asks again

    monkeypatch.setattr(os, "link", answer_lost)
    store.put("a", b"x")
    with pytest.raises(AlreadyExists):
        store.put("a", b"x")


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (
            errno.EACCES,
            "checkpoint {uri}, 'a': permission denied. Give the pod's user write access"
            " (fsGroup, for a volume).",
        ),
        (
            errno.EOPNOTSUPP,
            "checkpoint {uri}, 'a': the file system has no hard links. Use one that does: ext4,"
            " xfs, NFS.",
        ),
        (errno.EROFS, "checkpoint {uri}, 'a': the file system is read-only. Mount it for writing."),
    ],
)
def test_what_will_not_pass_by_itself_is_said_with_the_cure(store, monkeypatch, number, message):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(CheckpointError) as caught:
        store.put("a", b"")
    assert str(caught.value) == message.format(uri=store.uri)
    assert not isinstance(caught.value, Unreachable)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_right_to_write_that_was_there_before_may_come_back(store, monkeypatch, number):
    store.put("first", b"")
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", failing(number))
        with pytest.raises(Unreachable, match=r"permission denied|is read-only"):
            store.put("a", b"x")
    store.put("a", b"x")
    assert store.get("a") == b"x"


def test_a_right_to_write_does_not_follow_from_one_to_read(store, monkeypatch):
    store.put("first", b"")
    reader = Store.open(store.uri)
    assert reader.list("") == ["first"]
    assert reader.get("first") == b""
    monkeypatch.setattr(os, "open", failing(errno.EROFS))
    with pytest.raises(Denied, match=r"'a': the file system is read-only\. Mount it for writing"):
        reader.put("a", b"x")
    monkeypatch.setattr("builtins.open", failing(errno.EACCES))
    with pytest.raises(Unreachable, match="permission denied"):
        reader.get("first")


def failing(number):
    def fail(*_, **__):
        raise OSError(number, os.strerror(number))

    return fail


def test_a_folder_that_can_t_be_written_for_a_while(ordinary_user):
    store = Store.open(str(ordinary_user))
    ordinary_user.chmod(0o555)
    with pytest.raises(Denied, match="permission denied"):
        store.put("commits/1", b"x")
    ordinary_user.chmod(0o755)
    store.put("commits/1", b"x")
    for folder in (ordinary_user / ".tmp", ordinary_user / "commits"):
        folder.chmod(0o555)
        with pytest.raises(Unreachable, match="permission denied"):
            store.put("commits/2", b"x")
        folder.chmod(0o755)
    store.put("commits/2", b"x")
    assert temporary(ordinary_user) == []


@pytest.fixture
def ordinary_user():
    """A folder of this user's, whom permissions concern."""
    folder = Path(tempfile.mkdtemp())
    user = os.geteuid()
    if user == 0:
        os.chown(folder, NOBODY, -1)
        os.seteuid(NOBODY)
    yield folder
    os.seteuid(user)
    shutil.rmtree(folder)


def test_a_full_disk_may_pass(store, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    store.put("first", b"")
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        with pytest.raises(Unreachable) as caught:
            store.put("a", b"x")
    assert str(caught.value) == (
        f"checkpoint {store.uri}: can't tell whether it wrote 'a': No space left on device. Make"
        " room there; then try again, which is safe."
    )
    assert temporary(tmp_path) == []
    store.put("a", b"x")
    assert store.get("a") == b"x"


def test_a_file_where_the_folder_should_be(tmp_path):
    (tmp_path / "x").write_bytes(b"")
    store = Store.open(str(tmp_path / "x"))
    for use in (lambda: store.put("a", b""), lambda: store.get("a"), lambda: store.list("")):
        with pytest.raises(CheckpointError, match="a part of the path is a file"):
            use()
