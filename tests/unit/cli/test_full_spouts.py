"""That maxSpoutPending is reached and nobody acks is said long before the timeout."""

import io
import json

import pytest
from rich.console import Console

from fulmen import BasicBolt, Bolt, TopologyBuilder
from fulmen.cli.commands.cluster.top import read_view
from fulmen.cli.display.run.advice import advice
from fulmen.cli.display.run.wait_lines import WaitFigures
from fulmen.cli.display.top_view import topology_picture
from fulmen.metrics.as_json.topology import TopologyJson
from fulmen.metrics.snapshot import Snapshot
from fulmen.testing import ListSpout, ManualClock
from support.runs.engine_runs import Steady, make_driver, new_store


class Window(Bolt):
    """Acks what it has when it has `size` tuples."""

    def __init__(self, size):
        self.size, self.held = size, []

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        self.held.append(tup)
        if len(self.held) == self.size:
            for held in self.held:
                self.collector.ack(held)
            self.held = []


class Passes(BasicBolt):
    outputs = ("n",)

    def execute(self, tup, collector):
        collector.emit(tup.values)


SENTENCE = (
    "'orders' emits nothing: 10 messages are pending, as many as maxSpoutPending allows, and none"
    " has ended for {} s; 'window' has not acked all that it received"
)


@pytest.fixture
def started():
    def start(size, limit=10):
        b = TopologyBuilder("t", max_spout_pending=limit)
        b.set_spout("orders", ListSpout(range(1000)))
        b.set_bolt("passes", Passes).shuffle_grouping("orders")
        b.set_bolt("window", Window(size)).shuffle_grouping("passes")
        clock, store = ManualClock(), new_store()
        return make_driver(
            b, store=store, clock=clock, jobs=Steady(clock, 1.0, store=store)
        ).start()

    return start


def after(running, batches):
    for _ in range(batches):
        assert running.step()
    return running.totals


def test_it_is_said_after_some_seconds_and_for_how_long(started):
    running = started(size=100)
    assert WaitFigures.of(after(running, 5)).sentences == ()
    assert WaitFigures.of(after(running, 1)).sentences == (SENTENCE.format(5),)
    totals = after(running, 7)
    assert WaitFigures.of(totals).sentences == (SENTENCE.format(12),)
    assert [*advice(totals, totals.placed.topology)] == [SENTENCE.format(12)]


def test_top_says_it(started):
    now = Snapshot.of(after(started(size=100), 13))
    view = read_view(json.dumps(TopologyJson(now, now, []).json()), "pod")
    console = Console(file=io.StringIO(), width=200)
    console.print(topology_picture(view, "Active"))
    assert SENTENCE.format(12) in console.file.getvalue()


@pytest.mark.parametrize(("size", "limit"), [(10, 10), (100, None)])
def test_nothing_is_said_of_a_spout_whose_messages_end_or_that_may_emit_more(started, size, limit):
    assert WaitFigures.of(after(started(size, limit), 13)).sentences == ()
