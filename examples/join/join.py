"""Joins orders with their payments: two streams, by key, each tuple acked when its partner came."""

from collections.abc import Mapping
from typing import Any

from fulmen import Bolt, OutputCollector, Spout, SpoutOutputCollector, TopologyContext, Tuple

ORDERS = {1: "tea", 2: "milk", 3: "bread", 4: "salt"}
PAYMENTS = {3: 310, 1: 450, 2: 120, 9: 5000}  # nobody has paid 4, and nobody has ordered 9


class Items(Spout):
    """Emits the items of a dictionary. What can't be joined is given up, and kept in the state."""

    items: Mapping[int, Any]

    def __init__(self) -> None:
        self.todo = list(self.items)

    def open(
        self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutOutputCollector
    ) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        if self.todo:
            order = self.todo.pop(0)
            self.collector.emit([order, self.items[order]], msg_id=order)

    def fail(self, msg_id: Any, reason: str) -> None:
        self.state[msg_id] = reason

    def is_exhausted(self) -> bool:
        return not self.todo


class Orders(Items):
    """What was ordered."""

    outputs = ["order", "what"]
    items = ORDERS


class Payments(Items):
    """What was paid, in another order."""

    outputs = ["order", "cents"]
    items = PAYMENTS


class Join(Bolt):
    """Keeps each tuple until its partner comes, emits both as one, and only then acks them.

    The joined tuple is anchored to both: if it fails, both fail, and both spouts are told. A tuple
    without a partner is failed at the second tick after it came. Without that it would time out,
    and stay here for good.
    """

    outputs = ["order", "what", "cents"]

    def __init__(self) -> None:
        self.new: dict[int, Tuple] = {}  # kept tuples are durable, like any field
        self.old: dict[int, Tuple] = {}

    def prepare(
        self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector
    ) -> None:
        self.collector = collector

    def execute(self, tup: Tuple) -> None:
        if tup.is_tick():
            for kept in self.old.values():
                self.collector.fail(kept, f"nothing came to join with {kept.component}")
            self.new, self.old = {}, self.new
            return
        order = tup["order"]
        other = self.new.pop(order, None) or self.old.pop(order, None)
        if other is None:
            self.new[order] = tup
            return
        both = tup.as_dict() | other.as_dict()
        values = [both[field] for field in self.outputs]
        self.collector.emit(values, anchors=[tup, other])
        self.collector.ack(tup)
        self.collector.ack(other)


class Paid(Bolt):
    """Keeps the joined tuples."""

    def prepare(
        self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector
    ) -> None:
        self.collector = collector

    def execute(self, tup: Tuple) -> None:
        self.state[tup["order"]] = f"{tup['what']} for {tup['cents']}"
        self.collector.ack(tup)
