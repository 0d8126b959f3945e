"""A checkpoint that somebody deletes while a driver commits to it."""

import pytest

from fulmen import TopologyBuilder
from fulmen.checkpoint.record import MANIFEST_EVERY
from fulmen.errors import CheckpointError, Fenced
from fulmen.testing import ListSpout
from support.parts.hooks import HookBasicBolt, hooks
from support.runs.engine_runs import make_driver, new_store, state_of

FEW, MANY = 10, 12_000
AT_ONCE = 1000


def count(bolt, tup, collector):
    bolt.state[tup[0]] = bolt.state.get(tup[0], 0) + 1


class Forgetful(ListSpout):
    """One that keeps no list of what was acked, of which the beginning is never written anew."""

    def ack(self, msg_id):
        pass


def counting(store, keys):
    """A driver that counts numbers: each key once, and then a few of them again and again."""
    values = [*range(keys), *(n % FEW for n in range(5000))]
    builder = TopologyBuilder(name="counting", max_spout_pending=AT_ONCE)
    builder.set_spout("source", Forgetful(values))
    bolt = builder.set_bolt("count", HookBasicBolt, 2).set_config(hooks(execute=count))
    bolt.global_grouping("source")  # what its keys are by is not noted, once and for all
    return make_driver(builder, store=store).start()


def steps(driver, batches, permit):
    for _ in range(batches):
        driver.coordinator.size.permit = permit
        driver.step()


def loses_its_checkpoint(store, keys, batches):
    """A driver that has counted each key when all is deleted, and makes so many batches more."""
    driver = counting(store, keys)
    while len(state_of(driver, "count")) < keys:
        steps(driver, 1, AT_ONCE)
    store.delete(store.list(""))
    steps(driver, batches, 10)
    return driver


@pytest.mark.parametrize("batches", [1, MANIFEST_EVERY, 2 * MANIFEST_EVERY])
def test_the_next_driver_refuses_what_is_left(batches):
    """However many commits come after it: what was lost is never taken for nothing."""
    store = new_store()
    loses_its_checkpoint(store, MANY, batches).close()
    left = store.list("")
    with pytest.raises(CheckpointError, match="missing"):
        counting(store, MANY).step()
    assert store.list("") == left


def test_a_state_that_was_written_anew_since_is_whole():
    store = new_store()
    driver = loses_its_checkpoint(store, FEW, 3 * MANIFEST_EVERY)
    counted = driver.totals.component("count")["executed"]
    assert sum(state_of(counting(store, FEW), "count").values()) == counted


@pytest.mark.parametrize("batches", [0, 2 * MANIFEST_EVERY])
def test_a_driver_whose_workers_need_what_is_left_gives_up(batches):
    """No tuple is suspected, and nothing is failed."""
    driver = loses_its_checkpoint(new_store(), MANY, batches)
    driver.jobs.start(driver.placed)  # other processes, which have no state
    with pytest.raises(CheckpointError, match="there is no 'commits/"):
        driver.step()
    assert driver.totals.component("source")["failed"] == 0


@pytest.mark.slow
def test_a_driver_that_another_one_has_left_without_its_commits_is_fenced():
    store = new_store()
    driver = counting(store, MANY)
    steps(driver, 3, AT_ONCE)
    successor = counting(store, MANY)
    steps(successor, 300, 100)  # all of the state is written anew
    successor.log.collect()
    driver.jobs.start(driver.placed)
    with pytest.raises(Fenced):
        driver.step()
