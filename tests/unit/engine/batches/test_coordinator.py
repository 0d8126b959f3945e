"""Batches, attempts, sizes, and the search for a tuple that crashes its workers."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fulmen.engine.batches.failures.blame import Fault
from fulmen.engine.batches.pace.idle import HOLD_SECONDS, WARM_BATCHES
from fulmen.engine.batches.size.permits import FIRST_PERMIT, LARGEST_PERMIT, MOST_GROWTH
from fulmen.engine.batches.summaries import commit_work_seconds, fatal_error, work_seconds
from fulmen.engine.emitting.collectors.spout_emits import emit_bytes
from fulmen.engine.protocol.deliveries import Deliveries, merged
from fulmen.engine.protocol.summary import ErrorReport, PendingTimers, Resting, Summary
from fulmen.engine.time.event_times import WHOLE_TASK
from support.runs.coordinators import Checked, batch_of, placed, ranges


@pytest.fixture
def coordinator():
    return Checked()


# ---- attempts --------------------------------------------------------------------------------

EVENTS = st.one_of(
    st.tuples(st.just("wait"), st.floats(0, 10)),
    st.tuples(st.just("succeed"), st.integers(0, 5), st.booleans(), st.booleans()),
    st.tuples(st.just("fail"), st.floats(0, 100), st.booleans()),
)


@given(st.lists(EVENTS, max_size=60), st.integers(1, 4))
def test_invariants_hold_after_any_events(events, tasks):
    coordinator = Checked(placed(tasks))
    sequence = 0
    for what, *args in events:
        if what == "wait":
            coordinator.wait(args[0])
            continue
        coordinator.begin()
        if what == "fail":
            fault = Fault.OUTAGE if args[1] else Fault.UNKNOWN
            coordinator.fail(0.5, recovery=args[0], fault=fault)
            continue
        emitted, changes, ended = args
        sequence += emitted
        acked = {1: ranges((sequence, sequence + 1))} if ended else {}
        coordinator.succeed(emitted=emitted, changes=changes, acked=acked)


def test_a_failed_batch_is_repeated_as_it_was(coordinator):
    first = coordinator.begin()
    coordinator.fail(seconds=3, recovery=40)
    second = coordinator.begin()
    assert (second.number, second.clock, second.base) == (first.number, first.clock, first.base)
    assert second.tag != first.tag
    assert second.is_retry


def test_the_clock_stands_still_during_recovery(coordinator):
    coordinator.begin()
    coordinator.succeed(seconds=1, emitted=1)
    before = coordinator.begin().clock
    for _ in range(5):
        coordinator.fail(seconds=100, recovery=1000)
        assert coordinator.begin().clock == before
    coordinator.succeed(seconds=2, emitted=1)
    assert coordinator.begin().clock == before + 2


@pytest.mark.parametrize(
    ("restored", "stood_still"),
    [({0: 4.0}, 4.0), ({0: 0.9}, 0.0), ({0: 2.0, 1: 3.0}, 5.0), ({0: 0.6, 1: 0.6}, 1.2)],
)
def test_the_clock_stands_still_while_tasks_are_made_anew(coordinator, restored, stood_still):
    before = coordinator.begin().clock
    coordinator.now += 10
    summaries = [
        Summary(stage, worker, restore_seconds=seconds / (worker + 1))
        for stage, seconds in restored.items()
        for worker in range(2)
    ]
    coordinator.it.committed(coordinator.it.finish(summaries, 10))
    after = coordinator.it.begin(coordinator.now)
    assert after.clock == pytest.approx(before + 10 - stood_still)
    assert after.previous_clock == before


def test_the_clock_never_goes_back(coordinator):
    """Workers measure with a clock of their own, and the one of a test may be slower."""
    before = coordinator.begin().clock
    coordinator.it.committed(coordinator.it.finish([Summary(0, 0, restore_seconds=60)], 0.01))
    coordinator.now += 0.01
    assert coordinator.it.begin(coordinator.now).clock == before
    assert coordinator.it.begin(coordinator.now + 2).clock == before + 2


def test_seconds_in_which_it_stands_still_do_not_pass(coordinator):
    before = coordinator.begin().clock
    coordinator.succeed(seconds=1, emitted=1)
    coordinator.it.clock.stand_still(30)
    coordinator.it.clock.stand_still(0.4)  # a tick would be late by it
    coordinator.now += 30.5
    assert coordinator.it.begin(coordinator.now).clock == pytest.approx(before + 1.5)


@pytest.mark.parametrize(("seconds", "rest"), [(0.1, 0.05), (0.2, 0.05), (0.25, 0.0), (60, 0.0)])
def test_after_a_light_batch_it_rests_but_not_when_the_batch_was_as_long_as_it_may_be(
    coordinator, seconds, rest
):
    assert coordinator.target_seconds == 0.25
    header = coordinator.begin()
    for skipped, is_full, seconds_of_rest in [
        ((1,), False, rest),
        ((1,), True, 0.0),
        ((), False, 0.0),
    ]:
        done = batch_of(header=header, skipped=skipped)
        coordinator.it.skipping.committed(done, coordinator.it.placed, seconds, is_full=is_full)
        assert coordinator.it.idle_seconds() == pytest.approx(seconds_of_rest)


@pytest.mark.parametrize(
    ("emitted", "spout_pending", "seconds_of_rest"),
    [
        (5, {}, 0.025),
        (LARGEST_PERMIT, {}, 0.0),  # it may have more
        (5, {0: 99, 1: 0}, 0.025),
        (5, {0: 99, 1: 100}, 0.0),
    ],
)
def test_a_light_batch_of_one_stage_is_followed_by_rest_unless_spouts_may_have_more(
    emitted, spout_pending, seconds_of_rest
):
    coordinator = Checked(placed(max_spout_pending=100))
    assert len(coordinator.it.placed.plan.stages) == 1
    for _ in range(2):  # the first one makes the tasks
        coordinator.it.cuts(coordinator.begin())
        coordinator.succeed(seconds=0.1, emitted=emitted, spout_pending=spout_pending)
    assert coordinator.it.idle_seconds() == pytest.approx(seconds_of_rest)


def test_a_window_that_ends_and_the_sink_that_writes_it_wait_for_no_rest():
    coordinator = Checked(placed(spouts=1, is_timed=True))
    plan = coordinator.it.placed.plan
    [task], [bolt, *_] = plan.tasks("source"), plan.tasks("count")
    waiting = {bolt: PendingTimers(10, None)}
    rests = []
    for time, timers, wants_batch in [
        (8, waiting, False),
        (9, waiting, True),
        (10, waiting, False),  # the next batch has the watermark
        (11, {}, True),  # it has ended, and its row is to be written
        (12, {}, True),
        (13, {}, False),
    ]:
        coordinator.it.cuts(coordinator.begin())
        coordinator.succeed(
            seconds=0.1,
            emitted=5,
            event_times={(task, WHOLE_TASK): time},
            timers=timers,
            wants_batch=wants_batch,
        )
        rests.append(coordinator.it.idle_seconds())
    assert rests == pytest.approx([0.0, 0.025, 0.0, 0.0, 0.025, 0.025])  # the first makes tasks


def test_a_large_batch_of_one_stage_is_not_followed_by_rest(coordinator):
    for _ in range(2):
        coordinator.it.size.permit = 1_000_000
        coordinator.it.cuts(coordinator.begin())
        coordinator.succeed(seconds=0.1, emitted=5_000)
    coordinator.it.cuts(coordinator.begin())
    coordinator.succeed(seconds=0.1, emitted=5_000)
    assert coordinator.it.idle_seconds() == 0.0


def test_deliveries_are_repeated_until_a_batch_has_taken_them(coordinator):
    coordinator.begin()
    coordinator.succeed(acked={1: ranges((0, 3)), 2: ranges((5, 6))}, failed=[(2, 7, "no")])
    for _ in range(3):
        found = coordinator.begin().deliveries
        assert {origin: d.acked.tolist() for origin, d in found.items()} == {
            1: [[0, 3]],
            2: [[5, 6]],
        }
        assert found[2].failed == ((7, "no"),)
        coordinator.fail()
    coordinator.begin()
    done = coordinator.succeed()  # which changes nothing else, but that they were delivered
    assert done.commits
    assert coordinator.begin().deliveries == {}


def test_what_a_spout_was_not_told_is_told_first_next_time(coordinator):
    coordinator.begin()
    owed = {1: Deliveries(ranges((0, 2)), ((9, "old"),))}
    coordinator.succeed(owed=owed, acked={1: ranges((4, 5))}, failed=[(1, 3, "new")])
    found = coordinator.it.last.deliveries[1]
    assert found.acked.tolist() == [[0, 2], [4, 5]]
    assert found.failed == ((9, "old"), (3, "new"))


def test_nobody_is_told_about_trees_of_a_spout_that_is_gone(coordinator):
    coordinator.begin()
    coordinator.succeed(acked={99: ranges((0, 3))})
    assert coordinator.it.last.deliveries == {}


def test_many_deliveries_travel_in_the_commit(coordinator):
    coordinator.begin()
    coordinator.succeed(failed=[(1, i, "because") for i in range(1000)])
    assert coordinator.begin().deliveries is None


def test_nothing_to_commit_no_commit(coordinator):
    number = coordinator.it.last.number
    for _ in range(3):
        coordinator.begin()
        assert coordinator.succeed().after.did_nothing
    assert coordinator.it.last.number == number


# ---- batch sizes -----------------------------------------------------------------------------


def run(coordinator, batches, emitted, work):
    for _ in range(batches):
        header = coordinator.begin()
        n = min(emitted, header.default_permit)
        coordinator.succeed(emitted=n, work=work(n))
    return coordinator.it.size.permit


def test_permits_grow_while_batches_are_fast_and_full(coordinator):
    permit = run(coordinator, 4, 10**9, lambda n: 0.001)
    assert permit == FIRST_PERMIT * 2 * MOST_GROWTH**3  # nothing is known after the first


def test_permits_grow_at_once_when_batches_become_quicker_by_themselves(coordinator):
    for seconds in (0.7, 0.5, 0.4):  # as a JVM has them that gets warm
        header = coordinator.begin()
        coordinator.succeed(seconds, emitted=header.default_permit, work=0.03)
    assert coordinator.it.size.permit == FIRST_PERMIT * 2 * MOST_GROWTH**2


def test_permits_do_not_grow_beyond_what_spouts_have(coordinator):
    assert run(coordinator, 20, 1000, lambda n: 0.001) < 3000


def test_permits_settle_where_batches_take_their_target(coordinator):
    run(coordinator, 60, 10**9, lambda n: n / 20_000)  # 20,000 tuples/s, 250 ms: 5,000
    sizes = [run(coordinator, 1, 10**9, lambda n: n / 20_000) for _ in range(40)]
    assert min(sizes) > 2_000
    assert max(sizes) < 7_000


def test_batches_that_are_slow_without_tuples_keep_their_permits(coordinator):
    assert run(coordinator, 20, 3, lambda n: 5.0) == FIRST_PERMIT


RATE = 50e6
"""Bytes that a worker moves in a second in these tests."""


def loaded(coordinator, batches, size, fixed=0.02, cold=1.0):
    """Run batches whose tuples take time by their size alone; how long each of them takes.

    Args:
        coordinator: Of two spout tasks on one worker.
        batches: How many.
        size: Bytes of a tuple.
        fixed: Seconds that a batch takes without any tuple.
        cold: By how much the first of them are slower than they will be.
    """
    times = []
    for batch in range(batches):
        header = coordinator.begin()
        per_task = min(
            header.default_permit, max(1, emit_bytes(coordinator.it.placed) // 2 // size)
        )
        emitted = 2 * per_task
        slowness = max(1.0, cold * 0.9**batch)
        work = emitted * (2e-6 + size / RATE) * slowness
        summary = {"moved_bytes": emitted * size, "cpu_seconds": emitted * 2e-6}
        coordinator.succeed(fixed + work, emitted=emitted, work=work, **summary)
        times.append(fixed + work)
    return times


@pytest.mark.parametrize("size", [10, 1_000, 100_000, 1_000_000, 10_000_000])
def test_batches_stay_within_twice_their_target_whatever_tuples_weigh(coordinator, size):
    times = loaded(coordinator, 60, size)
    assert max(times[8:]) < 2 * coordinator.target_seconds
    assert min(times[20:]) > coordinator.target_seconds / 4


def test_a_batch_may_be_a_single_tuple_that_takes_longer(coordinator):
    loaded(coordinator, 30, 30_000_000)
    assert coordinator.it.size.permit == 1


@pytest.mark.parametrize("size", [10, 10_000])
def test_while_machines_are_cold_batches_do_not_grow_beyond_their_target(coordinator, size):
    times = loaded(coordinator, 200, size, cold=40)
    assert max(times) < times[0] + 4 * coordinator.target_seconds
    assert min(times[150:]) > coordinator.target_seconds / 4


def test_a_commit_that_has_much_in_it_makes_batches_smaller(coordinator):
    for _ in range(20):
        header = coordinator.begin()
        made = coordinator.summary(emitted=header.default_permit, cpu_seconds=0.01, work=0.01)
        done = coordinator.it.finish([made], 0.05)
        written = 10_000_000 * header.default_permit
        coordinator.it.committed(done, commit_work_seconds(100.0, written))
        coordinator.same = {header.tag}
        coordinator.counted = coordinator.it.clock.seconds
        coordinator.now = coordinator.it.clock.steady(0.0)
    assert coordinator.it.size.permit == 1


@pytest.mark.parametrize(("size", "seconds"), [(1000, 5e-5), (1 << 30, 3.0)])
def test_a_commit_counts_for_its_bytes_not_for_a_store_that_is_slow(size, seconds):
    assert commit_work_seconds(3.0, size) == pytest.approx(seconds)


def test_work_is_that_of_the_slowest_worker_in_each_stage():
    summaries = [Summary(0, 0, seconds=1), Summary(0, 1, seconds=3), Summary(1, 0, seconds=2)]
    assert work_seconds(summaries) == 5


# ---- idle ------------------------------------------------------------------------------------


def idle_waits(coordinator, batches):
    """How long it waits after each of so many batches in which nothing happens."""
    waits = []
    for _ in range(batches):
        coordinator.begin()
        coordinator.succeed()
        waits.append(coordinator.it.idle_seconds())
    return waits


def test_an_idle_topology_waits_no_longer_after_a_loss_until_its_workers_are_warm(coordinator):
    idle_waits(coordinator, WARM_BATCHES)
    coordinator.begin()
    coordinator.fail()
    assert max(idle_waits(coordinator, WARM_BATCHES - 1)) == 0.25


def test_an_idle_topology_waits_no_longer_than_until_the_next_tick():
    coordinator = Checked(placed(tick_seconds=1.0), clock=99.9)
    for _ in range(12):
        coordinator.begin()
        coordinator.succeed(seconds=0.0)
    assert coordinator.it.idle_seconds() == pytest.approx(0.1)


# ---- ends ------------------------------------------------------------------------------------


def test_settled_when_nothing_is_pending_and_everybody_was_told(coordinator):
    coordinator.begin()
    coordinator.succeed(emitted=1, pending={1: 2}, spout_pending={2: 1, 3: 1})
    assert not coordinator.it.settled
    coordinator.begin()
    coordinator.succeed(pending={1: 0}, spout_pending={2: 1, 3: 1}, acked={1: ranges((0, 2))})
    assert not coordinator.it.settled
    coordinator.begin()
    assert not coordinator.it.settled
    coordinator.succeed(pending={1: 0}, spout_pending={2: 0, 3: 0})
    assert coordinator.it.settled


def test_exhausted_when_all_spout_tasks_say_so(coordinator):
    one, other = coordinator.it.placed.plan.tasks("source")
    for said, expected in (({one: True, other: False}, False), ({one: True, other: True}, True)):
        coordinator.begin()
        coordinator.succeed(exhausted=said)
        assert coordinator.it.exhausted is expected


def test_the_first_fatal_error():
    harmless = ErrorReport("a", 1, "x")
    fatal = ErrorReport("b", 2, "y", fatal=True)
    summaries = [Summary(0, 0, errors=[harmless]), Summary(0, 1, errors=[harmless, fatal])]
    assert fatal_error(summaries) is fatal
    assert fatal_error(summaries[:1]) is None


@settings(max_examples=10 * settings.default.max_examples)  # a millisecond each
@given(st.sets(st.integers(0, 60)))
def test_ranges_that_touch_become_one(numbers):
    pairs = np.array([[n, n + 1] for n in numbers], np.int64).reshape(-1, 2)
    found = merged(pairs).tolist()
    assert [n for a, b in found for n in range(a, b)] == sorted(numbers)
    assert all(b < c for (_, b), (c, _) in pairwise(found))


# ---- a poison tuple --------------------------------------------------------------------------


class Source:
    """Spout tasks with items to emit, some of which crash their workers."""

    def __init__(self, tasks, items, poison):
        self.left = {task: list(some) for task, some in zip(tasks, items, strict=True)}
        self.poison = poison
        self.processed = []
        self.given_up = []

    def attempt(self, coordinator):
        header = coordinator.begin()
        emitted = {}
        for task, items in self.left.items():
            emitted[task] = items[: header.permit(task)]
        for task in header.poisoned:
            self.given_up += emitted[task]
            assert len(emitted[task]) <= 1
        sent = [i for task, some in emitted.items() if task not in header.poisoned for i in some]
        if self.poison & set(sent):
            self.given_up = self.given_up[: len(self.given_up) - len(header.poisoned)]
            coordinator.fail()
            return
        self.processed += sent
        for task, some in emitted.items():
            self.left[task] = self.left[task][len(some) :]
        coordinator.succeed(emitted=sum(map(len, emitted.values())), changes=bool(emitted))


@given(st.data(), st.integers(1, 4), st.integers(0, 3))
def test_poison_is_found_and_all_else_is_processed(data, tasks, poisons):
    coordinator = Checked(placed(tasks))
    numbers = iter(range(10_000))
    items = [[next(numbers) for _ in range(data.draw(st.integers(0, 400)))] for _ in range(tasks)]
    everything = [i for some in items for i in some]
    poison = set()
    if everything:
        poison = data.draw(st.sets(st.sampled_from(everything), max_size=poisons))
    source = Source(coordinator.it.placed.plan.tasks("source"), items, poison)
    attempts = 0
    while any(source.left.values()):
        source.attempt(coordinator)
        attempts += 1
        assert not coordinator.it.hopeless
        assert attempts < 60 + 120 * max(1, len(poison))
    assert sorted(source.processed) == sorted(set(everything) - poison)
    assert set(source.given_up) == poison


def test_batches_without_any_tuple_do_not_end_a_topology_that_suspects_one(coordinator):
    tasks = coordinator.it.placed.plan.tasks("source")
    for _ in range(100):
        header = coordinator.begin()
        if any(map(header.permit, tasks)) and not header.poisoned:
            coordinator.fail()
        else:
            coordinator.succeed()
            assert not coordinator.it.has_nothing_more
    assert not coordinator.it.blame.left_out
    assert coordinator.it.idle.is_over
    for _ in range(30):
        coordinator.begin()
        coordinator.succeed()
    assert coordinator.it.has_nothing_more


def test_a_batch_that_fails_without_any_tuple_is_hopeless():
    coordinator = Checked(placed(3))
    poisoned = set()
    for _ in range(60):
        poisoned |= set(coordinator.begin().poisoned)
        coordinator.fail()
        if coordinator.it.hopeless:
            break
    assert coordinator.it.hopeless
    assert poisoned == set()


@given(st.data())
def test_no_tuple_is_dropped_that_has_not_failed_alone_twice_with_a_success_without_it(data):
    """Workers are lost at random: nobody's tuple is to blame."""
    coordinator = Checked(placed(data.draw(st.integers(1, 3))))
    alone = {}  # spout task -> its failures alone, each followed by a success without it
    before = ()
    for is_lost in data.draw(st.lists(st.booleans(), max_size=80)):
        header = coordinator.begin()
        single = tuple(t for t, n in header.permits.items() if n) if header.is_suspect else ()
        for task in header.poisoned:
            assert alone.get(task, 0) >= 2
        if is_lost:
            coordinator.fail()
            before = single if len(single) == 1 and not header.poisoned else ()
            if not single:
                alone.clear()
        else:
            coordinator.succeed(emitted=len(single))
            if not header.is_suspect or single:
                alone.clear()
            elif before:
                alone[before[0]] = alone.get(before[0], 0) + 1
            before = ()


@pytest.mark.parametrize("losses", [4, 8, 30])
def test_losses_in_a_row_drop_nothing(coordinator, losses):
    for _ in range(losses):
        assert coordinator.begin().poisoned == ()
        coordinator.fail()
    for _ in range(20):
        assert coordinator.begin().poisoned == ()
        coordinator.succeed(emitted=1)
    assert coordinator.begin().permits == {}


def test_a_tuple_that_is_dropped_carries_the_cause(coordinator):
    source = Source(coordinator.it.placed.plan.tasks("source"), [[1], []], {1})
    headers = []
    while any(source.left.values()):
        source.attempt(coordinator)
        headers.append(coordinator.begin())
    assert {h.cause for h in headers if h.poisoned} == {"killed"}
    assert source.given_up == [1]


def test_the_first_failure_suspects_no_tuple(coordinator):
    before = coordinator.begin()
    coordinator.fail()
    after = coordinator.begin()
    assert (after.permits, after.default_permit) == ({}, before.default_permit)


def test_an_outage_suspects_no_tuple_however_long(coordinator):
    for _ in range(100):
        header = coordinator.begin()
        assert (header.permits, header.poisoned) == ({}, ())
        coordinator.fail(fault=Fault.OUTAGE)
    assert not coordinator.it.hopeless


def test_trust_returns_step_by_step(coordinator):
    run(coordinator, 5, 1000, lambda n: 0.001)
    for _ in range(4):
        coordinator.begin()
        coordinator.fail()
    limits = []
    while coordinator.it.blame.crashes.limit is not None:
        limits.append(coordinator.it.blame.crashes.limit)
        coordinator.begin()
        coordinator.succeed(emitted=1)
        assert len(limits) < 40
    assert limits == sorted(limits)
    assert coordinator.begin().permits == {}


# ---- gathering: batchIntervalMillis ----------------------------------------------------------


@pytest.fixture
def gathering():
    return Checked(placed(batch_interval_millis=400))


def test_a_batch_that_had_all_there_was_is_followed_by_the_next_after_the_interval(gathering):
    gathering.begin()
    gathering.succeed(seconds=0.1, emitted=3)
    assert gathering.it.idle_seconds() == pytest.approx(0.3)
    gathering.begin()
    gathering.succeed(seconds=0.5, emitted=3)
    assert gathering.it.idle_seconds() == pytest.approx(0.0, abs=0.001)


def test_a_batch_of_spouts_that_have_more_is_followed_at_once(gathering):
    gathering.begin()
    gathering.succeed(seconds=0.1, emitted=3, has_more=True)
    assert gathering.it.idle_seconds() == 0.0
    gathering.begin()
    gathering.succeed(seconds=0.1, emitted=gathering.it.size.permit)
    assert gathering.it.idle_seconds() == 0.0


def test_what_is_due_is_not_late_by_the_interval():
    coordinator = Checked(placed(tick_seconds=1, batch_interval_millis=400), clock=100.7)
    coordinator.begin()
    coordinator.succeed(seconds=0.1, emitted=3)
    coordinator.begin()
    assert coordinator.it.idle_seconds() == pytest.approx(0.2)


def test_an_inactive_topology_ends_what_is_pending_without_the_interval(gathering):
    gathering.it.active = False
    gathering.begin()
    gathering.succeed(seconds=0.1, changes=True)
    assert gathering.it.idle_seconds() < 0.05


# ---- what the rests depend on ----------------------------------------------------------------


def test_while_bolts_hold_the_spouts_it_rests_only_if_nothing_happens(coordinator):
    [bolt, *_] = coordinator.it.placed.plan.tasks("count")
    rests = []
    for emitted in (0, 1, 0):
        coordinator.begin()
        coordinator.succeed(emitted=emitted, holds={bolt: "full"})
        rests.append(coordinator.it.idle_seconds())
    assert rests == [HOLD_SECONDS, 0.0, HOLD_SECONDS]


@pytest.mark.parametrize(
    ("component", "active", "seconds"),
    [("source", True, 0.05), ("source", False, 0.25), ("count", False, 0.05)],
)
def test_a_failed_message_of_a_spout_ends_no_rest_of_a_topology_that_is_inactive(
    coordinator, component, active, seconds
):
    coordinator.it.active = active
    [task, *_] = coordinator.it.placed.plan.tasks(component)
    for _ in range(12):
        coordinator.begin()
        coordinator.succeed(seconds=0.0, resting={task: Resting(1, 100.05, 1, "no")})
    assert coordinator.it.idle_seconds() == pytest.approx(seconds)
