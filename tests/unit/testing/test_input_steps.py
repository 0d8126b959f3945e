"""`where` and `select` of inputs, in whole topologies."""

from collections import Counter

import pyarrow as pa
import pytest

from fulmen import (
    ArrowSpout,
    BasicBolt,
    BatchBolt,
    Bolt,
    FailedException,
    Stream,
    TopologyBuilder,
    TransactionalTopologyBuilder,
)
from fulmen.testing import CollectBolt, ListSpout, run
from fulmen.transactional import MemoryTransactionalSpout
from fulmen.windows import Aggregate

BIDS = [[i, 3 * i, None if i % 7 == 0 else "buy"] for i in range(200)]
FIELDS = ["auction", "price", "kind"]


def bids(**of):
    builder = TopologyBuilder(message_timeout_seconds=3, **of)
    builder.set_spout("bids", ListSpout(BIDS, FIELDS), 2)
    return builder


@pytest.mark.parametrize("workers", [1, 3])
def test_rows_are_divided_by_new_fields_and_what_is_left_out_is_acked(workers):
    builder = bids()
    one = builder.set_bolt("one", Tasks, 3).fields_grouping("bids", ["last"])
    one.where("auction % 2 = 0").select({"last": "auction % 10", "kind": "coalesce(kind, '-')"})
    builder.set_bolt("all", CollectBolt).global_grouping("bids")
    result = run(builder, workers=workers, emits=True)
    told = [row for name, _, row in result.emits if name == "one"]
    wanted = [[i % 10, kind or "-"] for i, _, kind in BIDS if i % 2 == 0]
    assert Counter((a, b) for a, b, _ in told) == Counter(map(tuple, wanted))
    assert all(len({task for last, _, task in told if last == n}) == 1 for n in range(0, 10, 2))
    assert len({task for *_, task in told}) > 1
    assert sorted(result.collected("all")) == BIDS
    assert sorted(result.acked("bids")) == [*range(200)]
    counts = result.report["components"]
    assert counts["one"]["executed"] == len(wanted)


class Tasks(BasicBolt):
    """Emits what it gets with the task that got it."""

    outputs = ("last", "kind", "task")

    def prepare(self, conf, context):
        assert [*context.inputs.values()] == [Stream(("last", "kind"))]
        self.task = context.task_id

    def execute(self, tup, collector):
        assert tup.fields == ("last", "kind")
        collector.emit([*tup.values, self.task])


@pytest.mark.parametrize("ackers", [0, 1])
def test_a_row_that_fails_fails_its_tree_alone_and_goes_to_others_all_the_same(ackers):
    builder = TopologyBuilder(message_timeout_seconds=3, max_replays=2)
    rows = [[1, "a"], [2, 5], [3, "c"]]
    builder.set_spout("source", ListSpout(rows, ["n", "text"]))
    builder.set_bolt("upper", CollectBolt).shuffle_grouping("source").select({"t": "upper(text)"})
    builder.set_bolt("all", CollectBolt).shuffle_grouping("source")
    builder.set_bolt("dead", CollectBolt).shuffle_grouping("source", "__dead_letters")
    result = run(builder, ackers=ackers)
    assert result.collected("upper") == [("A",), ("C",)]
    reason = (
        "bolt 'upper', input from 'source': select t 'upper(text)': there is no upper(BIGINT)"
        " (column 1) (text is 5)"
    )
    assert {error.message for error in result.errors} == {reason}
    if ackers:
        assert result.collected("all") == [[1, "a"], [2, 5], [3, "c"], [2, 5]]
        (dead,) = result.collected("dead")
        assert (dead[1], dead[3], dead[4]) == ([2, 5], 2, reason)


def test_rows_of_record_batches_are_filtered_as_they_are_and_selected_as_rows():
    builder = TopologyBuilder()
    builder.set_spout("source", Batches)
    builder.set_bolt("some", CollectBolt).shuffle_grouping("source").where("n > 2 and t <> 'x'")
    builder.set_bolt("new", CollectBolt).shuffle_grouping("source").select({"m": "n * 2"})
    result = run(builder)
    assert [[*row] for row in result.collected("some")] == [[3, "b"]]
    assert result.collected("new") == [(2,), (6,), (8,)]


class Batches(ArrowSpout):
    """Emits one record batch."""

    outputs = ("n", "t")

    def open(self, conf, context, collector):
        self.collector, self.is_done = collector, False

    def next_tuple(self):
        if not self.is_done:
            self.is_done = True
            self.collector.emit(pa.record_batch({"n": [1, 3, 4], "t": ["a", "b", "x"]}))

    def is_exhausted(self):
        return self.is_done


class Chooses(Bolt):
    """Asks where its tuples go, and names the task of others."""

    outputs = {"asked": Stream(("n",)), "direct": Stream(("n",), direct=True)}  # noqa: RUF012

    def prepare(self, conf, context, collector):
        self.collector, self.context, self.state["asked"] = collector, context, {}

    def execute(self, tup):
        n = tup["auction"]
        asked = self.collector.emit([n], "asked", [tup], need_task_ids=True)
        self.state["asked"][n] = asked
        target = self.context.tasks("direct")[n % 2]
        self.collector.emit_direct(target, [n], "direct", [tup])
        self.collector.ack(tup)


def test_tasks_that_are_asked_for_or_named_are_of_the_rows_that_are_taken():
    builder = bids()
    builder.set_bolt("chooses", Chooses).shuffle_grouping("bids")
    to = builder.set_bolt("asked", CollectBolt, 2).fields_grouping("chooses", ["m"], "asked")
    to.where("n % 3 = 0").select({"m": "n % 6"})
    direct = builder.set_bolt("direct", CollectBolt, 2).direct_grouping("chooses", "direct")
    direct.where("n % 5 = 2").select({"n": "-n"})
    result = run(builder)
    asked = result.state("chooses")["asked"]
    assert all(len(tasks) == (n % 3 == 0) for n, tasks in asked.items())
    assert sorted(row[0] for row in result.collected("asked")) == sorted(
        n % 6 for n in range(200) if n % 3 == 0
    )
    assert sorted(-n for (n,) in result.collected("direct")) == [*range(2, 200, 5)]


@pytest.mark.parametrize("partial", [False, True])
def test_windows_get_the_time_by_its_new_name_also_if_partial_results_are_sent(partial):
    config = {
        "window": {"type": "tumbling", "size": "1s"}, "key": ["k"],
        "aggregates": {"n": "count", "most": "max(euros)"},
    }  # fmt: skip
    rows = [[i % 3, i * 100, float(i)] for i in range(40)]
    found = []
    for select in (None, {"k": "a % 2", "when": "at", "euros": "price * 2"}):
        builder = TopologyBuilder(workers=2)
        if select is None:  # as a bolt would have made it
            rows_now = [[a % 2, at, price * 2] for a, at, price in rows if price > 5]
            source = builder.set_spout("source", ListSpout(rows_now, ["k", "when", "euros"]))
            source.set_event_time("when", unit="ms")
        else:
            source = builder.set_spout("source", ListSpout(rows, ["a", "at", "price"]))
            source.set_event_time("at", unit="ms")
        bolt = builder.set_bolt("windows", Aggregate, 2).set_config(
            {**config, **({"partial": True} if partial else {})}
        )
        bolt.fields_grouping("source", ["k"])
        if select is not None:
            bolt.where("price > 5").select(select)
        builder.set_bolt("out", CollectBolt).global_grouping("windows")
        found.append(sorted(map(list, run(builder).collected("out"))))
    assert found[0] == found[1]
    assert len(found[0]) == 8


def test_a_row_for_which_no_task_can_be_chosen_fails_its_own_tree():
    builder = TopologyBuilder(max_replays=1)
    rows = [[1, "a"], [2, "b"], [3, object()], [4, "d"]]
    builder.set_spout("source", ListSpout(rows, ["n", "x"]))
    bolt = builder.set_bolt("keyed", CollectBolt, 2).fields_grouping("source", ["k"])
    bolt.where("n > 1").select({"k": "x", "n": "n * 10"})
    result = run(builder)
    assert sorted(result.collected("keyed")) == [("b", 20), ("d", 40)]
    assert [msg_id for msg_id, _ in result.failed("source")] == [2]
    assert sorted(set(result.acked("source"))) == [0, 1, 2, 3]  # 2: given up


class Sums(BatchBolt):
    """Sums up the first value behind the attempt."""

    outputs = ("tx", "sum", "fields")

    def prepare(self, conf, context, collector, tx):
        self.collector, self.tx, self.sum, self.fields = collector, tx, 0, ()
        assert [*context.inputs.values()] == [Stream(("tx", "n"))]

    def execute(self, tup):
        assert tup[0] == self.tx
        self.sum, self.fields = self.sum + tup["n"], tup.fields

    def finish_batch(self):
        self.collector.emit([self.tx, self.sum, list(self.fields)])


def test_a_transaction_keeps_its_attempt_and_is_tried_again_if_a_row_fails():
    rows = {0: [[1, "2"], [2, "x"], [3, "40"]], 1: [[4, "500"], [5, "6000"], [6, "7"]]}
    spout = MemoryTransactionalSpout(rows, ["id", "text"], 3)
    builder = TransactionalTopologyBuilder("sums", "spout", spout)
    bolt = builder.set_bolt("sums", Sums).global_grouping("spout")
    bolt.where("id % 2 = 0 and id <> 2").select({"n": "cast(text as bigint)"})
    result = run(builder, emits=True)
    assert [row[1:] for row in result.emitted("sums")] == [[507, ["tx", "n"]]]
    assert result.errors == []
    bolt.where("id % 2 = 0")
    failed = run(builder, until=lambda result: len(result.errors) > 1)
    assert (
        "bolt 'sums', input from 'spout': select n 'cast(text as bigint)'"
        in failed.errors[0].message
    )
    assert "text is 'x'" in failed.errors[0].message


class Refuses(BasicBolt):
    """Fails what has a certain number."""

    outputs = ()

    def execute(self, tup, collector):
        if tup["m"] % 40 == 0:
            raise FailedException("refused")


@pytest.mark.parametrize("tasks", [1, 3])
def test_who_fails_a_row_fails_the_message_that_it_was_made_of(tasks):
    builder = TopologyBuilder(max_replays=1)
    builder.set_spout("bids", ListSpout(BIDS, FIELDS))
    bolt = builder.set_bolt("refuses", Refuses, tasks).shuffle_grouping("bids")
    bolt.where("auction % 4 = 0").select({"m": "auction"})
    result = run(builder, workers=tasks)
    assert sorted(msg_id for msg_id, _ in result.failed("bids")) == [0, 40, 80, 120, 160]
