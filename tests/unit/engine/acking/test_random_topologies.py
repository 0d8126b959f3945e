"""Random topologies against a reference that keeps each tuple tree explicitly."""

from collections import Counter
from typing import get_args

import pytest
from hypothesis import settings

from fulmen import TopologyBuilder
from fulmen.engine.driver.driver import Silent, Stop
from fulmen.engine.protocol.limits import EngineLimits
from fulmen.testing import ManualClock
from fulmen.topology.resource.spec import GroupingType
from support.lives.chaos import Chaos, DriverDied
from support.runs.engine_runs import Steady, make_driver, new_store
from support.suite import seeds
from support.worlds.random_parts import (
    LOG,
    RandomArrowBolt,
    RandomArrowSpout,
    RandomBasicBolt,
    RandomBolt,
    RandomGrouping,
    RandomSpout,
    begin,
)
from support.worlds.reference import Reference, check_copies

SPOUTS = (RandomSpout, RandomSpout, RandomArrowSpout)
BOLTS = (RandomBolt, RandomBolt, RandomBolt, RandomBasicBolt, RandomArrowBolt)
EXAMPLES = max(8, settings.default.max_examples // 5)
KINDS = [kind for kind in get_args(GroupingType) if kind != "direct"]


def any_topology(rng):
    """A builder, and how it is to be run."""
    builder = TopologyBuilder(
        name="random",
        workers=rng.randint(1, 3),
        ackers=rng.choice((None, 0, 1, 2, 3)),
        message_timeout_seconds=rng.choice((1, 3)),
        max_spout_pending=rng.choice((None, None, None, 3, 10)),
    )
    honest = rng.random() < 0.2
    conf = {"seed": rng.randrange(10**9), "honest": honest, "targets": []}
    sources, names = [], []
    for i in range(rng.randint(1, 3)):
        more = {
            "tuples": rng.choice((40, 40, 20, 5)),
            "pause": rng.choice((0.0, 0.1, 0.4)),
            "at_once": rng.choice(((1,), (0, 1, 2, 3))),
        }
        spout = builder.set_spout(f"s{i}", rng.choice(SPOUTS), rng.randint(1, 2))
        spout.set_num_tasks(rng.randint(1, 3)).set_config({**conf, **more})
        sources.append(f"s{i}")
    for i in range(rng.randint(1, 5)):
        bolt = builder.set_bolt(f"b{i}", rng.choice(BOLTS), rng.randint(1, 3))
        bolt.set_num_tasks(rng.randint(1, 4)).set_config(conf)
        bolt.set_blocking(rng.random() < 0.5).set_track_results(False)  # as Storm
        if rng.random() < 0.5:
            bolt.set_tick_seconds(rng.choice((0.05, 0.3)))
        inputs = {}
        possible = [(s, stream) for s in sources for stream in ("default", "second", "direct")]
        for source, stream in rng.sample(possible, rng.randint(1, 3)):
            inputs.setdefault((source, stream), rng.choice(KINDS))
            if rng.random() < 0.5:  # two streams of one component arrive in their order
                inputs.setdefault((source, "default"), rng.choice(KINDS))
                inputs.setdefault((source, "second"), rng.choice(KINDS))
        for (source, stream), kind in inputs.items():
            subscribe(bolt, source, stream, kind)
        sources.append(f"b{i}")
        names.append(f"b{i}")
    joining(builder, rng, conf)
    conf["targets"] += names
    return builder, rng.choice((1, 3, 4096)), rng.choice((1, 4, 1 << 15))


def joining(builder, rng, conf):
    """A bolt that mostly joins trees, and one all of whose tasks receive what it emits."""
    join = builder.set_bolt("join", RandomBolt, 1).set_config({**conf, "joins": True})
    join.shuffle_grouping("s0").shuffle_grouping("s0", "second")
    joined = builder.set_bolt("joined", rng.choice((RandomBolt, RandomBasicBolt)), 2)
    joined.set_config(conf).all_grouping("join").all_grouping("join", "second")


def subscribe(bolt, source, stream, kind):
    if stream == "direct":
        bolt.direct_grouping(source, stream)
    elif kind == "custom":
        bolt.custom_grouping(source, RandomGrouping, stream)
    elif kind in ("fields", "partial-key"):
        method = bolt.fields_grouping if kind == "fields" else bolt.partial_key_grouping
        method(source, ["key"], stream)
    else:
        getattr(bolt, kind.replace("-", "_") + "_grouping")(source, stream)


class RecordingObserver(Silent):
    """Tells the reference what happened, of batches that counted."""

    def __init__(self, reference):
        self.reference = reference
        self.seen = 0
        self.failed = 0

    def batch(self, totals, done):
        events, self.seen = LOG[self.seen :], len(LOG)
        self.reference.batch(events, done.header.clock)
        self.pending = totals.trees.pending
        assert self.pending == len(self.reference.trees)

    def attempt_failed(self, number, reason):
        assert "was lost" in reason
        self.forget()

    def forget(self):
        """What an attempt did that came to nothing."""
        del LOG[self.seen :]
        self.failed += 1


def run_to_its_end(case, chaos):
    """Run a topology with a reference beside it.

    Returns:
        The last driver, the reference, and how many attempts came to nothing.
    """
    builder, slices, row_tuples = case
    topology = builder.build()
    begin()
    reference = Reference(
        topology.spec.message_timeout_seconds,
        acking=topology.spec.acker_tasks > 0,
        may_be_told_later=chaos.left > 0,
    )
    observer, clock, store = RecordingObserver(reference), ManualClock(), new_store()
    limits = EngineLimits(
        whole_batches=1, spout_slice=slices, row_tuples=row_tuples, waiting_tuples=row_tuples
    )
    while True:
        jobs = Steady(clock, 0.25, chaos.fault, store)
        driver = make_driver(
            topology, store=store, clock=clock, jobs=jobs, observer=observer, limits=limits
        )
        try:
            driver = driver.start()
            chaos.crashes = lambda driver=driver: driver.coordinator.blame.crashes
            driver.run(Stop(when_drained=True))
        except DriverDied:
            observer.forget()
        else:
            driver.close()
            break
    assert reference.trees == {}
    assert reference.told == ({}, {})
    return driver, reference, observer.failed


OFTEN = (
    "joins",
    "joins received",
    "joins with many copies",
    "roots with many copies",
    "fails after joins",
    "late acks",
    "received from default",
    "received from second",
    "received from direct",
)
"""What is hard to get right. Without it hardly anything was tested."""


def until_often(cases, names):
    """Seeds of examples, until each of these has happened half as often as there are examples, at
    least: nearly half of all topologies have nothing that is emitted directly, say."""
    for number, seed in enumerate(seeds.several(10 * EXAMPLES)):
        rare = {name: cases[name] for name in names if 2 * cases[name] < EXAMPLES}
        if number >= EXAMPLES and not rare:
            return
        yield seed
    assert rare == {}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_tree_ends_as_the_reference_says():
    cases = Counter()
    for seed in until_often(cases, OFTEN):
        with seeds.generator(seed) as rng:
            driver, reference, _ = run_to_its_end(any_topology(rng), Chaos(0, faults=0, rate=0))
            check_copies(LOG, driver.placed)
            check_counts(driver, reference)
        cases.update(reference.cases)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_crashes_between_any_two_steps_change_no_trees_end():
    cases = Counter()
    for seed in until_often(cases, (*OFTEN, "crashes")):
        with seeds.generator(seed) as rng:
            topology = any_topology(rng)
            chaos = Chaos(rng.random(), faults=10, rate=rng.choice((0.01, 0.05, 0.2)))
            driver, reference, failed = run_to_its_end(topology, chaos)
            check_copies(LOG, driver.placed, failed)
        cases.update(reference.cases, crashes=failed)


def check_counts(driver, reference):
    plan = driver.placed.plan
    spoken = {"emitted", "transferred", "executed", "acked", "failed"}
    counted = Counter(
        {
            key: n
            for key, n in driver.totals.counts.items()
            if n and key[1] in spoken and not key[0].startswith("__")
        }
    )
    assert counted == +reference.component_counts(plan)
    of_ackers = {
        key[2]: n
        for key, n in driver.totals.counts.items()
        if key[:2] == ("__acker", "executed") and n
    }
    assert of_ackers == +reference.ackers
    trees = driver.totals.trees
    assert trees.acked == reference.ended["acked"]
    assert trees.timed_out == reference.ended["timed_out"]
    assert trees.failed + trees.timed_out == reference.ended["failed"]
