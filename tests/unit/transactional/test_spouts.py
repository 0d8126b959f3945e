"""Transactional spouts: what a transaction has, again and again, and after new beginnings."""

import pickle

import pytest

from fulmen.api import TopologyContext, output_streams
from fulmen.topology.builder import TopologyBuilder
from fulmen.transactional import MemoryTransactionalSpout
from fulmen.transactional.conformance import at


class Collector:
    """Keeps what is emitted."""

    def __init__(self):
        self.rows = []

    def emit(self, values, stream="default"):
        self.rows.append(list(values))


def context_of(task=0, tasks=1):
    return TopologyContext(
        "shop", "lines", task + 1, task, 0, component_tasks={"lines": range(1, tasks + 1)}
    )


def emitted(spout, metadata, tasks=1):
    """The rows of a transaction, of each task."""
    attempt, found = at(1), []
    for task in range(tasks):
        collector = Collector()
        emitter = spout.get_emitter({}, context_of(task, tasks))
        emitter.emit_batch(attempt, metadata, collector)
        assert all(row[0] == attempt for row in collector.rows)
        found.append([row[1:] for row in collector.rows])
    return found


DATA = {0: [["a"], ["b"], ["c"]], 1: [["d"]], 5: [["e"], ["f"]]}


class Words(MemoryTransactionalSpout):
    data = DATA
    fields = ("word",)
    take_amount = 2


@pytest.mark.parametrize(
    "spout", [Words(), MemoryTransactionalSpout(DATA, ["word"], 2)], ids=["derived", "object"]
)
def test_a_transaction_takes_at_most_so_many_rows_of_each_partition(spout):
    coordinator = spout.get_coordinator({}, context_of())
    first = coordinator.initialize_transaction(1, None)
    assert emitted(spout, first) == [[["a"], ["b"], ["d"], ["e"], ["f"]]]
    assert (coordinator.is_ready(), coordinator.is_exhausted(), coordinator.lag()) == (
        True,
        False,
        1,
    )
    second = coordinator.initialize_transaction(2, first)
    assert emitted(spout, second) == [[["c"]]]
    assert (coordinator.is_ready(), coordinator.is_exhausted(), coordinator.lag()) == (
        False,
        True,
        0,
    )
    assert emitted(spout, first) == [[["a"], ["b"], ["d"], ["e"], ["f"]]]
    assert emitted(spout, coordinator.initialize_transaction(3, second)) == [[]]


def test_a_new_coordinator_goes_on_where_the_last_transaction_ended():
    first = Words().get_coordinator({}, context_of()).initialize_transaction(1, None)
    coordinator = Words().get_coordinator({}, context_of())
    assert (coordinator.is_ready(), coordinator.is_exhausted(), coordinator.lag()) == (
        True,
        False,
        None,
    )
    assert emitted(Words(), coordinator.initialize_transaction(2, first)) == [[["c"]]]


def test_tasks_share_the_partitions():
    first = Words().get_coordinator({}, context_of()).initialize_transaction(1, None)
    assert emitted(Words(), first, tasks=2) == [[["a"], ["b"], ["e"], ["f"]], [["d"]]]
    assert emitted(Words(), first, tasks=4) == [[["a"], ["b"]], [["d"]], [["e"], ["f"]], []]


def test_the_first_field_is_the_attempt():
    assert output_streams(Words())["default"].fields == ("tx", "word")
    assert output_streams(Words)["default"].fields == ("tx", "word")


def test_a_spout_can_be_given_to_a_builder():
    spout = MemoryTransactionalSpout(DATA, ["word"], 2)
    assert vars(pickle.loads(pickle.dumps(spout))) == vars(spout)
    TopologyBuilder().set_spout("words", spout)


def test_a_transaction_of_no_rows_is_refused():
    with pytest.raises(ValueError, match="take_amount is 0, but must be 1 or more"):
        MemoryTransactionalSpout(DATA, ["word"], 0)
