"""Components of transactional topologies that raise at random, over sources that change."""

from collections import Counter

from fulmen import (
    BasicBolt,
    BatchBolt,
    Committer,
    FailedException,
    OpaquePartitionedTransactionalSpout,
    PartitionedTransactionalSpout,
    TransactionalSpout,
    TransactionalTopologyBuilder,
)
from fulmen.checkpoint import load_many
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.state.fields import fields_of
from fulmen.interruptions import Interruption
from support.stores.outside_stores import STORES, MemoryStore


class Wrong(Interruption):
    """What must never be. Nothing of the engine's catches it."""


def must(holds, message):
    if not holds:
        raise Wrong(message)


class Trouble(MemoryStore):
    """A store outside, and what makes components raise.

    Args:
        random: Decides.
        left: How often, all in all.
        rate: How likely at each call.
    """

    def __init__(self, random, left, rate):
        super().__init__()
        self.random, self.left, self.rate = random, left, rate
        self.highest = {}

    def may(self, what):
        """Maybe raise."""
        if self.left > 0 and self.random.random() < self.rate:
            self.left -= 1
            raise (FailedException if self.random.random() < 0.5 else OSError)(f"{what} in trouble")

    def take(self):
        return self.random.randrange(6)

    def saw(self, attempt):
        """Attempts of a transaction only rise."""
        must(attempt.attempt >= self.highest.get(attempt.txid, 0), "an older attempt came back")
        self.highest[attempt.txid] = attempt.attempt


def trouble(conf):
    return STORES[conf["store"]]


class Source:
    """What the spouts have in common: `partitions` lists of rows."""

    outputs = ("tx", "row")

    def __init__(self, partitions):
        self.partitions = partitions

    def get_coordinator(self, conf, context):
        trouble(conf).may("get_coordinator")
        return self.coordinator(self.partitions, trouble(conf))

    def get_emitter(self, conf, context):
        return self.emitter(self.partitions, trouble(conf), context)


class Ends:
    """Ready until all partitions have come to their end, as far as was seen since it was made."""

    def __init__(self, partitions, outside):
        self.partitions, self.outside = partitions, outside
        for partition in range(len(partitions)):
            outside.put(("end", partition), 0)

    def num_partitions(self):
        self.outside.may("num_partitions")
        return len(self.partitions)

    def is_ready(self):
        self.outside.may("is_ready")
        return not self._is_over()

    def is_exhausted(self):
        self.outside.may("is_exhausted")
        return self._is_over()

    def _is_over(self):
        return all(self.outside.get(("end", p)) == len(r) for p, r in enumerate(self.partitions))


class Emits:
    def __init__(self, partitions, outside, context):
        self.partitions, self.outside = partitions, outside

    def emit(self, attempt, collector, partition, start, end):
        self.outside.saw(attempt)
        self.outside.put(("end", partition), start)  # where it stays if it is left out
        self.outside.may("emit")
        for row in self.partitions[partition][start:end]:
            collector.emit([attempt, row])
        self.outside.may("emit")
        self.outside.put(("end", partition), end)

    def end(self, partition, start):
        return min(len(self.partitions[partition]), start + self.outside.take())


class IdempotentCoordinator(Ends, PartitionedTransactionalSpout.Coordinator):
    pass


class IdempotentEmitter(Emits, PartitionedTransactionalSpout.Emitter):
    def emit_partition_batch_new(self, attempt, collector, partition, last_metadata):
        start = last_metadata[1] if last_metadata else 0
        end = self.end(partition, start)
        self.emit(attempt, collector, partition, start, end)
        return start, end

    def emit_partition_batch(self, attempt, collector, partition, metadata):
        self.emit(attempt, collector, partition, *metadata)


class IdempotentSpout(Source, PartitionedTransactionalSpout):
    coordinator, emitter = IdempotentCoordinator, IdempotentEmitter


class OpaqueCoordinator(Ends, OpaquePartitionedTransactionalSpout.Coordinator):
    pass


class OpaqueEmitter(Emits, OpaquePartitionedTransactionalSpout.Emitter):
    def emit_partition_batch(self, attempt, collector, partition, last_metadata):
        start = last_metadata or 0
        end = self.end(partition, start)
        self.emit(attempt, collector, partition, start, end)
        return end


class OpaqueSpout(Source, OpaquePartitionedTransactionalSpout):
    coordinator, emitter = OpaqueCoordinator, OpaqueEmitter


class WholeCoordinator(TransactionalSpout.Coordinator):
    def __init__(self, partitions, outside):
        self.lengths, self.outside = [len(rows) for rows in partitions], outside
        self.ends = [0] * len(partitions)

    def is_ready(self):
        self.outside.may("is_ready")
        return self.ends != self.lengths

    def is_exhausted(self):
        return self.ends == self.lengths

    def initialize_transaction(self, txid, previous_metadata):
        self.outside.may("initialize_transaction")
        starts = (
            [end for _, end in previous_metadata] if previous_metadata else [0] * len(self.ends)
        )
        pairs = zip(starts, self.lengths, strict=True)
        self.ends = [min(length, start + self.outside.take()) for start, length in pairs]
        return list(zip(starts, self.ends, strict=True))


class WholeEmitter(TransactionalSpout.Emitter):
    def __init__(self, partitions, outside, context):
        self.partitions, self.outside = partitions, outside
        self.index, self.tasks = context.task_index, len(context.tasks(context.component))

    def emit_batch(self, attempt, metadata, collector):
        self.outside.saw(attempt)
        for partition in range(self.index, len(self.partitions), self.tasks):
            self.outside.may("emit_batch")
            for row in self.partitions[partition][slice(*metadata[partition])]:
                collector.emit([attempt, row])


class WholeSpout(Source, TransactionalSpout):
    coordinator, emitter = WholeCoordinator, WholeEmitter


def add(state, what, counts):
    """Count for good, in a value that is changed in place. A look at a class does not see it."""
    found = state.get(what, Counter())
    found.update(counts)
    state[what] = found


class Pass(BasicBolt):
    outputs = ("tx", "row")

    def prepare(self, conf, context):
        self.conf, self.passed = conf, Counter()

    def execute(self, tup, collector):
        outside, row = trouble(self.conf), tup.values[1]
        outside.may("execute of pass")
        if self.conf["keeps"]:
            add(self.state, row, Counter("x"))
            self.passed[row] += 1
            outside.may("execute of pass")
        collector.emit(list(tup.values))


class Counts(BatchBolt):
    """Counts the rows of an attempt. It emits how many of each there are."""

    outputs = ("tx", "row", "count")

    def prepare(self, conf, context, collector, attempt):
        self.outside, self.collector, self.attempt = trouble(conf), collector, attempt
        self.key = context.component, context.task_index
        self.outside.may("prepare")
        self.counts, self.keeps = Counter(), conf["keeps"]
        self.is_finished = False

    def execute(self, tup):
        must(tup.values[0] == self.attempt, "a tuple of another attempt")
        must(not self.is_finished, "a tuple behind the end")
        self.outside.may("execute")
        count = tup.values[2] if len(tup.values) > 2 else 1
        self.counts[tup.values[1]] += count
        self.keep("executed", Counter({tup.values[1]: count}))

    def keep(self, what, counts):
        """Count it for good, if the topology keeps anything."""
        if self.keeps:
            add(self.state, what, counts)

    def finish_batch(self):
        must(not self.is_finished, "finished twice")
        self.is_finished = True
        self.keep("finished", self.counts)
        self.outside.may("finish_batch")
        for row, count in self.counts.items():
            self.collector.emit([self.attempt, row, count])


class Stores(Counts):
    """Adds an attempt's counts to those of its task in the store, by the configuration's rule."""

    is_opaque = False

    def prepare(self, conf, context, collector, attempt):
        super().prepare(conf, context, collector, attempt)
        self.is_opaque = conf["opaque"]

    def finish_batch(self):
        txid, total, before = self.outside.get(self.key, (0, Counter(), Counter()))
        must(txid in (self.attempt.txid, self.attempt.txid - 1), "not the next transaction")
        if self.is_opaque and txid == self.attempt.txid:
            total = before
        elif txid == self.attempt.txid:
            must(before + self.counts == total, "an attempt had other tuples")
        if self.is_opaque or txid != self.attempt.txid:
            before, total = total, total + self.counts
            self.outside.put(self.key, (self.attempt.txid, total, before))
        super().finish_batch()


class StoresCommitter(Stores, Committer):
    pass


SPOUTS = {"idempotent": IdempotentSpout, "opaque": OpaqueSpout, "whole": WholeSpout}
KINDS = [*SPOUTS, "idempotent whole", "opaque whole"]
"""Of the sources of a topology: one, or two that divide the partitions among them."""


def troubled(kinds, conf, partitions, **spec):
    """Rows are counted, stored by a committer, stored again by bolts behind it."""
    first, *others = names = kinds.split()
    builder = TransactionalTopologyBuilder(
        "troubled", first, SPOUTS[first](partitions[:: len(names)]), 2, config=conf, **spec
    )
    builder.get_spout_declarer().set_num_tasks(3)
    passes = builder.set_bolt("pass", Pass, 2).local_or_shuffle_grouping(first)
    for number, name in enumerate(others, 1):
        builder.set_spout(name, SPOUTS[name](partitions[number :: len(names)]), 2)
        passes.local_or_shuffle_grouping(name)
    builder.set_bolt("partial", Counts, 2).set_num_tasks(3).shuffle_grouping("pass")
    first = builder.set_bolt("first", StoresCommitter, 2).set_num_tasks(3)
    first.fields_grouping("partial", ["row"])
    behind = builder.set_bolt("behind", Stores, 2).fields_grouping("first", ["row"])
    behind.fields_grouping("pass", ["row"])
    builder.set_bolt("last", StoresCommitter).global_grouping("first")
    return builder


def kept(driver, store, component):
    """What the tasks of a component have kept together, which is one and the same twice."""
    found = {"executed": Counter(), "finished": Counter()}
    keys = [driver.plan.key_of(task) for task in driver.plan.tasks(component)]
    for journals in load_many(store, driver.log.manifest, keys).values():
        state, fields = KeyedState.restore(journals), fields_of(journals)
        if component == "pass":
            passed = Counter({row: count["x"] for row, count in state.items()})
            state = {"executed": passed, "finished": fields["passed"]}
        for what, counts in state.items():
            found[what] += counts
    return found


def stored(outside, component):
    """What the tasks of a component have stored together."""
    found = Counter()
    for key, value in outside.all().items():
        if key[0] == component:
            found += value[1]
    return found
