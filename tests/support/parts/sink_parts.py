"""A store in memory that keeps marks as a database does, sinks that write to it, random sources."""

import os
from collections import Counter

from fulmen import FailedException, ServiceUnavailable, Sink, Spout


class Memory:
    """What a database would be: rows and marks change together, or not at all."""

    def __init__(self):
        self.rows, self.marks, self.refused = [], {}, {}
        self.writes, self.repeated = [], 0
        self.away = 0  # so many of the next writes raise
        self.lost = 0  # and so many are done, but their answer is lost
        self.sizes = []
        self.by_batch = Counter()  # the number of a batch -> how many writes it had

    def write(self, rows, mark):
        """Write in one transaction. Returns the refused positions."""
        if self.away:
            self.away -= 1
            raise ServiceUnavailable("the memory", "somebody else needs it")
        refused = {i: "it is bad" for i, (value,) in enumerate(rows) if value == "bad"}
        if mark is not None:
            if mark.is_written(*self.marks.get(mark.sink, (None, None))):
                self.repeated += 1
                return self.refused[mark.sink]
            self.marks[mark.sink] = mark.number, mark.tag
            self.refused[mark.sink] = refused
        self.sizes.append(len(rows))
        self.rows += [value for i, (value,) in enumerate(rows) if i not in refused]
        self.writes.append(mark)
        if self.lost:
            self.lost -= 1
            raise ConnectionResetError("the connection was cut after the commit")
        return refused


MEMORY = Memory()


class MemorySink(Sink):
    """Writes to the memory."""

    guarantees = ("at-least-once", "exactly-once")

    def encode(self, rows):
        for i, (value,) in enumerate(rows):
            if value == "unwritable":
                rows.fail(i, "it can't be written down")
        if "fails all" in [value for (value,) in rows]:
            raise FailedException("all of them")
        if "raises" in [value for (value,) in rows]:
            raise ValueError("a mistake of the author's")
        return [list(values) for values in rows]

    def write(self, rows, mark):
        for i, reason in MEMORY.write(rows, mark).items():
            rows.fail(i, reason)


class AtLeastOnceSink(MemorySink):
    guarantees = ("at-least-once",)


class PartsSink(MemorySink):
    """Writes rows as they come, as far as its guarantee lets it."""

    takes_parts = True
    transient = ("batch",)

    def prepare(self, conf, context):
        self.batch = context.batch

    def write(self, rows, mark):
        super().write(rows, mark)
        MEMORY.by_batch[self.batch.number] += 1


class Unrepeatable(Spout):
    """Emits values that nobody can foresee, and keeps in its fields which."""

    outputs = ("value",)

    def __init__(self, rounds=30):
        self.left = rounds
        self.emitted = []
        self.failed = []

    def open(self, conf, context, collector):
        self.collector = collector

    def next_tuple(self):
        if self.left:
            self.left -= 1
            count = max(0, os.urandom(1)[0] % 5 - 1)
            for _ in range(count):
                value = os.urandom(8).hex()
                self.emitted.append(value)
                self.collector.emit([value], msg_id=value)
            return count > 0
        return False

    def fail(self, msg_id, reason):
        self.failed.append((msg_id, reason))

    def is_exhausted(self):
        return not self.left


def emitted(result, tasks=1):
    """What is committed as emitted and did not fail, of all tasks of the source."""
    found = Counter()
    for task in range(tasks):
        fields = result.fields("source", task)
        failed = {value for value, _ in fields["failed"]}  # thought to end workers: never sent
        found.update(value for value in fields["emitted"] if value not in failed)
    return found
