"""Cities whose countries an HTTP service knows, and what becomes of the answers."""

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

CITIES = ["Paris", "Lagos", "Lima", "Oslo", "Lyon", "Quito", "Atlantis", "Kano", "Bergen", "Cusco"]


class Cities(Spout):
    """Emits each city."""

    outputs = ["city"]

    def __init__(self) -> None:
        self.todo = list(CITIES)

    def open(
        self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutOutputCollector
    ) -> None:
        self.collector = collector

    def next_tuple(self) -> None:
        if self.todo:
            city = self.todo.pop(0)
            self.collector.emit([city], msg_id=city)

    def fail(self, msg_id: Any, reason: str) -> None:
        self.todo.append(msg_id)  # the service refused it: ask again

    def is_exhausted(self) -> bool:
        return not self.todo


class Countries(BasicBolt):
    """Keeps the cities of each country. The country of one that the service lacks is null."""

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        country = tup["country"] or "unknown"
        cities = self.state.get(country, [])
        self.state[country] = sorted({*cities, tup["city"]})
