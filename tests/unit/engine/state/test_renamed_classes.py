"""Values whose classes were renamed: they are read, and written anew under the new names."""

import pickle
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType

import pytest

from fulmen import BasicBolt, TopologyBuilder
from fulmen.checkpoint import load_many, read_newest
from fulmen.engine.state.values.renamed_classes import classes_in, loads, use_renamed
from fulmen.errors import TopologyFailed
from fulmen.testing import ListSpout, run

RENAMED = {"old_shapes.Thing": "new_shapes.Item", "old_shapes.Box": "new_shapes.Box"}


def shapes(module, thing):
    """A module with a class of that name, which has another class inside of it."""
    made = ModuleType(module)

    @dataclass(frozen=True)
    class Inner:
        size: int

    @dataclass
    class Outer:
        name: str
        inner: Inner

    @dataclass(eq=False)
    class Box:
        seen: int = 0

    for cls, name in ((Outer, thing), (Inner, f"{thing}.Inner"), (Box, "Box")):
        cls.__module__, cls.__qualname__ = module, name
    Outer.__name__, Outer.Inner = thing, Inner
    setattr(made, thing, Outer)
    made.Box = Box
    return made


@pytest.fixture
def modules(monkeypatch) -> Iterator[ModuleType]:
    """The module of before and that of after. A test takes the one of before away."""
    old, new = shapes("old_shapes", "Thing"), shapes("new_shapes", "Item")
    monkeypatch.setitem(sys.modules, "old_shapes", old)
    monkeypatch.setitem(sys.modules, "new_shapes", new)
    yield old, new
    use_renamed({})


class Keeps(BasicBolt):
    """Keeps objects in `self.state`, in a field of `__init__` and in one of `prepare`."""

    module = "old_shapes"
    outputs = ()

    def __init__(self):
        self.last = None

    def prepare(self, conf, context):
        self.box = sys.modules[self.module].Box()

    def execute(self, tup, collector):
        module = sys.modules[self.module]
        cls = module.Thing if self.module == "old_shapes" else module.Item
        self.last = cls(str(tup["value"]), cls.Inner(tup["value"]))
        self.state[self.last.inner] = [self.last]
        self.box.seen += 1


class KeepsAgain(Keeps):
    module = "new_shapes"


def topology(cls, values, **spec):
    builder = TopologyBuilder(**spec)
    builder.set_spout("source", ListSpout(values, ["value"]))
    builder.set_bolt("keeps", cls).shuffle_grouping("source")
    return builder


def names_in(store):
    manifest = read_newest(store)
    journals = load_many(store, manifest, [k for k in manifest.tasks if k.startswith("keeps/")])
    return b"".join(data for of in journals.values() for some in of.values() for data in some)


def test_values_of_renamed_classes_are_read_and_written_anew_at_once(modules, monkeypatch):
    result = run(topology(Keeps, [1, 2]))
    monkeypatch.delitem(sys.modules, "old_shapes")
    with pytest.raises(TopologyFailed, match="No module named 'old_shapes'"):
        run(topology(KeepsAgain, [1, 2]), checkpoint=result.checkpoint)
    new = topology(KeepsAgain, [1, 2], state_classes=RENAMED)
    result = run(new, checkpoint=result.checkpoint)
    item = modules[1].Item
    expected = {item.Inner(n): [item(str(n), item.Inner(n))] for n in (1, 2)}
    assert result.state("keeps") == expected
    assert b"old_shapes" not in names_in(result.checkpoint)
    last = run(topology(KeepsAgain, [1, 2]), checkpoint=result.checkpoint)  # without the map
    assert last.state("keeps") == expected
    assert last.fields("keeps")["box"].seen == 2


@pytest.mark.parametrize("protocol", range(6))
def test_the_classes_of_a_pickle_are_found_without_loading_it(modules, protocol):
    old, _ = modules
    value = {"a": [old.Thing("x", old.Thing.Inner(1)), old.Box], ("x", "x"): old.Box(), 1: {1.5}}
    pickled = pickle.dumps([value, value], protocol)
    found = {name for name in classes_in(pickled) if name.startswith("old_shapes")}
    wanted = {"old_shapes.Thing", "old_shapes.Thing.Inner", "old_shapes.Box"}
    if protocol < 4:  # before, what is inside of a class is found by getattr
        wanted.discard("old_shapes.Thing.Inner")
    assert found == wanted


def test_a_module_that_was_renamed_takes_all_its_classes_along(modules):
    old, new = modules
    use_renamed({"old_shapes": "new_shapes", "old_shapes.Thing": "new_shapes.Item"})
    assert loads(pickle.dumps([old.Box, old.Thing.Inner])) == [new.Box, new.Item.Inner]
