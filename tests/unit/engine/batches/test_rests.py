"""How long a topology rests before its next batch."""

from types import SimpleNamespace

import pytest

from fulmen.engine.batches.pace.idle import HOLD_SECONDS, WARM_BATCHES, Idle
from fulmen.engine.batches.pace.next_timers import RARE
from fulmen.engine.batches.pace.rests import LEAST_WAIT, Rests
from fulmen.engine.batches.pace.stage_skipping import StageSkipping
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.summary import PendingTimers, Summary
from fulmen.engine.time.watermarks import Watermarks
from support.runs.coordinators import batch_of

LIGHT_REST = 0.0625


PLAN = SimpleNamespace(component_of={1: "a"}.__getitem__)
"""Task 1 is all there is, of bolt `a`."""


class Topology:
    """What a coordinator knows of its topology, for the rests alone."""

    def __init__(self, interval_millis=0):
        self.idle, skipping = Idle(), StageSkipping(rest_seconds=LIGHT_REST)
        self.rests = Rests(self.idle, skipping)
        spec = SimpleNamespace(batch_interval_millis=interval_millis)
        self.placed = SimpleNamespace(
            run="run",
            plan=PLAN,
            event_times={"a"},
            by_clock=(),
            topology=SimpleNamespace(spec=spec),
        )

    def committed(
        self, timers=None, watermark=None, wants_batch=False, may_gather=True, idle=False, **said
    ):
        self.idle.committed(idle)
        passed = {} if watermark is None else {"a": watermark}
        timers = {} if timers is None else {1: timers}
        seconds = said.pop("seconds", 0.01)
        summary = Summary(said.pop("stage", 1), 0, timers=timers, **said)
        done = batch_of(summary, seconds=seconds, watermarks=Watermarks(passed=passed))
        self.rests.committed(done, self.placed, wants_batch=wants_batch, may_gather=may_gather)

    def seconds(self, clock=100.0, is_held=False, ticks=(), resting=()):
        given = {"ticks": ticks, "resting": resting, "by_clock": {}}
        return self.rests.seconds(clock, is_held=is_held, **given)


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
    topology.committed(stage=0)
    header = Header(1, "t", "b", 99.9, 99.9, 1)
    assert not topology.rests.is_timer_due(header, PLAN)
    assert topology.rests.is_timer_due(Header(1, "t", "b", 100.0, 99.9, 1), PLAN)
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
    ("said", "rest"),
    [
        pytest.param({"seconds": 0.1}, 0.3, id="what-is-left-of-the-interval"),
        pytest.param({"seconds": 0.39}, LIGHT_REST, id="longer-after-a-light-batch"),
        pytest.param({"seconds": 0.5}, LIGHT_REST, id="longer-than-the-interval"),
        pytest.param({"seconds": 0.1, "idle": True}, 0.3, id="idle"),
        pytest.param({"seconds": 0.1, "has_more": True}, LIGHT_REST, id="spouts-have-more"),
        pytest.param({"seconds": 0.1, "may_gather": False}, LIGHT_REST, id="something-waits"),
    ],
)
def test_more_messages_are_waited_for_if_nothing_waits(said, rest):
    topology = Topology(interval_millis=400)
    topology.committed(**said)
    assert topology.seconds() == pytest.approx(rest)


def test_what_is_due_is_not_late_by_the_interval():
    topology = Topology(interval_millis=310)
    topology.committed()
    assert topology.seconds(clock=100.8, ticks=[1.0]) == pytest.approx(0.2)
