"""A disk for state that is full or read-only, for real: nothing is lost, and it goes on."""

import shutil

import pytest

from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.engine.keyed.stores import local_store
from support.runs.engine_runs import Kept
from support.stores.disk_states import DiskLife
from support.stores.small_disks import fill, remount, small_disk


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """A small disk, which is used to its last byte."""
    monkeypatch.setattr(local_store, "FREE_BYTES", 0)
    with small_disk(tmp_path / "disk") as folder:
        yield folder


def batches_until_refused(life, expected):
    """Commit batches until the disk refuses one; it is in the checkpoint by then."""
    for batch in range(1000):
        for n in range(20):
            life.state[batch, n] = expected[batch, n] = bytes([n]) * 3000
        life.write_down()
        try:
            life.state.begin_batch("next")
        except ServiceUnavailable as e:
            return str(e)
    raise AssertionError("the disk is never full")


def test_a_full_disk_refuses_and_goes_on_when_there_is_room(disk):
    life, expected = DiskLife(disk / "state", Kept()), {}
    life.state["first"] = expected["first"] = 1
    life.commit()
    ballast = fill(disk)
    told = batches_until_refused(life, expected)
    assert "the disk for state" in told
    assert "No space left on device" in told
    for _ in range(3):  # attempts while it is full
        with pytest.raises(ServiceUnavailable, match="No space left on device"):
            life.restart()
    ballast.unlink()
    life.restart()
    assert dict(life.state.items()) == expected
    life.state["last"] = expected["last"] = 2
    life.commit()
    life.restart(lost=True)
    assert dict(life.state.items()) == expected
    life.state.close()


def test_a_disk_that_fills_while_a_state_is_loaded_is_no_loss(disk):
    life, expected = DiskLife(disk / "state", Kept()), {}
    for batch in range(4):
        for n in range(300):
            life.state[batch, n] = expected[batch, n] = f"{batch} {n} " * 60
        life.commit()
    life.state.close()
    shutil.rmtree(life.folder)
    ballast = fill(disk)
    for _ in range(2):
        with pytest.raises(ServiceUnavailable, match="No space left on device"):
            life.open()
    ballast.unlink()
    life.open()
    assert dict(life.state.items()) == expected
    life.state.close()


def test_a_read_only_disk_refuses_and_goes_on_when_it_is_writable(disk):
    life = DiskLife(disk / "state", Kept())
    life.state["key"] = 1
    life.commit()
    life.state["key"] = 2
    life.write_down()
    life.state.close()
    remount(disk, "ro")
    for _ in range(2):
        with pytest.raises(ServiceUnavailable, match="Read-only file system"):
            life.open()
    remount(disk, "rw")
    life.open()
    assert life.state["key"] == 2
    life.state.close()
