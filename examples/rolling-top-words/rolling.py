"""The most frequent words of the last minute, at any time: as Storm's RollingTopWords."""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from fulmen import (
    BasicBolt,
    BasicOutputCollector,
    Spout,
    SpoutOutputCollector,
    TopologyContext,
    Tuple,
)

WORDS = ["nathan"] * 4 + ["mike"] * 5 + ["jackson"] * 2 + ["golda"] * 3 + ["bertels"]

Counted = tuple[str, int]  # a word and its count


class Words(Spout):
    """Emits words, over and over again, up to `end` of them."""

    outputs = ["word"]

    def __init__(self) -> None:
        self.next = 0

    def open(
        self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutOutputCollector
    ) -> None:
        self.end = conf["end"]
        self.collector = collector

    def next_tuple(self) -> None:
        if self.next < self.end:
            self.collector.emit([WORDS[self.next % len(WORDS)]], msg_id=self.next)
            self.next += 1

    def is_exhausted(self) -> bool:
        return bool(self.next == self.end)


class RollingCount(BasicBolt):
    """Counts words in a window that slides on with each tick.

    The window consists of slots, one for each tick: the newest takes what comes, the oldest is
    dropped. So a word counts for as many ticks as there are slots.
    """

    outputs = ["word", "count"]

    def __init__(self) -> None:
        self.slots: list[Counter[str]] = [Counter()]

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        self.length = conf["slots"]

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        if not tup.is_tick():
            self.slots[-1][tup["word"]] += 1
            return
        self.emit_counts(collector)
        self.slots = [*self.slots, Counter()][-self.length :]

    def drain(self, collector: BasicOutputCollector) -> None:
        self.emit_counts(collector)  # of what came after the last tick too

    def emit_counts(self, collector: BasicOutputCollector) -> None:
        for word, count in sum(self.slots, Counter[str]()).items():
            collector.emit([word, count])


class Rank(BasicBolt):
    """The first few of the words that this task is responsible for, with each tick."""

    outputs = ["ranking"]

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        self.length = conf["length"]

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        if not tup.is_tick():
            self.counts[tup["word"]] = tup["count"]
        else:
            self.emit_ranking(collector)

    def drain(self, collector: BasicOutputCollector) -> None:
        if self.counts:  # of the last turn of `count`, unless a tick came in between
            self.emit_ranking(collector)

    def emit_ranking(self, collector: BasicOutputCollector) -> None:
        collector.emit([first(self.length, self.counts.items())])
        self.counts = {}  # the next counts are of the next window


class RankAll(BasicBolt):
    """The first few of all words, from the newest ranking of each task of `Rank`."""

    def __init__(self) -> None:
        self.rankings: dict[int, list[Counted]] = {}

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        self.length = conf["length"]

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        self.rankings[tup.task] = tup["ranking"]
        ranking = first(self.length, chain.from_iterable(self.rankings.values()))
        self.state["top"] = ranking


def first(length: int, counts: Iterable[Counted]) -> list[Counted]:
    """The most frequent words, as (word, count)."""
    return sorted(counts, key=lambda entry: (-entry[1], entry[0]))[:length]
