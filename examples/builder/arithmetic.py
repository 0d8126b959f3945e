"""A spout and bolts that are made with arguments."""

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


class Range(Spout):
    """Emits the numbers from 0 up to an end."""

    outputs = ["number"]

    def __init__(self, end: int) -> None:
        self.todo = list(range(end))

    def open(
        self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutOutputCollector
    ) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        if self.todo:
            number = self.todo.pop(0)
            self.collector.emit([number], msg_id=number)

    def fail(self, msg_id: Any, reason: str) -> None:
        self.todo.append(msg_id)

    def is_exhausted(self) -> bool:
        return not self.todo


class Multiply(BasicBolt):
    """Multiplies by a constant."""

    outputs = ["number"]

    def __init__(self, by: int) -> None:
        self.by = by

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        collector.emit([tup["number"] * self.by])


class Sum(BasicBolt):
    """Adds up what each component sends."""

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        self.state[tup.component] = self.state.get(tup.component, 0) + tup["number"]
