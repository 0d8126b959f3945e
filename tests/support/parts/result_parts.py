"""Bolts that emit by themselves, a sink that fails at random, and what has to come of it."""

import ast
import random
from collections import Counter

import pyarrow as pa

from fulmen import ArrowBolt, BasicBolt, Bolt

WORLD = random.Random()


class Gathering:
    """Gathers numbers. A result has all numbers of one moment: no number is in two of them."""

    outputs = ("numbers",)

    def __init__(self):
        self.numbers = []

    def taken(self):
        numbers, self.numbers = self.numbers, []
        return [[numbers]] if numbers else []


class AtBatchEnds(Gathering, BasicBolt):
    def execute(self, tup, collector):
        self.numbers.append(tup[0])

    def end_batch(self, collector):
        for row in self.taken():
            collector.emit(row)


class AtTicks(Gathering, BasicBolt):
    def execute(self, tup, collector):
        if not tup.is_tick():
            self.numbers.append(tup[0])
        else:
            self.drain(collector)

    def drain(self, collector):
        for row in self.taken():
            collector.emit(row)


class ByTimers(Gathering, BasicBolt):
    def prepare(self, conf, context):
        self.timers = context.timers

    def execute(self, tup, collector):
        self.numbers.append(tup[0])
        self.timers.set_after("", 0.3)

    def on_timer(self, key, at, collector):
        for row in self.taken():
            collector.emit(row)

    drain = AtTicks.drain


class Directly(Gathering, Bolt):
    """Emits to one task of the sink by its name."""

    def declare_output_fields(self, declarer):
        declarer.declare(("numbers",), direct=True)

    def prepare(self, conf, context, collector):
        self.sinks, self.collector = context.tasks("sink"), collector

    def execute(self, tup):
        self.numbers.append(tup[0])
        self.collector.ack(tup)

    def end_batch(self):
        for row in self.taken():
            self.collector.emit_direct(self.sinks[-1], row)


class Vectors(Gathering, ArrowBolt):
    def execute(self, batch, collector):
        self.numbers += batch.column(0).to_pylist()

    def end_batch(self, collector):
        rows = [numbers for [numbers] in self.taken()]
        if rows:
            collector.emit(pa.record_batch({"numbers": pa.array(rows, pa.list_(pa.int32()))}))


class RandomSink(Bolt):
    """Accepts results, fails them, or forgets them. What it accepts is in its state."""

    def prepare(self, conf, context, collector):
        self.collector, self.wrong = collector, conf["wrong"]

    def execute(self, tup):
        how = WORLD.random()
        if how < self.wrong:
            self.collector.fail(tup, "no")
        elif how >= self.wrong / 3 * 4:
            key = str(tup["numbers"])
            self.state[key] = self.state.get(key, 0) + 1
            self.collector.ack(tup)


class DeadLetters(BasicBolt):
    def execute(self, tup, collector):
        key = str(list(tup["values"][0]))
        self.state[key] = self.state.get(key, 0) + 1


GATHERERS = (AtBatchEnds, AtTicks, ByTimers, Directly, Vectors)


def check_results(accepted, dead, numbers):
    """Each number is in one result, and each result was accepted, or is dead, once.

    Args:
        accepted: How often the sink accepted each result.
        dead: How often each one came to the dead letters.
        numbers: So many were gathered.
    """
    assert set((accepted | dead).values()) == {1}
    assert not accepted.keys() & dead.keys()
    found = Counter(n for key in accepted | dead for n in ast.literal_eval(key))
    assert found == Counter(range(numbers))
