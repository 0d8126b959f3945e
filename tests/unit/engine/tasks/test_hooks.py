"""What an author's code hears of a batch: its number, its end, and its commit."""

import itertools

import pytest

from fulmen import ArrowBolt, BasicBolt, Bolt, TopologyBuilder
from fulmen.engine.worker.in_process import Crash
from fulmen.errors import TopologyFailed
from fulmen.testing import CollectBolt, ListSpout, run

HEARD = []


@pytest.fixture(autouse=True)
def heard():
    HEARD.clear()
    return HEARD


class Gathers(BasicBolt):
    """Emits one tuple for each batch: how many it had."""

    outputs = ("count",)

    def __init__(self):
        self.count = self.all = 0

    def prepare(self, conf, context):
        self.context = context

    def execute(self, tup, collector):
        self.count += 1
        self.all += 1

    def end_batch(self, collector):
        batch = self.context.batch
        HEARD.append(("end", batch.number, batch.attempt, self.count))
        collector.emit([self.count])
        self.count = 0

    def committed(self, number):
        HEARD.append(("committed", number, self.all))


class GathersArrow(ArrowBolt):
    outputs = ("count",)

    def __init__(self):
        self.count = 0

    def execute(self, batch, collector):
        self.count += batch.num_rows

    def end_batch(self, collector):
        HEARD.append(("end", self.count))
        self.count = 0


class AcksAtTheEnd(Bolt):
    """Acks what has an even number, and fails the others, when the batch ends."""

    def __init__(self):
        self.kept = []

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        self.kept.append(tup)

    def end_batch(self):
        for tup in self.kept:
            if tup[0] % 2:
                self.collector.fail(tup, "odd")
            else:
                self.collector.ack(tup)
        self.kept.clear()


def pipeline(bolt, values=30, **spec):
    b = TopologyBuilder("t", **spec)
    b.set_spout("source", ListSpout([[i] for i in range(values)], replays=False))
    b.set_bolt("bolt", bolt).shuffle_grouping("source")
    if bolt is Gathers:
        b.set_bolt("counts", CollectBolt).shuffle_grouping("bolt")
    return b


def test_the_end_of_a_batch_comes_after_its_tuples_and_only_where_there_were_some(heard):
    result = run(pipeline(Gathers), ackers=1)
    ends = [one for one in heard if one[0] == "end"]
    assert sum(count for *_, count in ends) == 30
    assert all(count for *_, count in ends)
    assert [row[0] for row in result.collected("counts")] == [count for *_, count in ends]
    assert len({number for _, number, _, _ in ends}) == len(ends)
    assert all(attempt for _, _, attempt, _ in ends)


def test_each_commit_that_changed_a_task_is_told_before_the_topology_drains(heard):
    run(pipeline(Gathers))
    kinds = [one[0] for one in heard]
    assert "committed" in kinds
    assert heard[-1][0] == "committed"
    assert heard[-1][2] == 30
    for end, told in itertools.pairwise(heard):
        if end[0] == "end":
            assert told[0] == "committed"
            assert told[1] == end[1]  # what ended as batch n is commit n


def test_after_a_loss_the_commit_that_was_restored_is_told(heard):
    lost = []

    def fault(stage, worker, moment):
        if len(heard) >= 1 and not lost and moment == "after":
            lost.append(len(heard))
            raise Crash

    result = run(pipeline(Gathers), fault=fault)
    assert lost
    told = [one for one in heard if one[0] == "committed"]
    assert told[-1][2] == 30
    assert result.trees["acked"] == 30 + 1  # and the tree of what it emits
    numbers = [one[1] for one in told]
    assert numbers == sorted(numbers)


def test_a_bolt_may_ack_and_fail_at_the_end_of_a_batch():
    result = run(pipeline(AcksAtTheEnd))
    assert sorted(result.acked("source")) == list(range(0, 30, 2))
    assert sorted(result.failed("source")) == [(i, "odd") for i in range(1, 30, 2)]


def test_an_arrow_bolt_hears_the_end_too(heard):
    run(pipeline(GathersArrow))
    assert sum(count for _, count in heard) == 30


class RaisesAtTheEnd(Gathers):
    def end_batch(self, collector):
        raise ValueError("the end is bad")


class RaisesAtCommit(Gathers):
    def committed(self, number):
        raise ValueError(f"bad {number > 0}")


@pytest.mark.parametrize(
    ("bolt", "told"),
    [
        (RaisesAtTheEnd, "end_batch: ValueError: the end is bad"),
        (RaisesAtCommit, "committed: ValueError: bad True"),
    ],
)
def test_exceptions_of_hooks_are_reported_or_stop_the_topology(bolt, told):
    result = run(pipeline(bolt))
    assert told in str(result.errors[0])
    assert result.trees["acked"] == 30
    with pytest.raises(TopologyFailed, match=told):
        run(pipeline(bolt, on_error="crash"))


class CountsCommits(Bolt):
    """Changes a field whenever it hears of a commit."""

    def __init__(self):
        self.commits = 0

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        self.collector.ack(tup)

    def committed(self, number):
        self.commits += 1
        HEARD.append(number)


def test_what_committed_itself_changes_is_no_reason_to_call_it_again(heard):
    result = run(pipeline(CountsCommits, values=5), batches=40)
    assert len(heard) < 10
    assert result.fields("bolt")["commits"] == len(heard)
