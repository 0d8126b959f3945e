"""Whatever dies, and whenever: committed state has each committed emit exactly once in it."""

import itertools
import pickle
import random
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings

from fulmen import ArrowBolt, BasicBolt, Bolt, FailedException, Spout, TopologyBuilder
from fulmen.checkpoint import load_many, read_manifest
from fulmen.checkpoint.garbage import LogLimits
from fulmen.engine.acking.acker_task import restore
from fulmen.engine.driver.checkpoints.committer import CommitWriter
from fulmen.engine.driver.driver import Stop
from fulmen.engine.driver.observer import Silent
from fulmen.engine.protocol.limits import EngineLimits
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.state.messages.pending_messages import PendingMessages
from fulmen.errors import Fenced, Unreachable
from fulmen.testing import ManualClock
from support.lives.chaos import Chaos, DriverDied, chaotic
from support.runs.engine_runs import Steady, make_driver, new_store
from support.suite import seeds

CHANCE = random.Random()
HEARD = []
"""("ack" or "fail", id): what spouts were told, also in attempts that came to nothing."""


def begin(seed):
    CHANCE.seed(seed)
    HEARD.clear()


class DurableSpout(Spout):
    """Emits each position until it is acked; `state` says what was emitted and how it ended."""

    outputs = ("id", "content")

    def open(self, conf, context, collector):
        self.collector = collector
        self.me = context.task_index
        self.limit = conf["tuples"]
        self.position = 0
        self.number = 0
        self.again = []
        self.fails_directly = conf.get("fails_directly", False)

    def next_tuple(self):
        for _ in range(CHANCE.choice((0, 1, 1, 2, 5))):
            if self.again:
                self.emit(self.again.pop(0))
            elif self.position < self.limit:
                self.position += 1
                self.emit(self.position)

    def emit(self, position):
        self.number += 1
        content = CHANCE.choice("abcd")
        tracked = position % 4 != 0
        self.state["emit", self.number] = (position, content, tracked)
        msg_id = (position, self.number) if tracked else None
        self.collector.emit([(self.me, self.number), content], msg_id=msg_id)

    def ack(self, msg_id):
        HEARD.append(("ack", (self.me, msg_id[1])))
        self.count("ack", msg_id[1])

    def fail(self, msg_id, reason):
        HEARD.append(("fail", (self.me, msg_id[1])))
        self.count("fail", msg_id[1])
        if self.fails_directly:
            self.emit(msg_id[0])
        else:
            self.again.append(msg_id[0])

    def count(self, what, number):
        self.state[what, number] = self.state.get((what, number), 0) + 1

    def is_exhausted(self):
        return self.position >= self.limit and not self.again


class Relay(Bolt):
    """Passes tuples on; keeps some of them for later, in a field."""

    outputs = ("id", "content")

    def prepare(self, conf, context, collector):
        self.collector = collector
        self.fails = conf["fails"]
        self.held = []
        self.lock = (x for x in ())  # can't be pickled

    def execute(self, tup):
        if tup.is_tick():
            self.work_off(len(self.held))
            return
        key = tup["id"]
        self.state[key] = self.state.get(key, 0) + 1
        if CHANCE.random() < 0.3:
            self.held.append(tup)
        else:
            self.finish(tup)
        self.work_off(CHANCE.randrange(2))

    def work_off(self, n):
        for _ in range(min(n, len(self.held))):
            self.finish(self.held.pop(0))

    def finish(self, tup):
        self.collector.emit([tup["id"], tup["content"]], anchors=tup)
        if CHANCE.random() < self.fails:
            self.collector.fail(tup, "bad luck")
        else:
            self.collector.ack(tup)


class Sink(BasicBolt):
    def prepare(self, conf, context):
        self.fails = conf["fails"]
        self.total = 0

    def execute(self, tup, collector):
        self.total += 1
        key = tup["id"]
        self.state[key] = (*self.state.get(key, ()), tup["content"])
        if CHANCE.random() < self.fails:
            raise FailedException("sunk")


class ArrowSink(ArrowBolt):
    def execute(self, batch, collector):
        for id, content in zip(batch["id"].to_pylist(), batch["content"].to_pylist(), strict=True):
            key = tuple(id)
            self.state[key] = (*self.state.get(key, ()), content)
        assert isinstance(batch, pa.RecordBatch)


def builder(workers, ackers, tuples, fails, directly, blocking):
    made = TopologyBuilder(
        name="durable", workers=workers, ackers=ackers, message_timeout_seconds=3
    )
    conf = {"tuples": tuples, "fails": fails, "fails_directly": directly}
    made.set_spout("source", DurableSpout, 2).set_config(conf)
    relay = made.set_bolt("relay", Relay, 2).set_num_tasks(3).set_config(conf)
    relay.shuffle_grouping("source").set_tick_seconds(0.5).set_blocking(blocking)
    sink = made.set_bolt("sink", Sink, 2).set_num_tasks(4).set_config(conf)
    sink.fields_grouping("relay", ["content"])
    made.set_bolt("arrow", ArrowSink, 2).set_config(conf).all_grouping("source")
    return made


def world_of(seed):
    """What happens in a world, and how often something fails in it."""
    choose = random.Random(seed)
    return {
        "chaos": Chaos(seed, choose.randint(3, 12), choose.choice((0.02, 0.05, 0.15))),
        "shapes": [
            (choose.randint(1, 3), choose.choice((1, 2, 3, 2, 1, 0)))
            for _ in range(choose.randint(1, 4))
        ],
        "tuples": choose.choice((10, 40)),
        "fails": choose.choice((0.0, 0.1)),
        "directly": choose.random() < 0.5,
        "blocking": choose.random() < 0.5,
        "whole": choose.choice((0, 0, 3)),
        "sizes": choose.choice(((1 << 16, 4096, 64), (300, 0, 4))),
    }


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds.several(settings.default.max_examples // 3))
def test_each_committed_emit_counts_exactly_once(seed):
    world = world_of(seed)
    chaos = world["chaos"]
    begin(chaos.random.random())
    seeds = itertools.count(chaos.random.randrange(10**9))
    inline, deliveries, every = world["sizes"]
    limits = EngineLimits(
        collect_every=3,
        look_seconds=0.5,
        check_seconds=1.0,  # an idle zombie has to notice too
        header_bytes=deliveries,
        whole_batches=world["whole"],
        log=LogLimits(manifest_every=every),
    )
    with mock.patch.object(CommitWriter, "collect", CommitWriter._collect_quietly):
        store, last = live(world, limits, new_store(inline), lambda: seeded(next(seeds)))
    check(store, last)


def seeded(seed):
    return np.random.Generator(np.random.PCG64(seed))


def live(world, limits, store, generator):
    """Drivers, one after the other, until one of them comes to the end."""
    chaos, clock = world["chaos"], ManualClock()
    zombies = []
    shapes = itertools.cycle(world["shapes"])
    while True:
        workers, ackers = next(shapes)
        topology = builder(
            workers, ackers, *(world[k] for k in ("tuples", "fails", "directly", "blocking"))
        )
        failing = chaotic(store, chaos)
        driver = make_driver(
            topology,
            store=failing,
            clock=clock,
            jobs=Unsteady(clock, 0.1, chaos.fault, failing, generator),
            observer=Bounded(),
            generator=generator,
            limits=limits,
        )
        driver.jobs.chaos = chaos
        running = None
        try:
            running = driver.start()
            chaos.crashes = lambda running=running: running.coordinator.blame.crashes
            haunt(zombies)
            running.run(Stop(when_drained=True))
            return store, running
        except (Unreachable, DriverDied):
            chaos.crashes = None
            asleep = running is not None and running.log._doubtful is None
            if asleep and chaos.random.random() < 0.5:
                zombies.append(running)


class Bounded(Silent):
    """Gives up on a topology that does not come to its end."""

    def batch(self, totals, done):
        assert totals.batches < 1500, "it never ends"


class Unsteady(Steady):
    """Some of the workers are gone after a failure, and may be back later."""

    def recover(self):
        if self.chaos.random.random() < 0.7:
            return super().recover()
        everyone = super().alive()
        gone = self.chaos.random.sample(everyone, self.chaos.random.randrange(len(everyone)))
        return [worker for worker in everyone if worker not in gone]


def steps(driver, n):
    for _ in range(n):
        driver.step()


def haunt(zombies):
    """Drivers that were thought to be dead go on: they must notice that they are not in charge."""
    for zombie in zombies:
        zombie.sleep = zombie.recovery.sleep = lambda seconds: None
        with pytest.raises((Fenced, Unreachable, DriverDied)):
            steps(zombie, 50)
    zombies.clear()


def check(store, driver):
    spouted = tasks(driver, store, "source")
    emitted = {}
    for task, journals in enumerate(spouted):
        kept = KeyedState.restore(journals)
        positions = set()
        for (what, number), value in kept.items():
            if what != "emit":
                continue
            position, content, tracked = value
            emitted[task, number] = content
            ends = kept.get(("ack", number), 0), kept.get(("fail", number), 0)
            if tracked:
                assert ends in ((1, 0), (0, 1)), "a tree ends once"
                if ends == (1, 0):
                    assert position not in positions, "acked, and emitted again"
                    positions.add(position)
                heard = "ack" if ends[0] else "fail"
                assert (heard, (task, number)) in HEARD
            else:
                assert ends == (0, 0)
                positions.add(position)
        limit = driver.topology.component("source").config["tuples"]
        assert positions == set(range(1, limit + 1))
        assert PendingMessages.restore(journals.get("pending", ())).count == 0
    assert state_of(driver, store, "relay") == dict.fromkeys(emitted, 1)
    held = [tup for f in fields_of(driver, store, "relay") for tup in f["held"]]
    sunk = state_of(driver, store, "sink") | {tup["id"]: (tup["content"],) for tup in held}
    assert sunk == {key: (value,) for key, value in emitted.items()}
    for journals in tasks(driver, store, "arrow"):
        kept = KeyedState.restore(journals)
        assert dict(kept) == {key: (value,) for key, value in emitted.items()}
    total = sum(f["total"] for f in fields_of(driver, store, "sink"))
    assert total == len(emitted) - len(held)
    if driver.placed.acking:
        for journals in tasks(driver, store, "__acker"):
            assert len(restore(journals.get("trees", ()))) == 0
    assert driver.totals.trees.pending == 0


def tasks(driver, store, component):
    manifest = read_manifest(store, driver.log.manifest.number)
    keys = [driver.plan.key_of(t) for t in driver.plan.tasks(component)]
    return list(load_many(store, manifest, keys).values())


def fields_of(driver, store, component):
    found = tasks(driver, store, component)
    return [pickle.loads(journals["fields"][-1])[0] for journals in found if journals]


def state_of(driver, store, component):
    found = {}
    for journals in tasks(driver, store, component):
        kept = KeyedState.restore(journals)
        assert not kept.keys() & found.keys()
        found |= kept
    return found
