"""While a store is away, the sinks beside it don't write their batch again at each attempt."""

import pytest

from fulmen import BasicBolt, ServiceUnavailable, Sink, TopologyBuilder
from fulmen.engine.batches.failures.blame import Fault, VoidAttempt
from fulmen.engine.driver.driver import Stop
from fulmen.testing import ManualClock
from support.runs.engine_runs import Numbers, Steady, make_driver, new_store

ROWS = 6


class Stores:
    """What the sinks of this process write to."""

    away = False
    beside = []  # noqa: RUF012
    behind = []  # noqa: RUF012


class PinnedNumbers(Numbers):
    pinned = True


class Beside(Sink):
    """Its store is always there."""

    def write(self, rows, mark):
        Stores.beside += [row[0] for row in rows]


class Relay(BasicBolt):
    """Has the sink behind it in a later stage, so that `Beside` has written when that one fails."""

    outputs = ("value",)

    def execute(self, tup, collector):
        collector.emit([tup[0]])


class ConnectsAtWrite(Sink):
    """Its `prepare` can't tell that the store is away."""

    def write(self, rows, mark):
        self.connect()
        Stores.behind += [row[0] for row in rows]

    def connect(self):
        if Stores.away:
            raise ServiceUnavailable("PostgreSQL", "refused")


class Connects(ConnectsAtWrite):
    """As the connectors do."""

    def prepare(self, conf, context):
        self.connect()


@pytest.fixture(autouse=True)
def anew():
    Stores.away, Stores.beside, Stores.behind = True, [], []


def started(sink, spout=Numbers):
    builder = TopologyBuilder("probe", workers=2)
    builder.set_spout("source", spout).set_config({"limit": ROWS})
    builder.set_bolt("beside", Beside).shuffle_grouping("source")
    builder.set_bolt("relay", Relay).shuffle_grouping("source")
    builder.set_bolt("behind", sink).shuffle_grouping("relay")
    clock, store = ManualClock(100.0), new_store()
    jobs = Steady(clock, store=store)
    return make_driver(builder, store=store, clock=clock, jobs=jobs).start()


def steps(running, count):
    """How the next attempts end."""
    return [running.step() for _ in range(count)]


def finish(running):
    Stores.away = False
    running.run(Stop(when_drained=True))
    running.close()
    assert sorted(Stores.behind) == [*range(ROWS)]


@pytest.mark.parametrize("spout", [Numbers, PinnedNumbers])
def test_a_batch_is_written_once_while_the_store_of_another_sink_is_away(spout):
    running = started(Connects, spout)
    ended = steps(running, 10)
    while len(Stores.beside) < ROWS:  # a pinned spout emits in a thread of its own
        ended += steps(running, 1)
    assert not any(ended)
    assert sorted(Stores.beside) == [*range(ROWS)]
    finish(running)
    assert sorted(Stores.beside) == sorted(2 * [*range(ROWS)])


def test_a_sink_that_connects_only_to_write_is_asked_once_without_rows():
    running = started(ConnectsAtWrite)
    assert steps(running, 6) == [False, True, False, False, False, False]
    assert [*running.totals.waits.away] == ["behind"]
    finish(running)


def test_each_outage_is_asked_for_anew():
    running = started(Connects)
    running.step()
    Stores.away = False
    assert steps(running, 2) == [True, True]
    assert Stores.behind
    running.coordinator.failed(VoidAttempt(fault=Fault.SERVICE), running.clocks.steady())
    assert running.coordinator.begin(running.clocks.steady()).permit(0) == 0
    running.close()


def test_an_attempt_that_asks_for_a_service_is_no_sign_that_nothing_will_come():
    running = started(Connects)
    running.step()
    permit = running.coordinator.size.permit
    Stores.away = False
    assert running.step()
    assert not Stores.behind
    assert (running.coordinator.idle.batches, running.coordinator.size.permit) == (0, permit)
    finish(running)


class Queue(Numbers):
    """Can't be opened while its broker is away."""

    def open(self, conf, context, collector):
        super().open(conf, context, collector)
        if Stores.away:
            raise ServiceUnavailable("RabbitMQ", "refused")


class PinnedQueue(Queue):
    pinned = True


@pytest.mark.parametrize("spout", [Queue, PinnedQueue])
def test_acks_that_the_last_driver_could_not_tell_are_told_after_an_outage(spout):
    builder = TopologyBuilder("probe")
    builder.set_spout("source", spout).set_config({"limit": ROWS})
    builder.set_bolt("relay", Relay).shuffle_grouping("source")
    clock, store = ManualClock(100.0), new_store()

    def driver():
        jobs = Steady(clock, store=store)
        return make_driver(builder, store=store, clock=clock, jobs=jobs).start()

    Stores.away = False
    killed = driver()
    while not killed.coordinator.last.deliveries:
        killed.step()
    Stores.away = True
    running = driver()
    assert not any(steps(running, 3))
    Stores.away = False
    assert steps(running, 1) == [True]
    assert running.coordinator.last.deliveries
    running.run(Stop(drain=True))
    assert running.coordinator.spout_pending == 0
    running.close()
