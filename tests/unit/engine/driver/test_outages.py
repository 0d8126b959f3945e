"""Stores that do not answer for a while: what is committed, and what time passes."""

import errno
import os
from dataclasses import replace

import pytest

from fulmen import TopologyBuilder
from fulmen.checkpoint import Store
from fulmen.checkpoint.log import CommitLog
from fulmen.engine.batches.done import Done, LastBatch
from fulmen.engine.driver.checkpoints.committer import CommitWriter
from fulmen.engine.driver.checkpoints.savepoints import SavepointKeeper
from fulmen.engine.driver.clocks import Clocks
from fulmen.engine.driver.observer import Silent as SilentObserver
from fulmen.engine.driver.stop import Stop
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.limits import LIMITS
from fulmen.errors import CheckpointError, Denied, Unreachable
from fulmen.kube.contract.reports import DriverPhase
from fulmen.kube.driver.reporting import report_of
from fulmen.testing import ListSpout, ManualClock
from support.parts.hooks import HookBasicBolt, HookBolt, hooks
from support.runs.engine_runs import Steady, make_driver, new_store, state_of

OUTAGE_SECONDS = 60.0
KEEPER = SavepointKeeper(new_store(), print, lambda: 0.0)


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
            if self.failing.get(verb, 0) and not str(key).startswith("savepoints/"):
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
    return Done(header, [], 0.1, (), LastBatch(number, header.tag), commits=commits)


@pytest.mark.parametrize(("failures", "least"), [(0, 0.0), (1, 60.0), (3, 180.0)])
def test_a_commit_says_for_how_long_the_store_did_not_answer(
    clock, backend, store, failures, least
):
    log = CommitLog(store, "outages", "me")
    log.claim()
    notes = []
    committer = CommitWriter(log, notes.append, Clocks(clock, clock.advance, clock), KEEPER)
    backend.failing["put"] = failures
    number = log.manifest.number + 1
    outage = committer.commit(done(number, commits=True))
    committer.close()
    assert least <= outage <= least + 5
    assert len(notes) == (failures + 1 if failures else 0)
    assert log.manifest.number == number


def test_a_commit_that_the_store_itself_repeats_takes_its_time(clock, store, monkeypatch):
    log = CommitLog(store, "outages", "me")
    log.claim()
    committer = CommitWriter(log, print, Clocks(clock, clock.advance, clock), KEEPER)
    commit = log.commit
    monkeypatch.setattr(log, "commit", lambda draft: (clock.advance(45), commit(draft)))
    assert committer.commit(done(log.manifest.number + 1, commits=True)) == 45.0
    committer.close()


def test_a_batch_without_a_commit_waits_for_nothing_but_a_look_now_and_then(clock, backend, store):
    log = CommitLog(store, "outages", "me")
    log.claim()
    notes = []
    committer = CommitWriter(log, notes.append, Clocks(clock, clock.advance, clock), KEEPER)
    assert committer.commit(done(2, commits=False)) == 0.0
    clock.advance(LIMITS.check_seconds)
    backend.failing["list"] = 1
    assert committer.commit(done(2, commits=False)) == OUTAGE_SECONDS
    assert len(notes) == 1
    assert committer.outage.since == LIMITS.check_seconds + OUTAGE_SECONDS
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
    driver = driver.start()
    driver.step()
    backend.failing[verb] = 3  # commits, or looks who holds the checkpoint
    clock.advance(LIMITS.check_seconds)
    driver.coordinator.clock.stand_still(LIMITS.check_seconds)
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
    driver = make_driver(builder, store=store, clock=clock, jobs=Steady(clock, store=store)).start()
    for _ in range(3):
        driver.step()
    assert len(state_of(driver, "count")) == 100
    store.delete(store.list(""))
    driver.jobs.start(driver.placed)  # other processes, which have no state
    backend.failing["list"] = 1  # whether there is a newer commit
    assert not driver.step()
    assert driver.totals.failed_attempts == 1
    with pytest.raises(CheckpointError, match="there is no 'commits/"):
        driver.step()
    driver.close()


# ---- rights that are taken away, and given back ----------------------------------------------


def counting(values=100, text=""):
    """Counts numbers, and keeps a text with each count."""

    def keep(bolt, tup, collector):
        bolt.state[tup[0]] = (bolt.state.get(tup[0], (0,))[0] + 1, text + str(tup[0]))

    builder = TopologyBuilder(name="outages", max_spout_pending=10)
    builder.set_spout("source", ListSpout([n % 10 for n in range(values)]))
    bolt = builder.set_bolt("count", HookBasicBolt).set_config(hooks(execute=keep))
    bolt.shuffle_grouping("source")
    return builder


def counts(driver):
    return {key: value[0] for key, value in state_of(driver, "count").items()}


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_a_checkpoint_that_can_t_be_written_for_a_while(clock, tmp_path, monkeypatch, number):
    store = Store.open(f"{tmp_path.as_uri()}?fsync=false")
    notes, failures = [], 50
    observer = SilentObserver()
    observer.note = notes.append
    jobs = Steady(clock, store=store)
    driver = make_driver(counting(), store=store, clock=clock, jobs=jobs, observer=observer).start()
    driver.step()
    link = os.link

    def fail(*names):
        nonlocal failures
        if failures:
            failures -= 1
            raise OSError(number, os.strerror(number))
        link(*names)

    monkeypatch.setattr(os, "link", fail)
    driver.run(Stop(when_drained=True))
    driver.close()
    assert failures == 0
    assert len(notes) == 4 + 1  # one a minute
    assert notes[-1] == "the checkpoint answers again"
    assert counts(driver) == dict.fromkeys(range(10), 10)
    assert driver.totals.failed_attempts == 0


class Denying:
    """The store's backend in other processes, which for some calls may not do what it is asked to.

    Attributes:
        failing: Verb -> how many calls of it are still to fail.
    """

    def __init__(self, backend):
        self.backend = backend
        self.failing = {}

    def __getattr__(self, verb):
        def call(key, *args):
            if self.failing.get(verb, 0) and not str(key).startswith("savepoints/"):
                self.failing[verb] -= 1
                raise Denied("memory://x", str(key), "permission denied.")
            return getattr(self.backend, verb)(key, *args)

        return call


@pytest.fixture
def denied(clock, backend, store):
    """A driver of which workers have a client of the store of their own, and that client."""
    workers = Denying(backend)
    jobs = Steady(clock, store=Store(store.uri, workers))
    driver = make_driver(counting(text="x" * 10_000), store=store, clock=clock, jobs=jobs).start()
    return driver, workers


@pytest.mark.parametrize("verb", ["put", "get"])
def test_workers_that_may_not_use_the_store_any_more_are_waited_for(denied, verb):
    driver, workers = denied
    while not len(state_of(driver, "count")):
        driver.step()
    driver.jobs.start(driver.placed)  # other processes: they read, and were never seen to write
    workers.failing[verb] = 20
    driver.run(Stop(when_drained=True))
    assert counts(driver) == dict.fromkeys(range(10), 10)
    assert driver.totals.failed_attempts == 20
    assert "permission denied. Trying again; it is so since" in driver.totals.last_failure


def test_workers_that_never_could_use_the_store_end_the_driver(denied):
    driver, workers = denied
    workers.failing["get"] = workers.failing["put"] = 1
    with pytest.raises(CheckpointError, match="permission denied"):
        driver.run(Stop(when_drained=True))
    assert driver.totals.batches == 0


def test_a_driver_that_may_not_write_where_others_could_is_to_be_tried_again(backend, store):
    refusing = Denying(backend)
    other = Store("memory://outages", refusing)
    refusing.failing["put"] = 2
    with pytest.raises(Denied):
        CommitLog(other, "outages", "me").claim()
    CommitLog(store, "outages", "other").claim()
    log = CommitLog(other, "outages", "me")
    with pytest.raises(Unreachable, match="permission denied"):
        log.claim()
    assert log.claim().epoch == 2


def test_an_outage_of_some_seconds_is_told_until_it_is_over(clock, backend, store):
    now = 1e9
    told, reasons = [], []

    class Noting(SilentObserver):
        def note(self, text):
            nonlocal now
            told.append(running.recovery.outage)
            report = report_of(running, DriverPhase.ACTIVE, 1, [0], {}, "driver", "")
            reasons.append(report.outage and report.outage.reason)
            now += 2

    jobs = Steady(clock, store=store)
    driver = make_driver(counting(), store=store, clock=clock, jobs=jobs, observer=Noting())
    driver.clocks = replace(driver.clocks, wall=lambda: now)
    running = driver.start()
    backend.failing["put"] = 4
    running.step()
    assert [outage and outage.since for outage in told] == [None, None, None, 1e9, None]
    assert told[3].sentence.startswith("the checkpoint is away since 2001-09-09 01:46:40 UTC: ")
    assert "no answer" in told[3].sentence
    assert reasons == [None, None, None, "CheckpointUnreachable", None]
