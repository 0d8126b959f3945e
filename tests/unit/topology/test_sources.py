"""What is read of classes' source files."""

import inspect

from fulmen import BasicBolt
from fulmen.topology.code.class_state import kept_in_class
from fulmen.topology.code.sources import class_tree
from fulmen.topology.code.streamparse import leftovers


class Keeps(BasicBolt):
    seen = []  # noqa: RUF012

    def execute(self, tup, collector):
        self.seen.append(tup)
        collector.emit([1])


def test_the_source_of_a_class_is_read_once(monkeypatch):
    asked, getsource = [], inspect.getsource
    monkeypatch.setattr(inspect, "getsource", lambda cls: asked.append(cls) or getsource(cls))
    for _ in range(3):
        assert [message for message, _ in kept_in_class(Keeps())] != []
        assert list(leftovers(Keeps())) == []
    assert asked.count(Keeps) == 1


def test_a_class_without_a_source_has_no_tree():
    assert class_tree(type("Made", (), {})) is None
