"""Names in `transient` that are no fields."""

import functools

import pytest

from fulmen import Bolt, TopologyBuilder
from fulmen.errors import DeclarationError, ValidationFailed
from fulmen.testing import BoltHarness, ListSpout, run
from fulmen.topology.code.transient import mistaken_transient


def connect(bolt):
    bolt.from_a_function = 1


def logged(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)

    return wrapper


class Caching(Bolt):
    transient = ("cache",)
    default = 1
    annotated: int

    def __init__(self):
        self.cache = {}

    def prepare(self, conf, context, collector):
        self.prepared = [conf for self.in_a_loop in "ab"]
        connect(self)

    @logged
    def execute(self, tup):
        self.lazy = 1

    @property
    def value(self):
        self.of_a_property = 1

    @functools.cached_property
    def model(self):
        self.of_a_cached_property = 1

    @staticmethod
    def fill(bolt):
        def inner():
            setattr(bolt, "by_name", 1)  # noqa: B010 (what is tested)

        inner()


class Misspelt(Caching):
    transient = ("cahce",)


class Strange(Caching):
    transient = ("zzzzzz",)


FIELDS = [
    *("cache", "default", "annotated", "prepared", "in_a_loop", "lazy", "of_a_property", "model"),
    *("of_a_cached_property", "by_name", "from_a_function"),
]


@pytest.mark.parametrize("name", FIELDS)
def test_a_name_that_some_method_sets_is_a_field(name):
    class Fine(Caching):
        transient = (name,)

    assert [*mistaken_transient(Fine()), *mistaken_transient(Fine)] == []


@pytest.mark.parametrize("kind", [type, object])
def test_a_misspelt_name_is_told_with_the_one_that_is_meant(kind):
    given = Misspelt if kind is type else Misspelt()
    message = "transient names 'cahce', but no field of that name is ever set"

    assert [*mistaken_transient(given)] == [(message, "Did you mean 'cache'?")]


def test_a_name_that_is_like_no_field_is_told_with_a_cure():
    [(_, cure)] = mistaken_transient(Strange())

    assert cure == "Take it out, or set the field in __init__."


def test_a_topology_with_a_misspelt_name_does_not_start():
    builder = TopologyBuilder()
    builder.set_spout("source", ListSpout([1]))
    builder.set_bolt("bolt", Misspelt).shuffle_grouping("source")

    with pytest.raises(ValidationFailed) as failure:
        run(builder)
    [problem] = failure.value.problems
    assert (problem.path, problem.cure) == ("spec.bolts[0].class", "Did you mean 'cache'?")


def test_a_harness_tells_of_a_misspelt_name():
    with pytest.raises(DeclarationError, match=r"'cahce'.* Did you mean 'cache'\?"):
        BoltHarness(Misspelt)
