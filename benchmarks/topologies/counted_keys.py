"""Rows about one key each, of very many, that are counted."""

import time

import pyarrow as pa

from fulmen import ArrowSpout, BasicBolt

AT_ONCE = 1000
FAR = 7_368_787
"""A prime. So one key after the other is far from it."""


class Keys(ArrowSpout):
    """Row k is about a key that follows from k, and is due at `start` + k / `rate`.

    `keys`: how many there are. `rate` 0: all are due. `rows`: how many there will be; none: without
    end.
    """

    outputs = ("key",)

    def __init__(self):
        self.position = 0

    def open(self, conf, context, collector):
        """Keep what is configured."""
        self.collector, self.keys = collector, conf["keys"]
        self.start, self.rate, self.rows = conf.get("start", 0), conf.get("rate", 0), conf["rows"]

    def is_exhausted(self):
        """Whether there will be no more."""
        return self.rows is not None and self.position >= self.rows

    def next_tuple(self):
        """All rows that are due, but not too many."""
        due = self.position + AT_ONCE
        if self.rate:
            due = min(due, int((time.time() - self.start) * self.rate))
        if self.rows is not None:
            due = min(due, self.rows)
        rows = range(self.position, due)
        if not rows:
            return False
        column = pa.array([f"customer-{k * FAR % self.keys:09d}" for k in rows])
        self.position = due
        batch = pa.RecordBatch.from_arrays([column], names=["key"])
        self.collector.emit(batch, msg_ids=rows)
        return True


class Count(BasicBolt):
    """Counts each key."""

    def execute(self, tup, collector):
        """One more of it."""
        key = tup["key"]
        self.state[key] = self.state.get(key, 0) + 1
