"""New code, looked at before it goes on: can it read what a checkpoint has?"""

import sys
from types import ModuleType

import pytest

from fulmen import BasicBolt, TopologyBuilder
from fulmen.engine.driver.edits.state_check import mistakes_in_state
from fulmen.engine.state.values.renamed_classes import use_renamed
from fulmen.testing import ListSpout, run


class Item:
    """A class without declared fields."""

    def __init__(self, n):
        self.n = n


class Thing(Item):
    pass


class Refuses(Item):
    """It can be written, and can't be read if the code says so."""

    is_refused = False

    def __setstate__(self, state):
        if self.is_refused:
            raise ValueError("no")
        self.__dict__.update(state)


@pytest.fixture(autouse=True)
def shapes(monkeypatch):
    module = ModuleType("shapes")
    for cls in (Item, Thing, Refuses):
        monkeypatch.setattr(cls, "__module__", "shapes")
        setattr(module, cls.__name__, cls)
    monkeypatch.setitem(sys.modules, "shapes", module)
    yield module
    use_renamed({})


class Keeps(BasicBolt):
    def execute(self, tup, collector):
        n = tup["value"]
        cls = (Item, Thing, Refuses)[n % 3]
        self.state[f"key {n}"] = [cls(n)]


class Forgets(Keeps):
    def execute(self, tup, collector):
        self.state.clear()


def topology(values, cls=Keeps, name="keeps", **spec):
    builder = TopologyBuilder(**spec)
    builder.set_spout("source", ListSpout(values, ["value"]))
    builder.set_bolt(name, cls, 2).fields_grouping("source", ["value"])
    return builder


def told(result, builder):
    return [str(p) for p in mistakes_in_state(result.checkpoint, builder.build())]


def test_nothing_is_said_of_state_that_can_be_read():
    assert told(run(topology([0, 1, 2])), topology([])) == []


def test_a_value_of_a_class_that_is_gone_is_found_with_its_key(shapes):
    result = run(topology([0, 1]))
    del shapes.Thing
    [text] = told(result, topology([]))
    assert text.startswith("spec.bolts[0]: component 'keeps', task ")
    assert "state 'key 1': AttributeError: Can't get attribute 'Thing' on" in text
    assert text.endswith(
        " If shapes.Thing was renamed or moved, say so in spec.stateClasses, as {old: new}."
        " `fulmen state get CHECKPOINT keeps --kind unreadable` shows all that can't be read."
    )
    assert told(result, topology([], state_classes={"shapes.Thing": "shapes.Item"})) == []


def test_a_component_that_is_renamed_is_looked_at_under_its_old_name(shapes):
    result = run(topology([1]))
    del shapes.Thing
    [text] = told(result, topology([], name="kept", renames={"keeps": "kept"}))
    assert "component 'kept', task" in text
    assert told(result, topology([], name="kept")) == []  # it begins with nothing


def test_a_class_whose_values_are_all_gone_is_not_missed(shapes):
    result = run(topology([1], Keeps))
    result = run(topology([1, 1, 1, 1], Forgets), checkpoint=result.checkpoint)
    del shapes.Thing
    assert told(result, topology([])) == []


def test_a_value_that_its_class_refuses_is_found_in_a_sample(monkeypatch):
    result = run(topology([2]))
    monkeypatch.setattr(Refuses, "is_refused", True)
    [text] = told(result, topology([]))
    assert "state 'key 2': ValueError: no" in text


def test_a_number_of_tasks_that_can_not_be_is_found():
    result = run(topology([0, 1]))
    tasks = {"keeps": {"num_tasks": 3}}
    another = topology([]).build().with_each(lambda one: tasks.get(one.name, {}))
    [problem] = mistakes_in_state(result.checkpoint, another)
    assert "component 'keeps' can't have 3 instead of 2 tasks: self.state has the key" in str(
        problem
    )


def test_what_was_not_looked_at_in_time_is_a_warning(shapes):
    result = run(topology([1]))
    del shapes.Thing
    ticks = iter(range(0, 10**6, 100))
    store = result.checkpoint
    [problem] = mistakes_in_state(store, topology([]).build(), lambda: next(ticks))
    assert problem.severity == "warning"
    assert "has had values of class shapes.Thing, which can't be found" in problem.message
