"""Components that write counts to stores, behind a source whose transactions nobody can foresee.

The source has `limits.json`: how many messages there are in each partition by now. What message n
of a partition is follows from both numbers, so anybody can count it, see `key_of` and `amount_of`.
How many messages a transaction has is drawn anew each time, and so is their order.

    source -> spread -> count (committer) -> gather -> totals (committer)
                 \\_______________________/
"""

import json
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

from fulmen import (
    BasicBolt,
    BatchBolt,
    Committer,
    FailedException,
    OpaquePartitionedTransactionalSpout,
    PartitionedTransactionalSpout,
)
from fulmen.api import StoreMismatch
from fulmen.transactional import PostgresMap, RedisMap, SqliteMap, StaleAttempt, plus

KEYS, GROUPS = 40, 5
PAUSE_SECONDS = 0.05
LONGEST_PAUSE = 0.2
"""Before a committer writes: most are far shorter."""
UNFORESEEN = random.SystemRandom()
MAPS = {"sqlite": SqliteMap, "postgres": PostgresMap, "redis": RedisMap}


def key_of(partition, n):
    """The key of a message; several partitions have the same ones."""
    return f"k{(7 * n + 3 * partition) % KEYS}"


def amount_of(partition, n):
    """What a message adds to its key."""
    return 1 + (n + partition) % 9


def group_of(key):
    """Which group a key is in."""
    return f"g{int(key[1:]) % GROUPS}"


def limits(conf):
    """How many messages there are in each partition."""
    return json.loads((Path(conf["folder"]) / "limits.json").read_text())


def tell(conf, file, text):
    """Append a line, as one write."""
    with open(Path(conf["folder"]) / file, "ab", buffering=0) as f:
        f.write(f"{text}\n".encode())


class Coordinator(PartitionedTransactionalSpout.Coordinator):
    """Begins transactions also if there are no messages: those are empty."""

    def __init__(self, conf):
        self.conf, self.next_at = conf, 0.0

    def num_partitions(self):
        self.next_at = time.monotonic() + PAUSE_SECONDS
        return len(limits(self.conf))

    def is_ready(self):
        return time.monotonic() >= self.next_at

    def is_exhausted(self):
        return (Path(self.conf["folder"]) / "exhausted").exists()


class Emitter:
    """Emits messages from one position to another."""

    def __init__(self, conf):
        self.conf, self.take = conf, conf.get("take")

    def end_of_new(self, partition, start):
        """Where a new part ends."""
        size = UNFORESEEN.randint(0, 30) if self.take is None else self.take
        return min(start + size, limits(self.conf)[partition])

    def emit(self, attempt, collector, partition, numbers):
        for n in numbers:
            collector.emit([attempt, partition, n])

    def cleanup_before(self, txid):
        """Nothing is kept."""

    def close(self):
        """Nothing is open."""


class Repeated(PartitionedTransactionalSpout):
    """Each attempt of a transaction is what the first one was."""

    outputs = ("tx", "partition", "n")

    def get_coordinator(self, conf, context):
        return Coordinator(conf)

    def get_emitter(self, conf, context):
        return RepeatedEmitter(conf)


class RepeatedEmitter(Emitter, PartitionedTransactionalSpout.Emitter):
    def emit_partition_batch_new(self, attempt, collector, partition, last_metadata):
        start = last_metadata[1] if last_metadata else 0
        metadata = start, self.end_of_new(partition, start)
        self.emit_partition_batch(attempt, collector, partition, metadata)
        return metadata

    def emit_partition_batch(self, attempt, collector, partition, metadata):
        self.emit(attempt, collector, partition, range(*metadata))


class Changing(OpaquePartitionedTransactionalSpout):
    """Each attempt has other tuples, in another order, and sometimes a partition is away."""

    outputs = ("tx", "partition", "n")

    def get_coordinator(self, conf, context):
        return Coordinator(conf)

    def get_emitter(self, conf, context):
        return ChangingEmitter(conf)


class ChangingEmitter(Emitter, OpaquePartitionedTransactionalSpout.Emitter):
    def emit_partition_batch(self, attempt, collector, partition, last_metadata):
        start = last_metadata or 0
        end = self.end_of_new(partition, start)
        numbers = list(range(start, end))
        UNFORESEEN.shuffle(numbers)
        self.emit(attempt, collector, partition, numbers)
        if UNFORESEEN.random() < 0.02:
            raise FailedException("it is away, as it was told")
        return end


class Spread(BasicBolt):
    """Makes what is counted of a message. One message may be poison."""

    outputs = {"default": ("tx", "key", "amount"), "direct": ("tx", "group", "amount")}  # noqa: RUF012

    def prepare(self, conf, context):
        self.poison = conf.get("poison")

    def execute(self, tup, collector):
        attempt, partition, n = tup.values
        if [partition, n] == self.poison:
            os.kill(os.getpid(), signal.SIGKILL)
        key, amount = key_of(partition, n), amount_of(partition, n)
        collector.emit([attempt, key, amount])
        collector.emit([attempt, group_of(key), amount], stream="direct")


class Writer(BatchBolt, Committer):
    """Writes sums to all of its stores, slowly, and tells when it begins."""

    table = ""

    def prepare(self, conf, context, collector, attempt):
        self.conf, self.collector, self.attempt, self.sums = conf, collector, attempt, Counter()
        self.maps = [
            MAPS[kind](at, f"{name}_{self.table}", context, rule=conf["rule"], value="integer")
            for kind, at, name in conf["stores"]
        ]
        if context.task_index == 0 and self.table == "counts":
            tell(conf, "attempts", f"{attempt.txid} {attempt.attempt}")

    def finish_batch(self):
        tell(self.conf, "commits", f"{self.table} {self.attempt.txid}")
        self.hold()
        for a_map in self.maps:
            time.sleep(UNFORESEEN.random() ** 3 * LONGEST_PAUSE)
            try:
                a_map.update(self.attempt, self.sums, plus)
            except (StaleAttempt, StoreMismatch) as late:
                tell(self.conf, "refused", late)
                raise
        self.emit()

    def hold(self):
        """Wait as long as one of two files is there; of the second one others are told."""
        folder = Path(self.conf["folder"])
        while (folder / "hold").exists():
            time.sleep(0.01)
        if self.table == "totals" and self.sums and (folder / "hold-totals").exists():
            tell(self.conf, "held", self.attempt)
            while (folder / "hold-totals").exists():
                time.sleep(0.01)

    def emit(self):
        """Nothing is behind it."""


class Count(Writer):
    """By key."""

    outputs = ("tx", "group", "amount")
    table = "counts"

    def execute(self, tup):
        self.sums[tup.values[1]] += tup.values[2]

    def emit(self):
        groups = Counter()
        for key, amount in self.sums.items():
            groups[group_of(key)] += amount
        for group, amount in groups.items():
            self.collector.emit([self.attempt, group, amount])


class Gather(BatchBolt):
    """Adds up groups: what comes past the committer, and what comes through it."""

    outputs = ("tx", "group", "way", "amount")

    def prepare(self, conf, context, collector, attempt):
        self.collector, self.attempt, self.sums = collector, attempt, Counter()

    def execute(self, tup):
        _, group, amount = tup.values
        self.sums[group, tup.component] += amount

    def finish_batch(self):
        for (group, way), amount in self.sums.items():
            self.collector.emit([self.attempt, group, way, amount])


class Totals(Writer):
    """By group and the way that it came."""

    table = "totals"

    def execute(self, tup):
        _, group, way, amount = tup.values
        self.sums[f"{group} {way}"] += amount
