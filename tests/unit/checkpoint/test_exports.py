"""Savepoints that are copied to another place, and into an empty checkpoint."""

import resource
import shutil
from collections import Counter

import pytest

from fulmen.checkpoint import CommitLog, Store, load_many
from fulmen.checkpoint.savepoints.exports import copy_objects, export, opened
from fulmen.checkpoint.savepoints.pins import PINS, Pin, pins_section
from fulmen.errors import CheckpointError
from support.stores.checkpoint import FakeClock, memory_store, saved

BIG = b"b" * 70_000


@pytest.fixture
def store(tmp_path):
    return Store.open(f"file://{tmp_path}/checkpoint?fsync=false")


@pytest.fixture
def expected(store):
    """What the savepoint `here` has of tasks; the checkpoint has gone on since."""
    log = CommitLog(store, "shop", "a driver", clock=FakeClock())
    log.claim()

    def commit(changes, **more):
        tag = f"t{log.manifest.number}"
        updates = saved(store, log.manifest.number + 1, tag, changes)
        log.commit(log.draft(tag=tag, clock=1.5, updates=updates, **more))

    commit([("a/0", "s", BIG, 0), ("a/0", "t", b"small", 0)])
    commit([("a/0", "t", b"more", 0)], transient={"deliveries": b"owed"})
    expected = load_many(store, log.manifest, ["a/0"])
    pins = {"here": Pin(log.manifest.number + 1, 5.0, "a reason", "me")}
    commit([("a/0", "s", b"later", 4)], sections={PINS: pins_section(pins)}, full=True)
    commit([], removed_tasks=["a/0"])
    return expected


@pytest.fixture(params=["folder", "file.tar"])
def target(request, tmp_path, store, expected):
    where = str(tmp_path / request.param)
    assert export(store, "here", where) > len(BIG)
    shutil.rmtree(tmp_path / "checkpoint")  # nothing of it is needed any more
    return where


def test_an_export_holds_the_same_bytes_as_its_savepoint(target, expected, tmp_path):
    with opened(target) as savepoint:
        assert (savepoint.name, savepoint.pin.why) == ("here", "a reason")
        assert savepoint.manifest.transient == {"deliveries": b"owed"}
        other = memory_store()
        copy_objects(savepoint, other)
        assert load_many(other, savepoint.manifest, ["a/0"]) == expected
    assert expected["a/0"]["t"] == [b"small", b"more"]


def test_a_savepoint_in_a_checkpoint_is_named_behind_its_uri(store, expected):
    with opened(f"{store.uri}#here") as savepoint:
        other = memory_store()
        copy_objects(savepoint, other)
        assert load_many(other, savepoint.manifest, ["a/0"]) == expected


def test_a_copy_that_was_cut_off_goes_on(target, expected):
    with opened(target) as savepoint:
        keys = savepoint.objects
        assert len(keys) > 2
        for done in range(len(keys) + 1):
            other = memory_store()
            for key in keys[:done]:
                other.put(key, savepoint.read(key))
            copy_objects(savepoint, other)
            assert load_many(other, savepoint.manifest, ["a/0"]) == expected


def test_nothing_is_copied_into_a_checkpoint_of_others(target):
    other = memory_store()
    CommitLog(other, "other", "a driver").claim()
    before = other.list("")
    with opened(target) as savepoint, pytest.raises(CheckpointError) as caught:
        copy_objects(savepoint, other)
    assert str(caught.value) == (
        f"checkpoint memory://test is not empty, so {target} can't be restored into it. Give the"
        " topology a checkpoint of its own (spec.checkpoint)."
    )
    assert other.list("") == before


def test_a_changed_byte_of_an_export_is_noticed(store, expected, tmp_path):
    target = tmp_path / "folder"
    export(store, "here", str(target))
    for path in sorted(path for path in target.rglob("*") if path.is_file()):
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(CheckpointError, match="is damaged"), opened(str(target)) as savepoint:
            copy_objects(savepoint, memory_store())
        path.unlink()
        missing = r"missing|there is no 'savepoint\.json'"
        with pytest.raises(CheckpointError, match=missing), opened(str(target)) as savepoint:
            copy_objects(savepoint, memory_store())
        path.write_bytes(whole)


def test_an_archive_that_was_cut_off_says_so_and_nothing_else_is_raised(store, expected, tmp_path):
    path = tmp_path / "x.tar"
    export(store, "here", str(path))
    whole, told = path.read_bytes(), Counter()
    end = whole.rindex(b'"objects"')
    for length in range(0, end, end // 40):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError) as caught, opened(str(path)) as savepoint:
            copy_objects(savepoint, memory_store())
        told["cut off" in str(caught.value)] += 1
    assert told[True] > 5


def test_an_archive_that_the_disk_does_not_take_is_told_and_not_left(store, expected, tmp_path):
    with pytest.raises(CheckpointError, match="can't be written: No such file or directory"):
        export(store, "here", str(tmp_path / "nowhere" / "x.tar"))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600, before[1]))
    try:
        with pytest.raises(CheckpointError, match="can't be written: File too large"):
            export(store, "here", str(tmp_path / "x.tar"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not (tmp_path / "x.tar").exists()


def test_nothing_is_exported_over_something_else(store, expected, tmp_path):
    (tmp_path / "x.tar").write_bytes(b"mine")
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "mine").write_bytes(b"mine")
    for target, message in [("x.tar", "exists"), ("x", "is not empty")]:
        with pytest.raises(CheckpointError, match=message):
            export(store, "here", str(tmp_path / target))
    assert (tmp_path / "x.tar").read_bytes() == b"mine"
    assert [path.name for path in (tmp_path / "x").iterdir()] == ["mine"]


def test_a_savepoint_that_does_not_exist_is_told_with_those_that_do(store, expected, tmp_path):
    with pytest.raises(CheckpointError) as caught:
        export(store, "there", str(tmp_path / "x"))
    assert str(caught.value).endswith("there is no savepoint 'there'. Savepoints: here.")
