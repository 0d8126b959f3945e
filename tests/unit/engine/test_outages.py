"""Stores that do not answer for a while: what is committed, and what time passes."""

import pytest

from fulmen import TopologyBuilder
from fulmen.checkpoint import Store
from fulmen.checkpoint.log import CommitLog
from fulmen.engine.committing import CHECK_SECONDS, Committer
from fulmen.engine.coordinator import Done
from fulmen.engine.protocol import Header
from fulmen.errors import CheckpointError, Unreachable
from fulmen.testing import ListSpout, ManualClock
from support.engine_runs import Steady, make_driver, new_store, state_of
from support.hooks import HookBasicBolt, HookBolt, hooks

OUTAGE_SECONDS = 60.0


class Silent:
    """A store's backend that answers nothing for some time, so many times.

    Attributes:
        failing: Verb -> how many calls of it are still to fail.
    """

    def __init__(self, backend, clock):
        self.backend, self.clock = backend, clock
        self.failing = {}

    def __getattr__(self, verb):
        def call(key, *args):
            if self.failing.get(verb, 0):
                self.failing[verb] -= 1
                self.clock.advance(OUTAGE_SECONDS)
                raise Unreachable("memory://x", str(key), "no answer", unknown=verb == "put")
            return getattr(self.backend, verb)(key, *args)

        return call


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def backend(clock):
    return Silent(new_store()._backend, clock)


@pytest.fixture
def store(backend):
    return Store("memory://outages", backend)


def done(number, commits):
    header = Header(number, f"tag{number}", "base", 1.0, 1.0, default_permit=1)
    return Done(header, [], 0.1, {}, (), commits=commits, idle=not commits)


@pytest.mark.parametrize(("failures", "least"), [(0, 0.0), (1, 60.0), (3, 180.0)])
def test_a_commit_says_for_how_long_the_store_did_not_answer(
    clock, backend, store, failures, least
):
    log = CommitLog.open(store, "outages", "me")
    log.claim()
    notes = []
    committer = Committer(log, notes.append, clock, clock.advance)
    backend.failing["put"] = failures
    number = log.manifest.number + 1
    outage = committer.commit(done(number, commits=True))
    committer.close()
    assert least <= outage <= least + 5
    assert len(notes) == failures
    assert log.manifest.number == number


def test_a_commit_that_the_store_itself_repeats_takes_its_time(clock, store, monkeypatch):
    log = CommitLog.open(store, "outages", "me")
    log.claim()
    committer = Committer(log, print, clock, clock.advance)
    commit = log.commit
    monkeypatch.setattr(log, "commit", lambda draft: (clock.advance(45), commit(draft)))
    assert committer.commit(done(log.manifest.number + 1, commits=True)) == 45.0
    committer.close()


def test_a_batch_without_a_commit_waits_for_nothing_but_a_look_now_and_then(clock, backend, store):
    log = CommitLog.open(store, "outages", "me")
    log.claim()
    notes = []
    committer = Committer(log, notes.append, clock, clock.advance)
    assert committer.commit(done(2, commits=False)) == 0.0
    clock.advance(CHECK_SECONDS)
    backend.failing["list"] = 1
    assert committer.commit(done(2, commits=False)) == OUTAGE_SECONDS
    assert len(notes) == 1
    assert committer.commit(done(2, commits=False)) == 0.0
    committer.close()


def kept(bolt, tup):
    """Acks a tuple at its fourth tick."""
    if not tup.is_tick():
        bolt.kept.append(tup)
        return
    bolt.ticks += 1
    if bolt.ticks == 4:
        bolt.collector.ack(bolt.kept.pop())


def nothing_yet(bolt):
    bolt.kept, bolt.ticks = [], 0


@pytest.mark.parametrize("verb", ["put", "list"])
def test_trees_do_not_grow_older_while_the_store_is_down(clock, backend, store, verb):
    builder = TopologyBuilder(name="outages", message_timeout_seconds=10)
    builder.set_spout("source", ListSpout([1]))
    bolt = builder.set_bolt("bolt", HookBolt).set_config(hooks(execute=kept, prepare=nothing_yet))
    bolt.shuffle_grouping("source").set_tick_seconds(1)
    driver = make_driver(builder, store=store, clock=clock, jobs=Steady(clock, 0.9, store=store))
    driver.start()
    driver.step()
    backend.failing[verb] = 3  # commits, or looks who holds the checkpoint
    clock.advance(CHECK_SECONDS)
    driver.coordinator.stand_still(CHECK_SECONDS)
    before = clock()
    while driver.totals.trees.acked + driver.totals.trees.timed_out == 0:
        driver.step()
    driver.close()
    assert clock() - before > OUTAGE_SECONDS
    assert backend.failing[verb] < 3
    assert (driver.totals.trees.acked, driver.totals.trees.timed_out) == (1, 0)


# ---- a checkpoint that is damaged, in a store that does not answer -------------------------------


def count(bolt, tup, collector):
    bolt.state[tup[0]] = bolt.state.get(tup[0], 0) + 1


def test_whether_a_checkpoint_is_lost_is_asked_until_there_is_an_answer(clock, backend, store):
    builder = TopologyBuilder(name="outages")
    builder.set_spout("source", ListSpout(range(100)))
    bolt = builder.set_bolt("count", HookBasicBolt).set_config(hooks(execute=count))
    bolt.shuffle_grouping("source")
    driver = make_driver(builder, store=store, clock=clock, jobs=Steady(clock, store=store))
    driver.start()
    for _ in range(3):
        driver.step()
    assert len(state_of(driver, "count")) == 100
    store.delete(store.list(""))
    driver.jobs.start(driver.setup)  # other processes, which have no state
    backend.failing["list"] = 1  # whether there is a newer commit
    assert not driver.step()
    assert driver.totals.attempts_failed == 1
    with pytest.raises(CheckpointError, match="there is no 'commits/"):
        driver.step()
    driver.close()
