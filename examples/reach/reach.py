"""How many people have seen a URL: all who follow somebody who has posted it."""

from collections.abc import Iterable, Sequence
from typing import Any

from fulmen import BasicBolt, BasicOutputCollector, Tuple
from fulmen.connectors.http import CallBolt

POSTED_BY = {
    "news.example/moon": ["iris", "jonas", "kim"],
    "shop.example/lamp": ["kim"],
}
FOLLOWERS = {
    "iris": ["jonas", "kim", "lea", "mara", "nils"],
    "jonas": ["iris", "kim", "mara", "otto"],
    "kim": ["iris", "lea", "nils", "paula", "quinn"],
}


class Posters(BasicBolt):
    """Emits everybody who has posted the URL."""

    outputs = ("call", "poster")

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        for poster in POSTED_BY.get(tup["url"], ()):
            collector.emit([tup["call"], poster])


class Followers(BasicBolt):
    """Emits the followers of a poster. Some follow several: they come more than once."""

    outputs = ("call", "follower")

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        for follower in FOLLOWERS.get(tup["poster"], ()):
            collector.emit([tup["call"], follower])


class Distinct(CallBolt):
    """Counts the people of this task. Equal ones come to the same task."""

    outputs = ("call", "count")

    def finish(self, call: str, tuples: Sequence[Tuple]) -> Iterable[Sequence[Any]]:
        yield [len({tup["follower"] for tup in tuples})]


class Total(CallBolt):
    """Adds what the tasks have counted. It gets the call itself, too: so it answers with 0."""

    outputs = ("call", "reach")

    def finish(self, call: str, tuples: Sequence[Tuple]) -> Iterable[Sequence[Any]]:
        yield [sum(tup["count"] for tup in tuples if tup.component == "distinct")]
