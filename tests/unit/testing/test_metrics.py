"""Metrics of one's own are exact, whatever is lost; tests can look at them."""

import pyarrow as pa
import pytest

from fulmen import (
    ArrowBolt,
    ArrowSpout,
    BasicBolt,
    BatchBolt,
    Bolt,
    Committer,
    Spout,
    TopologyBuilder,
    TransactionalTopologyBuilder,
)
from fulmen.engine.worker.in_process import Crash
from fulmen.errors import TopologyFailed
from fulmen.testing import BoltHarness, ListSpout, run
from support.suite.seeds import FIRST, generator, several
from support.transactions.sources import Rows

NUMBERS = 300


class Counting(Spout):
    """Emits numbers, and counts them also in a field."""

    outputs = ("number",)

    def __init__(self):
        self.at = 0

    def open(self, conf, context, collector):
        self.collector = collector
        self.emitted = context.counter("emitted", "Numbers.", {"by": context.component})

    def next_tuple(self):
        if self.at < NUMBERS:
            self.emitted.inc()
            self.collector.emit([self.at], msg_id=self.at)
            self.at += 1

    def is_exhausted(self):
        return self.at == NUMBERS


class PinnedCounting(Counting):
    pinned = True


class ArrowCounting(ArrowSpout):
    outputs = ("number",)

    def __init__(self):
        self.at = 0

    def open(self, conf, context, collector):
        self.collector = collector
        self.emitted = context.counter("emitted", "Numbers.", {"by": context.component})

    def next_tuple(self):
        if self.at < NUMBERS:
            ids = range(self.at, self.at + 10)
            self.emitted.inc(10)
            self.collector.emit(pa.record_batch({"number": list(ids)}), msg_ids=ids)
            self.at += 10

    def is_exhausted(self):
        return self.at == NUMBERS


class Measures:
    """What the bolts below have in common."""

    def meet(self, context):
        self.seen = context.counter("seen", "Numbers.")
        self.sizes = context.histogram("sizes", "Numbers.", [10, 100])
        self.last = context.gauge("last", "The last number.")

    def measure(self, number):
        self.durable = getattr(self, "durable", 0) + 1
        self.seen.inc()
        self.sizes.observe(number)
        self.last.set(number)


class Basic(Measures, BasicBolt):
    def prepare(self, conf, context):
        self.meet(context)

    def execute(self, tup, collector):
        self.measure(tup[0])


class Anchoring(Measures, Bolt):
    def prepare(self, conf, context, collector):
        self.collector = collector
        self.meet(context)

    def execute(self, tup):
        self.measure(tup[0])
        self.collector.ack(tup)


class Arrow(Measures, ArrowBolt):
    def prepare(self, conf, context):
        self.meet(context)

    def execute(self, batch, collector):
        for number in batch["number"].to_pylist():
            self.measure(number)


def losing(rng, losses):
    """A fault that loses some workers, at moments that follow from the generator."""
    left = losses

    def fault(stage, worker, moment):
        nonlocal left
        if left and rng.random() < 0.1:
            left -= 1
            raise Crash("lost")

    return fault


@pytest.mark.slow
@pytest.mark.parametrize("spout", [Counting, PinnedCounting, ArrowCounting])
@pytest.mark.parametrize("bolt", [Basic, Anchoring, Arrow])
def test_metrics_are_exact_although_workers_are_lost(spout, bolt):
    builder = TopologyBuilder("exact", workers=2, max_spout_pending=40)
    builder.set_spout("numbers", spout)
    builder.set_bolt("bolt", bolt, 2).shuffle_grouping("numbers")
    for seed in several(1):
        with generator(seed) as rng:
            # Two: after more of them, a tuple that was always there would be taken for the cause.
            check_exact(run(builder, fault=losing(rng, 2), batch_seconds=0.001))


def check_exact(result):
    assert result.report["failed_attempts"] > 0
    assert result.metrics["numbers"] == {'emitted{by="numbers"}': NUMBERS}
    durable = sum(result.fields("bolt", task)["durable"] for task in range(2))
    found = result.metrics["bolt"]
    assert found["seen"] == durable == NUMBERS
    assert found["sizes"] == {
        "count": NUMBERS,
        "sum": NUMBERS * (NUMBERS - 1) / 2,
        "buckets": {"10.0": 11, "100.0": 101, "+Inf": NUMBERS},
    }


class Part(BatchBolt):
    outputs = ("tx", "n")

    def prepare(self, conf, context, collector, attempt):
        self.collector, self.attempt, self.n = collector, attempt, 0
        self.rows = context.counter("rows", "Rows.")

    def execute(self, tup):
        self.n += 1
        self.rows.inc()

    def finish_batch(self):
        self.collector.emit([self.attempt, self.n])


class Sums(BatchBolt, Committer):
    outputs = ("tx",)

    def prepare(self, conf, context, collector, attempt):
        self.n = 0
        self.commits = context.counter("commits", "Transactions.")
        self.written = context.counter("written", "Rows.")

    def execute(self, tup):
        self.n += tup[1]

    def finish_batch(self):
        self.commits.inc()
        self.written.inc(self.n)


@pytest.mark.parametrize("blocking", [False, True])
def test_metrics_of_transactions_are_those_of_committed_batches(blocking):
    rows = tuple(f"row {n}" for n in range(60))
    builder = TransactionalTopologyBuilder("exact", "rows", Rows((rows,), take=3), workers=2)
    builder.set_bolt("part", Part, 2).shuffle_grouping("rows")
    sums = builder.set_bolt("sums", Sums).global_grouping("part")
    if blocking:
        sums.set_blocking()
    with generator(FIRST) as rng:
        result = run(builder, fault=losing(rng, 5))
    executed = {name: of["executed"] for name, of in result.report["components"].items()}
    assert result.report["failed_attempts"] >= 2
    assert result.metrics["part"]["rows"] == executed["part"] >= 60
    assert result.metrics["sums"] == {"commits": 20, "written": 60}


class Opened(BasicBolt):
    def prepare(self, conf, context):
        context.counter("opened", "Instances.").inc()

    def execute(self, tup, collector):
        pass


def test_what_open_and_prepare_count_is_part_of_the_first_batch():
    builder = TopologyBuilder("opened")
    builder.set_spout("source", ListSpout([1, 2]))
    builder.set_bolt("bolt", Opened, 3).shuffle_grouping("source")
    assert run(builder).metrics["bolt"] == {"opened": 3}


class Wrong(BasicBolt):
    def prepare(self, conf, context):
        context.counter("Rows", "Rows.")

    def execute(self, tup, collector):
        pass


def topology_of(**bolts):
    builder = TopologyBuilder("metrics")
    builder.set_spout("source", ListSpout([1, 2, 3]))
    for name, bolt in bolts.items():
        builder.set_bolt(name, bolt).shuffle_grouping("source")
    return builder


def test_a_wrong_name_ends_the_topology_with_what_to_do():
    with pytest.raises(TopologyFailed) as caught:
        run(topology_of(wrong=Wrong))
    assert str(caught.value).startswith(
        "bolt 'wrong', task 3: prepare: metric 'Rows': a name has at most 60 small letters, digits"
        " and '_', and begins with a letter"
    )


class Gauge(BasicBolt):
    def prepare(self, conf, context):
        self.seen = context.gauge("seen", "Numbers.")

    def execute(self, tup, collector):
        self.seen.set(1)


def test_a_name_with_two_meanings_is_an_error_of_the_second_component():
    result = run(topology_of(first=Basic, second=Gauge))
    assert result.metrics["first"]["seen"] == 3
    assert result.metrics["second"] == {}
    (error,) = result.report["components"]["second"]["errors"]
    assert error["message"] == (
        "metric 'seen' is a gauge here, and a counter in 'first': use one meaning, or another name"
    )
    assert result.report["components"]["first"]["errors"] == []


class Helper:
    """Not a component, but has a metric."""

    def __init__(self, rows):
        self.rows = rows
        self.calls = 0


class Helped(BasicBolt):
    """Has a metric in a field, and another in a helper that is durable."""

    def __init__(self):
        self.helper = None

    def prepare(self, conf, context):
        self.direct = context.counter("direct", "Tuples.")
        if self.helper is None:
            self.helper = Helper(context.counter("helped", "Tuples."))

    def execute(self, tup, collector):
        self.direct.inc()
        self.helper.rows.inc()
        self.helper.calls += 1


def test_fields_with_metrics_are_not_durable_and_no_warning():
    bolt = BoltHarness(Helped)
    for value in range(3):
        bolt.execute([value])
    first = bolt.bolt
    bolt.restart()
    assert bolt.bolt is not first
    bolt.execute([3])
    assert bolt.errors == []
    assert bolt.bolt.helper.calls == 4
    assert bolt.metrics == {"direct": 4, "helped": 4}


def test_the_checkpoint_has_no_metrics_but_what_they_are_called():
    result = run(topology_of(helped=Helped))
    fields = result.fields("helped")
    assert fields.keys() == {"helper"}
    assert repr(fields["helper"].rows) == "<counter helped>"
    again = run(topology_of(helped=Helped), checkpoint=result)
    assert again.metrics["helped"] == {}  # nothing is counted twice


class Says(BasicBolt):
    def prepare(self, conf, context):
        self.context = context
        self.rows = context.counter("rows", "Rows.")

    def execute(self, tup, collector):
        self.rows.inc()
        self.context.lag(messages=tup[0])
        if tup[0] > 1:
            self.context.hold_spouts("full")
        else:
            self.context.release_spouts()


def test_a_harness_shows_what_a_bolt_says():
    bolt = BoltHarness(Says)
    bolt.execute([2])
    assert (bolt.metrics, bolt.held, bolt.lag.messages) == ({"rows": 1}, "full", 2)
    bolt.execute([1])
    assert (bolt.metrics, bolt.held, bolt.lag.messages) == ({"rows": 2}, "", 1)
    bolt.execute([2])
    bolt.restart()
    assert (bolt.metrics, bolt.held) == ({"rows": 3}, "")
