"""Figures of a running topology."""

import pytest

from fulmen.cli.display.run.meter import WINDOW_SECONDS, Meter
from fulmen.engine.protocol.placed_topology import CurrentTopology, PlacedTopology
from fulmen.engine.totals.totals import Totals
from fulmen.plan import make_plan
from fulmen.testing import ManualClock
from support.cli.topologies import topology


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def words(clock):
    return Words(clock)


class Words:
    """A meter of a topology, and the totals that a driver would have."""

    def __init__(self, clock):
        self.clock = clock
        counted = topology({"lines": 2}, {"count": (3, {"lines": "shuffle"})})
        self.meter = Meter(counted, clock)
        placed = PlacedTopology("run", counted, make_plan(counted), {}, {}, "memory://x", None)
        self.totals = Totals(CurrentTopology(placed), steady=clock)
        self.meter.start(self.totals)

    def batch(self, seconds=1.0, executed=0, acked=0, latency=None):
        """One batch passes, and acks trees that took `latency` milliseconds."""
        self.clock.advance(seconds)
        self.totals.counts["", "batches", ""] += 1
        self.totals.counts["lines", "acked", ""] += acked
        self.totals.counts["count", "executed", "lines:default"] += executed
        self.totals.counts["count/2", "executed", "lines:default"] += executed
        if latency is not None:
            self.totals.latencies.add(latency, acked)
        self.totals.times["", "batch", "run"].add(seconds / 2)
        self.meter.figures()  # as a display does all the time

    @property
    def figures(self):
        return self.meter.figures()


def test_before_the_first_batch(words):
    figures = words.figures
    assert (figures.batches, figures.batch_millis, figures.p50, figures.p99) == (
        0,
        None,
        None,
        None,
    )
    assert [(c.name, c.tasks) for c in figures.components] == [
        ("lines", 2),
        ("count", 3),
        ("__acker", 1),
    ]


def test_time_counts_from_the_start(words):
    words.clock.advance(20)
    words.meter.start(words.totals)
    words.clock.advance(3)
    assert words.figures.seconds == pytest.approx(3)


def test_rates(words):
    for _ in range(4):
        words.batch(executed=200, acked=50)
    figures = words.figures
    assert figures.tuples_per_second == pytest.approx(200)
    assert figures.acked_per_second == pytest.approx(50)
    assert figures.batch_millis == pytest.approx(500)
    assert (figures.batches, figures.trees.acked) == (4, 200)
    count = figures.components[1]
    assert (count.counts["executed"], count.executed_per_second) == (800, pytest.approx(200))


def test_rates_are_of_the_last_seconds(words):
    for _ in range(30):
        words.batch(executed=1000)
    for _ in range(int(WINDOW_SECONDS) + 1):
        words.batch(executed=10)
    assert words.figures.tuples_per_second == pytest.approx(10)


def test_rates_fall_while_nothing_happens(words):
    words.batch(executed=100)
    words.clock.advance(9)
    assert words.figures.tuples_per_second == pytest.approx(10)


def test_short_batches_are_not_all_looked_at(words):
    for _ in range(1000):
        words.batch(seconds=0.01, executed=1)
    assert len(words.meter._looks) <= WINDOW_SECONDS / 0.25 + 2
    assert words.figures.batches == 1000
    assert words.figures.tuples_per_second == pytest.approx(100, rel=0.05)


@pytest.mark.parametrize(
    ("latencies", "p50", "p99"),
    [
        ([(5, 100)], 5, 5),
        ([(5, 98), (700, 2)], 5, 700),
        ([(700, 99), (5, 1)], 700, 700),
        ([(1, 1), (2, 1), (3, 1), (4, 1)], 2, 4),
    ],
)
def test_latencies(words, latencies, p50, p99):
    for latency, acked in latencies:
        words.batch(acked=acked, latency=latency)
    assert words.figures.p50 == pytest.approx(p50, rel=0.01)
    assert words.figures.p99 == pytest.approx(p99, rel=0.01)


def test_latencies_are_of_the_last_seconds(words):
    words.batch(acked=1000, latency=900)
    words.clock.advance(WINDOW_SECONDS)
    words.batch(acked=1, latency=3)
    assert words.figures.p50 == pytest.approx(3, rel=0.01)
    words.clock.advance(WINDOW_SECONDS + 1)
    assert words.figures.p50 is None
