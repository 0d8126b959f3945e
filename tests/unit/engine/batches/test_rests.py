"""How long a topology rests before its next batch."""

import pytest

from fulmen.engine.batches.idle import HOLD_SECONDS, WARM_BATCHES, Idle
from fulmen.engine.batches.rests import LEAST_WAIT, Rests, gather_seconds
from fulmen.engine.batches.timers import RARE
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.summary import PendingTimers, Summary

LIGHT_REST = 0.0625


class Plan:
    """In which task 1 is all there is, of bolt `a`."""

    def component_of(self, task):
        return {1: "a"}[task]


class Topology:
    """What a coordinator knows of its topology, for the rests alone."""

    def __init__(self):
        self.rests = Rests()
        self.idle = Idle()

    def committed(self, timers=None, watermark=None, wants_batch=False, gathers=0.0, idle=False):
        self.idle.committed(idle)
        marks = {} if watermark is None else {"a": (watermark, None)}
        said = [Summary(1, 0, timers={} if timers is None else {1: timers})]
        self.rests.committed("run", said, marks, Plan(), wants_batch=wants_batch, gathers=gathers)

    def seconds(self, clock=100.0, is_held=False, ticks=(), resting=()):
        said = {"is_held": is_held, "ticks": ticks, "resting": resting}
        return self.rests.seconds(self.idle, LIGHT_REST, clock, **said)


@pytest.fixture
def topology():
    return Topology()


def test_after_a_batch_it_rests_as_after_a_light_one_whatever_is_due(topology):
    topology.committed(PendingTimers(None, 100.01))
    assert topology.seconds(clock=100.0, ticks=[0.03], resting=[100.02]) == LIGHT_REST


def test_a_new_topology_that_wants_batches_rests_as_no_window_was_due(topology):
    topology.committed(wants_batch=True)
    assert topology.seconds() == LIGHT_REST


# ---- idle ------------------------------------------------------------------------------------


def idle_waits(topology, batches):
    """How long it waits after each of so many batches in which nothing happens."""
    waits = []
    for _ in range(batches):
        topology.committed(idle=True)
        waits.append(topology.seconds())
    return waits


def test_an_idle_topology_waits_no_longer_until_its_workers_are_warm(topology):
    waits = idle_waits(topology, WARM_BATCHES)
    assert waits[12] == waits[-2] == 0.25
    assert waits[-1] == 2.5


def test_an_idle_topology_backs_off(topology):
    topology.idle.warmed = WARM_BATCHES
    waits = idle_waits(topology, 120)
    assert waits == sorted(waits)
    assert waits[0] < 0.01
    assert (waits[12], waits[60], waits[-1]) == (0.25, 1.0, 2.5)
    topology.committed()
    assert topology.seconds() == LIGHT_REST


@pytest.mark.parametrize(
    ("due", "seconds"),
    [
        pytest.param({}, 0.25, id="nothing"),
        pytest.param({"ticks": [1.0]}, 0.1, id="tick"),
        pytest.param({"ticks": [1.0, 50.0, 0.08]}, 0.02, id="ticks-of-several-bolts"),
        pytest.param({"resting": [100.0, 130.0]}, 0.1, id="failed-message"),
        pytest.param({"resting": [99.0]}, LEAST_WAIT, id="failed-message-that-waits-for-others"),
        pytest.param({"timers": PendingTimers(None, 100.0)}, 0.1, id="timer"),
        pytest.param({"timers": PendingTimers(None, 99.0)}, 0.0, id="timer-that-is-late"),
        pytest.param({"timers": PendingTimers(5, None)}, 0.25, id="timer-of-event-time"),
    ],
)
def test_an_idle_topology_waits_no_longer_than_until_something_is_due(topology, due, seconds):
    for _ in range(12):
        topology.committed(due.get("timers"), idle=True)
    said = {name: value for name, value in due.items() if name != "timers"}
    assert topology.seconds(clock=99.9, **said) == pytest.approx(seconds, abs=1e-6)


def test_a_timer_of_a_stage_that_was_left_out_is_due_all_the_same(topology):
    topology.committed(PendingTimers(None, 100.0))
    said = {"wants_batch": False, "gathers": 0.0}
    topology.rests.committed("run", [Summary(0, 0)], {}, Plan(), **said)
    header = Header(1, "t", "b", 99.9, 99.9, 1)
    assert not topology.rests.is_timer_due(header, Plan())
    assert topology.rests.is_timer_due(Header(1, "t", "b", 100.0, 99.9, 1), Plan())
    topology.idle.batches = 12
    assert topology.seconds(clock=99.9) == pytest.approx(0.1)


def test_while_bolts_hold_the_spouts_it_rests_shortly_however_long_it_is_idle(topology):
    idle_waits(topology, WARM_BATCHES)
    assert topology.seconds(is_held=True) == HOLD_SECONDS
    assert topology.seconds(clock=99.99, is_held=True, ticks=[1.0]) == pytest.approx(0.01)


# ---- windows that end ------------------------------------------------------------------------


def rests_as_windows_end(topology, batches):
    """How long it rests after each batch, of which the watermark and `wants_batch` are given."""
    waits = []
    for watermark, timers, wants_batch in batches:
        topology.committed(timers, watermark, wants_batch)
        waits.append(topology.seconds())
    return waits


WINDOW = PendingTimers(10, None)


def test_a_window_that_ends_and_the_sink_that_writes_it_wait_for_no_rest(topology):
    batches = [
        (8, WINDOW, False),
        (9, WINDOW, True),
        (10, WINDOW, False),  # the next batch has the watermark
        (11, None, True),  # it has ended, and its row is to be written
        (12, None, True),
        (13, None, False),
    ]
    rests = rests_as_windows_end(topology, batches)
    assert rests == [LIGHT_REST, LIGHT_REST, 0.0, 0.0, LIGHT_REST, LIGHT_REST]


def test_a_window_whose_end_leaves_nothing_to_write_hurries_one_batch_only(topology):
    batches = [(10, WINDOW, False), (11, None, False)]
    assert rests_as_windows_end(topology, batches) == [0.0, LIGHT_REST]


def test_windows_that_end_all_the_time_are_no_reason_to_do_without_rest(topology):
    batches = [(10 + n, PendingTimers(10 + n, None), False) for n in range(3 * RARE)]
    assert rests_as_windows_end(topology, batches) == [0.0] + [LIGHT_REST] * (3 * RARE - 1)


# ---- gathering: batchIntervalMillis ----------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "is_active", "is_pressed", "gathers"),
    [
        pytest.param(0.1, True, False, 0.3, id="what-is-left-of-the-interval"),
        pytest.param(0.5, True, False, 0.0, id="longer-than-the-interval"),
        pytest.param(0.1, True, True, 0.0, id="spouts-have-more"),
        pytest.param(0.1, False, False, 0.0, id="inactive"),
    ],
)
def test_more_messages_are_waited_for_if_nothing_waits(seconds, is_active, is_pressed, gathers):
    found = gather_seconds(400, seconds, is_active=is_active, is_pressed=is_pressed)
    assert found == pytest.approx(gathers)


def test_the_interval_is_kept_after_light_batches_and_after_idle_ones(topology):
    topology.committed(gathers=0.3)
    assert topology.seconds() == 0.3
    topology.committed(gathers=0.0)
    assert topology.seconds() == LIGHT_REST
    topology.committed(gathers=0.01)
    assert topology.seconds() == LIGHT_REST
    topology.committed(gathers=0.3, idle=True)
    assert topology.seconds() == 0.3


def test_what_is_due_is_not_late_by_the_interval(topology):
    topology.committed(gathers=0.3)
    assert topology.seconds(clock=100.8, ticks=[1.0]) == pytest.approx(0.2)
