"""Looks up the country of each city with an HTTP service, many at a time."""

import json
from collections.abc import Mapping
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

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
        self.todo.append(msg_id)  # the service did not answer: ask again

    def is_exhausted(self) -> bool:
        return not self.todo


class Lookup(BasicBolt):
    """Asks the service. Its executors wait beside each other, because the bolt is `blocking`."""

    outputs = ["city", "country"]

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        self.url = conf["url"]

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        city = tup["city"]
        try:
            with urlopen(f"{self.url}/{quote(city)}", timeout=10) as answer:
                country = json.load(answer)["country"]
        except HTTPError as error:
            if error.code != 404:
                raise  # fails the tuple, and is reported
            country = "unknown"
        collector.emit([city, country])


class Countries(BasicBolt):
    """Keeps the cities of each country."""

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        cities = self.state.get(tup["country"], [])
        self.state[tup["country"]] = sorted({*cities, tup["city"]})
