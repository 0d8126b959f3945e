"""Adds exclamation marks to names: a spout, and two bolts in a row."""

from collections.abc import Mapping
from typing import Any

from fulmen import (
    BasicBolt,
    BasicOutputCollector,
    Spout,
    SpoutOutputCollector,
    TopologyContext,
    Tuple,
)

NAMES = ["nathan", "mike", "jackson", "golda", "bertels"]


class Names(Spout):
    """Emits each name once. Its place in the list is its message id."""

    outputs = ["name"]

    def __init__(self) -> None:
        self.todo = list(range(len(NAMES)))  # a field: back after any loss

    def open(
        self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutOutputCollector
    ) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        if self.todo:
            number = self.todo.pop(0)
            self.collector.emit([NAMES[number]], msg_id=number)

    def fail(self, msg_id: Any, reason: str) -> None:
        self.todo.append(msg_id)

    def is_exhausted(self) -> bool:
        return not self.todo


class Exclaim(BasicBolt):
    """Adds exclamation marks. What it emits is anchored to its input, which is acked for it."""

    outputs = ["name"]

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        collector.emit([tup["name"] + "!!!"])


class Keep(BasicBolt):
    """Counts what arrives, for somebody to look at."""

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        self.state[tup["name"]] = self.state.get(tup["name"], 0) + 1
