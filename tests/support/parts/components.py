"""Spouts and bolts that declare streams and do nothing."""

from abc import abstractmethod
from types import MappingProxyType

from fulmen import ArrowBolt, BasicBolt, Bolt, CustomStreamGrouping, Spout, Stream


class Sentences(Spout):
    outputs = ("sentence",)

    def next_tuple(self):
        pass


class PinnedSentences(Sentences):
    pinned = True


class Split(BasicBolt):
    outputs = MappingProxyType(
        {"default": ["word"], "errors": ["line", "reason"], "to-task": Stream(("x",), True)}
    )

    def execute(self, tup, collector):
        pass


class Count(Bolt):
    outputs = ("word", "count")

    def execute(self, tup):
        pass


class Sink(ArrowBolt):
    def execute(self, rows, collector):
        pass


class Limited(Count):
    def __init__(self, limit=1, names=()):
        self.limit = limit
        self.names = names


class NeedsArguments(Count):
    def __init__(self, path, limit, verbose=False):
        pass


class Unfinished(Bolt):
    pass


class UnfinishedBase(Count):
    @abstractmethod
    def parse(self):
        pass

    @abstractmethod
    def check(self):
        pass


class TwiceTheField(Count):
    outputs = ("word", "word")


class FieldsAreText(Count):
    outputs = MappingProxyType({"default": "word"})


class DeclarationRaises(Count):
    def declare_output_fields(self, declarer):
        raise KeyError("schema")


class ByWeight(CustomStreamGrouping):
    def choose_tasks(self, task_id, values):
        return []


class NotAComponent:
    pass


class Outer:
    class Inner(Count):
        pass


def a_function():
    pass
