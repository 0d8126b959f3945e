"""The most frequent words of the last minute, at any time: as Storm's RollingTopWords."""

from collections import Counter
from itertools import chain

from fulmen import BasicBolt, Spout

WORDS = ["nathan"] * 4 + ["mike"] * 5 + ["jackson"] * 2 + ["golda"] * 3 + ["bertels"]


class Words(Spout):
    """Emits words, over and over again, up to `end` of them."""

    outputs = ["word"]

    def __init__(self):
        self.next = 0

    def open(self, conf, context, collector):
        self.end = conf["end"]
        self.collector = collector

    def next_tuple(self):
        if self.next < self.end:
            self.collector.emit([WORDS[self.next % len(WORDS)]], msg_id=self.next)
            self.next += 1

    def is_exhausted(self):
        return self.next == self.end


class RollingCount(BasicBolt):
    """Counts words in a window that slides on with each tick.

    The window consists of slots, one for each tick: the newest takes what comes, the oldest is
    dropped. So a word counts for as many ticks as there are slots.
    """

    outputs = ["word", "count"]

    def __init__(self):
        self.slots = [Counter()]

    def prepare(self, conf, context):
        self.length = conf["slots"]

    def execute(self, tup, collector):
        if not tup.is_tick():
            self.slots[-1][tup["word"]] += 1
            return
        self.emit_counts(collector)
        self.slots = [*self.slots, Counter()][-self.length :]

    def drain(self, collector):
        self.emit_counts(collector)  # of what came after the last tick too

    def emit_counts(self, collector):
        for word, count in sum(self.slots, Counter()).items():
            collector.emit([word, count])


class Rank(BasicBolt):
    """The first few of the words that this task is responsible for, with each tick."""

    outputs = ["ranking"]

    def __init__(self):
        self.counts = {}

    def prepare(self, conf, context):
        self.length = conf["length"]

    def execute(self, tup, collector):
        if not tup.is_tick():
            self.counts[tup["word"]] = tup["count"]
        else:
            self.emit_ranking(collector)

    def drain(self, collector):
        if self.counts:  # of the last turn of `count`, unless a tick came in between
            self.emit_ranking(collector)

    def emit_ranking(self, collector):
        collector.emit([first(self.length, self.counts.items())])
        self.counts = {}  # the next counts are of the next window


class RankAll(BasicBolt):
    """The first few of all words, from the newest ranking of each task of `Rank`."""

    def __init__(self):
        self.rankings = {}

    def prepare(self, conf, context):
        self.length = conf["length"]

    def execute(self, tup, collector):
        self.rankings[tup.task] = tup["ranking"]
        ranking = first(self.length, chain.from_iterable(self.rankings.values()))
        self.state["top"] = ranking


def first(length, counts):
    """The most frequent words, as (word, count)."""
    return sorted(counts, key=lambda entry: (-entry[1], entry[0]))[:length]
