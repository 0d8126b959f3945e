"""Sums amounts of money. Some are no numbers, and will never be: they become dead letters."""

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

AMOUNTS = ["12", "7", "a lot", "31", "", "50"]


class Amounts(Spout):
    """Emits each amount, and again when it has failed, however often."""

    outputs = ["amount"]

    def __init__(self) -> None:
        self.todo = list(range(len(AMOUNTS)))

    def open(
        self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutOutputCollector
    ) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        if self.todo:
            number = self.todo.pop(0)
            self.collector.emit([AMOUNTS[number]], msg_id=number)

    def fail(self, msg_id: Any, reason: str) -> None:
        self.todo.append(msg_id)

    def is_exhausted(self) -> bool:
        return not self.todo


class Sum(BasicBolt):
    """Adds up. What is no number fails, before anything was changed."""

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        try:
            amount = int(tup["amount"])
        except ValueError:
            raise FailedException(f"no number: {tup['amount']!r}") from None
        self.state["sum"] = self.state.get("sum", 0) + amount


class Quarantine(BasicBolt):
    """Keeps the dead letters. One might write them to a table, or send them to somebody."""

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        self.state[tup["msg_id"]] = f"{tup['reason']}, {tup['failures']} times"
