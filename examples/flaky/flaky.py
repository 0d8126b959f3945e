"""Counts numbers by their last digit, in a bolt that fails 5 % of its tuples."""

import random
from collections.abc import Mapping
from typing import Any

from fulmen import (
    BasicBolt,
    BasicOutputCollector,
    FailedException,
    Spout,
    SpoutOutputCollector,
    TopologyContext,
    Tuple,
)


class Numbers(Spout):
    """Emits the numbers below `end`, and again those that failed."""

    outputs = ["number", "digit"]

    def __init__(self) -> None:
        self.next = 0
        self.failed: list[int] = []

    def open(
        self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutOutputCollector
    ) -> None:
        self.end = conf["end"]
        self.collector = collector

    def next_tuple(self) -> None:
        if self.failed:
            number = self.failed.pop()
        elif self.next < self.end:
            number = self.next
            self.next += 1
        else:
            return
        self.collector.emit([number, number % 10], msg_id=number)

    def fail(self, msg_id: Any, reason: str) -> None:
        self.failed.append(msg_id)

    def is_exhausted(self) -> bool:
        return self.next == self.end and not self.failed


class Count(BasicBolt):
    """Fails first, if it is to fail, and counts then: what has failed has left no trace."""

    def __init__(self) -> None:
        self.random = random.Random(5)  # a field as well: its state survives its process

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        if self.random.random() < 0.05:
            raise FailedException("bad luck")
        digit = tup["digit"]
        self.state[digit] = self.state.get(digit, 0) + 1
