"""A value that does not unpickle where it arrives: its tuple's trees fail, and no others."""

import threading

import pytest

from fulmen import BasicBolt, Spout, TopologyBuilder
from fulmen.errors import TopologyFailed
from fulmen.testing import ListSpout, run


class NeedsTwo(Exception):
    """Pickles, and does not unpickle."""

    def __init__(self, code, text):
        super().__init__(text)


class Makes(BasicBolt):
    outputs = ("n", "value")

    def execute(self, tup, collector):
        n = tup["n"]
        collector.emit([n, NeedsTwo(1, "text") if n % 20 == 7 else {"n": n}])


class Keeps(BasicBolt):
    def execute(self, tup, collector):
        self.state[tup["n"]] = tup["value"]["n"]


WHY = (
    "emit on stream 'default': the value of field 'value' can't be unpickled (TypeError:"
    " NeedsTwo.__init__() missing 1 required positional argument: 'text'), so bolt 'keeps' did not"
    " get it. pickle.loads(pickle.dumps(value)) must give the value again; or emit plain values"
)


def topology(count, **spec):
    builder = TopologyBuilder(workers=2, **spec)
    items = [[n] for n in range(count)]
    builder.set_spout("source", ListSpout(items, fields=["n"], replays=False))
    builder.set_bolt("makes", Makes, 2).shuffle_grouping("source")
    builder.set_bolt("keeps", Keeps, 2).fields_grouping("makes", ["n"])
    return builder


def test_only_the_trees_of_unreadable_values_fail():
    result = run(topology(400))
    bad = set(range(7, 400, 20))
    failed = dict(result.failed("source"))
    assert set(failed) == bad
    assert set(failed.values()) == {f"bolt 'makes': {WHY}"[:500]}
    assert result.state("keeps") == {n: n for n in range(400) if n not in bad}
    assert result.notes == []  # no batch came to nothing
    assert {(e.component, e.message) for e in result.errors} == {("makes", WHY)}
    assert sum(1 + e.more for e in result.errors) == len(bad)


def test_on_error_crash_ends_the_topology_by_the_name_of_who_emitted_it():
    with pytest.raises(TopologyFailed) as caught:
        run(topology(40, on_error="crash"))
    assert str(caught.value).startswith("bolt 'makes', task ")
    assert WHY in str(caught.value)


class EmitsBad(Spout):
    outputs = ("n", "value")
    pinned = True

    def __init__(self):
        self.n = 0

    def open(self, conf, context, collector):
        self.collector = collector

    def next_tuple(self):
        if self.n < 6:
            self.n += 1
            value = NeedsTwo(1, "text") if self.n == 3 else {"n": self.n}
            self.collector.emit([self.n, value], msg_id=self.n)
            return True
        return False

    def ack(self, msg_id):
        self.state[msg_id] = "acked"

    def fail(self, msg_id, reason):
        self.state[msg_id] = reason

    def is_exhausted(self):
        return self.n == 6


def test_those_of_a_pinned_spout_fail_as_well():
    builder = TopologyBuilder(workers=2)
    builder.set_spout("source", EmitsBad)
    builder.set_bolt("keeps", Keeps, 2).fields_grouping("source", ["n"])
    heard = run(builder).state("source")
    assert [heard[n] for n in (1, 2, 4, 5, 6)] == ["acked"] * 5
    assert heard[3] == f"spout 'source': {WHY}"[:500]


class Spouts(ListSpout):
    """The values of one of its messages can't be sent, however often."""

    value = None

    def declare_output_fields(self, declarer):
        declarer.declare(["n", "value", "more"])

    def __init__(self):
        super().__init__(list(range(10)))

    def _emit(self, place):
        value = {"n": place}
        if place == 7:
            value = (
                Spouts.value() if isinstance(Spouts.value, type(threading.Lock)) else Spouts.value
            )
        self._collector.emit([place, value, {"plain": place}], msg_id=place)


class Letters(BasicBolt):
    def execute(self, tup, collector):
        self.state[tup["msg_id"]] = (tup["values"], tup["failures"])


@pytest.mark.parametrize("value", [NeedsTwo(1, "text"), threading.Lock], ids=["loads", "dumps"])
def test_a_dead_letter_that_can_not_be_read_has_the_names_of_classes_instead(value):
    Spouts.value = value
    builder = TopologyBuilder(workers=2, max_replays=1)
    builder.set_spout("source", Spouts())
    builder.set_bolt("keeps", Keeps, 2).fields_grouping("source", ["n"])
    builder.set_bolt("letters", Letters, 2).all_grouping("source", "__dead_letters")
    result = run(builder, at_most=60)
    shown = f"<{__name__}.NeedsTwo>" if value is not threading.Lock else "<_thread.lock>"
    for task in (0, 1):
        assert result.state("letters", task) == {7: ([7, shown, {"plain": 7}], 2)}
    assert result.trees == {**result.trees, "acked": 10, "dead_lettered": 2}
