"""What `open` or `prepare` connects to is away: it is tried again."""

import pytest

from fulmen import Bolt, TopologyBuilder
from fulmen.engine.driver.driver import Stop
from fulmen.engine.driver.observer import Silent
from fulmen.errors import TopologyFailed
from fulmen.testing import CollectBolt, ListSpout, run
from support.runs.engine_runs import make_driver


class BrokerAway(RuntimeError):
    """As clients of brokers have them."""


class Source(ListSpout):
    """One that is away for the first few calls of `open`."""

    failures = 0
    opened = closed = 0
    error = ConnectionRefusedError("no answer from broker:9092")

    def open(self, conf, context, collector):
        Source.opened += 1
        if Source.opened <= Source.failures:
            raise Source.error
        super().open(conf, context, collector)


class PinnedSource(Source):
    pinned = True


class Sink(Bolt):
    opened = closed = failures = 0

    def prepare(self, conf, context, collector):
        self.collector = collector
        Sink.opened += 1
        if context.task_index == 1 and Sink.failures:
            Sink.failures -= 1
            raise BrokerAway("no broker")

    def execute(self, tup):
        self.collector.ack(tup)

    def cleanup(self):
        Sink.closed += 1


@pytest.fixture(autouse=True)
def anew():
    Source.opened, Source.failures, Source.error = 0, 0, ConnectionRefusedError("no answer")
    Sink.opened = Sink.closed = Sink.failures = 0


def topology(spout=Source, **settings):
    builder = TopologyBuilder(**settings)
    builder.set_spout("source", spout(["a", "b"]))
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("source")
    return builder


@pytest.mark.parametrize("spout", [Source, PinnedSource])
@pytest.mark.parametrize("times", [1, 12])
def test_a_source_that_is_away_at_the_start_is_tried_again(spout, times):
    Source.failures = times
    result = run(topology(spout))

    assert [*map(list, result.collected("sink"))] == [["a"], ["b"]]
    assert result.report["failed_attempts"] == times
    message = "open: ConnectionRefusedError: no answer"
    assert f"run again: spout 'source', task 3: {message}" in result.notes[0]
    assert {e.message for e in result.errors} == {message}
    assert result.acked("source") == [0, 1]


@pytest.mark.parametrize(
    "error", [TimeoutError("slow"), OSError(113, "No route to host"), BrokerAway("no broker")]
)
def test_exceptions_that_are_about_a_service_are_tried_again(error):
    Source.failures, Source.error = 2, error

    assert run(topology()).report["failed_attempts"] == 2


@pytest.mark.parametrize(
    "error",
    [KeyError("topic"), ValueError("no"), RuntimeError("no"), FileNotFoundError("orders.csv")],
)
def test_exceptions_that_are_mistakes_stop_the_topology(error):
    Source.failures, Source.error = 1, error

    with pytest.raises(TopologyFailed, match=f"open: {type(error).__name__}"):
        run(topology())


@pytest.mark.parametrize("spout", [Source, PinnedSource])
def test_with_on_error_crash_any_exception_stops_the_topology(spout):
    Source.failures = 1

    with pytest.raises(
        TopologyFailed, match=r"^spout 'source', task 3: open: ConnectionRefusedError: no answer"
    ):
        run(topology(spout, on_error="crash"))


def test_a_topology_that_is_to_drain_does_not_wait_for_its_source():
    Source.failures = 100
    seen = []

    def enough(stop, reason):
        seen.append(reason)
        stop.drain = len(seen) == 3

    with pytest.raises(TopologyFailed, match="open: ConnectionRefusedError"):
        run_with_stop(topology(), enough)
    assert len(seen) == 3


def run_with_stop(builder, told):
    """Run a topology whose attempts' failures are told, with what can stop it."""
    stop = Stop()

    class Watching(Silent):
        def attempt_failed(self, number, reason):
            told(stop, reason)

    driver = make_driver(builder, observer=Watching()).start()
    try:
        driver.run(stop)
    finally:
        driver.close()


def test_a_bolt_whose_service_is_away_is_tried_again_and_others_are_closed_meanwhile():
    Sink.failures = 3
    builder = TopologyBuilder()
    builder.set_spout("source", ListSpout(range(6)))
    builder.set_bolt("sink", Sink, 3).shuffle_grouping("source")
    result = run(builder)

    assert result.report["failed_attempts"] == 3
    assert sorted(result.acked("source")) == [*range(6)]
    assert (Sink.opened, Sink.closed) == (3 * 2 + 3, 3 * 1 + 3)
