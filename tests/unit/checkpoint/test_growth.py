"""What a run leaves behind, as soaks/growth.py measures it, and without a collector."""

import os
from unittest import mock

import pytest

from fulmen import TopologyBuilder
from fulmen.checkpoint import Store
from fulmen.checkpoint.garbage import Garbage
from fulmen.engine.driver.checkpoints.committer import CommitWriter
from support.parts.hooks import HookBasicBolt, HookSpout, hooks
from support.runs.engine_runs import make_driver
from support.soaks.growth import (
    SETTLED_COMMITS,
    check_cleared,
    check_growth,
    check_shuffles,
    left_behind,
)

COMMITS = 250


def next_tuple(spout):
    spout.n = getattr(spout, "n", 0) + 1
    spout.collector.emit([spout.n], msg_id=spout.n)


def execute(bolt, tup, collector):
    bolt.state[tup[0] % 50] = tup[0]
    bolt.ballast = os.urandom(100_000) if tup[0] % 20 == 0 else b""


def ran(checkpoint, commits=COMMITS):
    """A driver that has made so many commits, or some more."""
    builder = TopologyBuilder("growing", max_spout_pending=20)
    builder.set_spout("source", HookSpout).set_config(hooks(next_tuple=next_tuple))
    bolt = builder.set_bolt("bolt", HookBasicBolt, 2).set_config(hooks(execute=execute))
    bolt.shuffle_grouping("source")
    with mock.patch.object(
        CommitWriter, "collect", CommitWriter._collect_quietly
    ):  # in this thread
        driver = make_driver(builder, store=Store.open(checkpoint)).start()
        while driver.log.manifest.number < commits:
            driver.step()
        driver.close()


@pytest.fixture
def checkpoint(tmp_path):
    return (tmp_path / "checkpoint").as_uri()


@pytest.mark.slow
def test_a_long_run_leaves_nothing_behind_that_nobody_needs(checkpoint):
    ran(checkpoint)
    check_growth(checkpoint)
    check_cleared(checkpoint)


@pytest.mark.slow
def test_a_run_whose_collector_does_nothing_is_found(checkpoint):
    with mock.patch.object(Garbage, "collect", return_value=0):
        ran(checkpoint)
        found = left_behind(checkpoint)
        with pytest.raises(AssertionError):
            check_cleared(checkpoint)
    assert len(found) > COMMITS / 4
    assert {key.split("/")[0] for key in found} == {"commits", "state"}


def test_soon_after_a_claim_it_is_too_early_to_tell(checkpoint):
    ran(checkpoint, commits=SETTLED_COMMITS)
    (told,) = left_behind(checkpoint)
    assert told == f"too early to tell at commit {SETTLED_COMMITS}, claimed at 1"


def test_shuffle_files_that_nobody_deletes_are_found():
    check_shuffles(files=10, made=10)
    check_shuffles(files=500, made=1000)
    with pytest.raises(AssertionError, match="1000 of 1000 files are still there"):
        check_shuffles(files=1000, made=1000)
