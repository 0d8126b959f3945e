"""Random topologies against a reference that keeps each tuple tree explicitly."""

from collections import Counter
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from fulmen import TopologyBuilder
from fulmen.engine import cell, light, spouts, wire
from fulmen.engine.driver import Silent, Stop
from support.engine_runs import make_driver
from support.random_parts import (
    LOG,
    RandomArrowBolt,
    RandomArrowSpout,
    RandomBasicBolt,
    RandomBolt,
    RandomGrouping,
    RandomSpout,
    begin,
)
from support.reference import Reference, check_copies

SPOUTS = (RandomSpout, RandomSpout, RandomArrowSpout)
BOLTS = (RandomBolt, RandomBolt, RandomBolt, RandomBasicBolt, RandomArrowBolt)
KINDS = (
    "shuffle",
    "fields",
    "partial-key",
    "all",
    "global",
    "none",
    "local-or-shuffle",
    "custom",
)


@st.composite
def topologies(draw):
    """A builder, and how it is to be run."""
    builder = TopologyBuilder(
        name="random",
        workers=draw(st.integers(1, 3)),
        ackers=draw(st.sampled_from((None, 0, 1, 2, 3))),
        message_timeout_seconds=draw(st.sampled_from((1, 3))),
        max_spout_pending=draw(st.sampled_from((None, None, None, 3, 10))),
    )
    honest = draw(st.sampled_from((False, False, True)))
    conf = {"seed": draw(st.integers(0, 10**9)), "honest": honest, "targets": []}
    sources, names = [], []
    for i in range(draw(st.integers(1, 3))):
        more = {
            "tuples": draw(st.sampled_from((60, 20, 5, 0))),
            "pause": draw(st.sampled_from((0.0, 0.1, 0.4))),
            "at_once": draw(st.sampled_from(((1,), (0, 1, 2, 3)))),
        }
        spout = builder.set_spout(f"s{i}", draw(st.sampled_from(SPOUTS)), draw(st.integers(1, 2)))
        spout.set_num_tasks(draw(st.integers(1, 3))).set_config({**conf, **more})
        sources.append(f"s{i}")
    for i in range(draw(st.integers(1, 5))):
        bolt = builder.set_bolt(f"b{i}", draw(st.sampled_from(BOLTS)), draw(st.integers(1, 3)))
        bolt.set_num_tasks(draw(st.integers(1, 4))).set_config(conf)
        bolt.set_blocking(draw(st.booleans()))
        if draw(st.booleans()):
            bolt.set_tick_seconds(draw(st.sampled_from((0.05, 0.3))))
        inputs = {}
        for source, stream in draw(
            st.lists(
                st.tuples(
                    st.sampled_from(sources), st.sampled_from(("default", "second", "direct"))
                ),
                min_size=1,
                max_size=3,
                unique=True,
            )
        ):
            inputs.setdefault((source, stream), draw(st.sampled_from(KINDS)))
            if draw(st.booleans()):  # two streams of one component arrive in their order
                inputs.setdefault((source, "default"), draw(st.sampled_from(KINDS)))
                inputs.setdefault((source, "second"), draw(st.sampled_from(KINDS)))
        for (source, stream), kind in inputs.items():
            subscribe(bolt, source, stream, kind)
        sources.append(f"b{i}")
        names.append(f"b{i}")
    conf["targets"] += names
    slices = draw(st.sampled_from((1, 3, 4096)))
    return builder, slices, draw(st.sampled_from((1, 4, 1 << 15)))


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


class Witness(Silent):
    def __init__(self, reference):
        self.reference = reference
        self.seen = 0

    def batch(self, totals, done):
        events, self.seen = LOG[self.seen :], len(LOG)
        self.reference.batch(events, done.header.clock)
        self.pending = totals.trees.pending
        assert self.pending == len(self.reference.trees)

    def attempt_failed(self, number, reason):
        raise AssertionError(reason)


@settings(max_examples=settings.default.max_examples // 3)
@given(topologies())
def test_every_tree_ends_as_the_reference_says(case):
    builder, slices, row_tuples = case
    topology = builder.build()
    begin()
    reference = Reference(
        topology.spec.message_timeout_seconds, acking=topology.spec.acker_tasks > 0
    )
    driver = make_driver(topology, observer=Witness(reference), seconds=0.25)
    with (
        mock.patch.object(light, "WHOLE_BATCHES", 1),
        mock.patch.object(spouts, "SLICE", slices),
        mock.patch.object(wire, "ROW_TUPLES", row_tuples),
        mock.patch.object(cell, "WAITING_TUPLES", row_tuples),
    ):
        driver.start()
        driver.run(Stop(when_drained=True))
        driver.close()
    assert reference.trees == {}
    assert reference.told == ({}, {})
    check_copies(LOG, driver.setup)
    check_counts(driver, reference)


def check_counts(driver, reference):
    plan = driver.setup.plan
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
