"""What a finished or failed batch means for the next one, case by case."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from fulmen.checkpoint import Update
from fulmen.engine.batches.done import TICKS, did_something, only_ticked
from fulmen.engine.batches.ends.last_turn import Turn
from fulmen.engine.batches.failures.blame import VoidAttempt
from fulmen.engine.batches.failures.crashes import Crashes
from fulmen.engine.batches.pace.idle import WARM_BATCHES
from fulmen.engine.batches.size.batch_size import BatchSize
from fulmen.engine.batches.size.permits import FIRST_PERMIT, LAST_BATCHES
from fulmen.engine.protocol.deliveries import Deliveries, merged, pack_deliveries
from fulmen.engine.protocol.limits import LIMITS
from fulmen.engine.protocol.summary import PendingTimers, Resting, Summary
from support.runs.coordinators import Checked, placed, ranges, told


@pytest.fixture
def coordinator():
    return Checked()


def resting(due):
    return Resting(messages=1, due=due, failures=1, reason="no")


@pytest.mark.parametrize(("stood_still", "passes"), [(1.0, 9.0), (0.99, 10.0)])
def test_the_clock_stands_still_for_a_second_or_more(coordinator, stood_still, passes):
    before = coordinator.begin().clock
    coordinator.succeed(seconds=0.0)
    coordinator.it.clock.stand_still(stood_still)
    assert coordinator.it.begin(coordinator.now + 10).clock == pytest.approx(before + passes)


def test_what_a_pinned_spout_was_not_told_is_told_first_next_time(coordinator):
    coordinator.begin()
    owed = {
        1: Deliveries(ranges((0, 2)), ((9, "old"),)),
        2: Deliveries(ranges((5, 6))),
    }
    summary = coordinator.summary(acked={1: ranges((4, 5))})
    found = coordinator.it.finish([summary], 0.1, owed).after.deliveries
    assert found.keys() == {1, 2}
    assert found[1].acked.tolist() == [[0, 2], [4, 5]]
    assert found[1].failed == ((9, "old"),)
    assert found[2] is owed[2]


def test_trees_that_only_failed_leave_no_range_of_acks(coordinator):
    coordinator.begin()
    coordinator.succeed(failed=[(1, 3, "no")])
    acked = coordinator.it.last.deliveries[1].acked
    assert (acked.shape, acked.dtype) == ((0, 2), np.int64)


def test_a_batch_in_which_a_tree_ended_is_not_idle(coordinator):
    coordinator.begin()
    assert not coordinator.succeed(acked={1: ranges((0, 1))}).after.did_nothing


def test_ticks_alone_are_told_from_what_comes(coordinator):
    ticks = {("bolt", "executed", "__system:__tick"): 2}
    coordinator.begin()
    done = coordinator.succeed(counts=Counter(ticks))
    assert (done.after.did_nothing, done.only_ticked) == (False, True)
    coordinator.begin()
    assert not coordinator.succeed(emitted=1, counts=Counter(ticks)).only_ticked
    coordinator.begin()
    assert not coordinator.succeed(acked={1: ranges((0, 1))}, counts=Counter(ticks)).only_ticked


def summary(*, says_so=False, **executed):
    """Of a part of a batch, with tuples that a bolt has executed of each stream."""
    counts = {("bolt", "executed", STREAMS[name]): n for name, n in executed.items()}
    return Summary(0, 0, did_something=says_so, counts=Counter(counts))


STREAMS = {"ticks": TICKS, "words": "source:default"}


@pytest.mark.parametrize(
    ("summaries", "happened", "are_ticks"),
    [
        pytest.param([], False, False, id="no-part-ran"),
        pytest.param([summary(), summary(words=0)], False, False, id="nothing"),
        pytest.param([summary(), summary(words=1)], True, False, id="tuple-in-one-part"),
        pytest.param([summary(), summary(says_so=True)], True, False, id="says-so-in-one-part"),
        pytest.param([summary(), summary(ticks=1)], True, True, id="tick-in-one-part"),
        pytest.param([summary(ticks=1), summary(words=1)], True, False, id="tick-and-tuple"),
        pytest.param([summary(), summary(ticks=1, says_so=True)], True, False, id="tick-and-more"),
    ],
)
def test_what_happened_in_a_batch_is_known_of_all_its_parts(summaries, happened, are_ticks):
    assert (did_something(summaries), only_ticked(summaries)) == (happened, are_ticks)


UPDATES = {"count/0": {"fields": Update(b"x", None, 0)}}


@pytest.mark.parametrize("updates", [[{}, {}], [UPDATES, {}], [{}, UPDATES]])
def test_what_any_part_of_a_batch_has_changed_is_committed(coordinator, updates):
    coordinator.begin()
    summaries = [Summary(stage, 0, updates=one) for stage, one in enumerate(updates)]
    done = coordinator.it.finish(summaries, 0.1)
    assert done.commits is (updates != [{}, {}])
    coordinator.it.committed(done)
    assert coordinator.it.last.number == 7 + done.commits


def test_no_batch_waits_for_more_when_one_of_several_spouts_has_more():
    it = Checked(placed(batch_interval_millis=1000)).it
    for stages, seconds in [((False, False), 0.9), ((True, False), 0.0)]:
        it.begin(5000.0)
        parts = [Summary(n, 0, has_more=has_more) for n, has_more in enumerate(stages)]
        it.committed(it.finish([*parts, Summary(2, 0, did_something=True)], 0.1))
        assert it.idle_seconds() == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("said", "settled", "settled_at_the_end"),
    [
        pytest.param({}, True, True, id="nothing"),
        pytest.param({"pending": {1: 1}}, False, False, id="tree"),
        pytest.param({"spout_pending": {4: 1}}, False, False, id="message-of-a-spout"),
        pytest.param({"result_pending": {3: 1}}, False, False, id="result-of-a-bolt"),
        pytest.param({"wants_batch": True}, False, False, id="task-that-wants-a-batch"),
        pytest.param({"resting": "result"}, True, False, id="result-that-comes-again"),
        pytest.param({"resting": "message"}, True, True, id="message-that-comes-again"),
    ],
)
def test_a_topology_is_settled_when_nothing_is_pending(said, settled, settled_at_the_end):
    it = Checked().it
    one_of = {name: it.placed.plan.tasks(name)[0] for name in ("source", "count")}
    if what := said.get("resting"):
        task = one_of["count" if what == "result" else "source"]
        said = {"resting": {task: resting(999.0)}}
    it.begin(5000.0)
    assert not it.settled
    it.committed(it.finish([Summary(0, 0, **told(**said))], 0.1))
    assert it.settled is settled
    it.drain_bolts(is_at_end=True)
    assert it.settled is settled_at_the_end
    it.begin(5000.0)
    assert not it.settled


def test_a_topology_is_not_settled_before_its_spouts_were_told(coordinator):
    for acked, settled in [({1: ranges((0, 1))}, False), ({}, True)]:
        coordinator.begin()
        coordinator.succeed(pending={1: 0}, spout_pending={4: 0, 5: 0}, acked=acked)
        assert coordinator.it.settled is settled


def test_a_batch_in_which_spouts_are_told_is_not_idle(coordinator):
    ticks = Counter({("bolt", "executed", TICKS): 2})
    for acked, ticked in [({1: ranges((0, 1))}, False), ({}, False), ({}, True)]:
        coordinator.begin()
        assert coordinator.succeed(acked=acked, counts=Counter(ticks)).only_ticked is ticked
    for acked, idle in [({1: ranges((1, 2))}, False), ({}, False), ({}, True)]:
        coordinator.begin()
        assert coordinator.succeed(acked=acked).after.did_nothing is idle


def test_a_topology_whose_spouts_are_held_is_not_idle_and_its_bolts_have_another_turn(coordinator):
    coordinator.begin()
    coordinator.succeed()
    coordinator.it.drain_bolts()
    assert coordinator.begin().drains
    coordinator.succeed(holds={3: "full"})
    assert coordinator.it.idle.batches == 0
    assert not coordinator.it.turns.drained


@pytest.mark.parametrize(("tasks", "limit"), [(1, 30), (2, 31)])
def test_twice_what_batches_emit_is_what_a_failed_one_is_halved_from(tasks, limit):
    coordinator = Checked(placed(tasks))
    coordinator.begin()
    coordinator.succeed(emitted=30)
    for _ in range(2):
        coordinator.begin()
        coordinator.fail()
    assert coordinator.it.blame.crashes.limit == limit


def test_a_failed_batch_of_a_new_topology_probably_had_one_tuple_of_each_task(coordinator):
    for _ in range(2):
        coordinator.begin()
        coordinator.fail()
    assert coordinator.it.blame.crashes.limit == 1


def test_no_batch_is_halved_from_more_than_spouts_may_emit(coordinator):
    for _ in range(2):
        coordinator.begin()
        coordinator.succeed(emitted=10_000, work=coordinator.target_seconds)
    coordinator.it.size.permit = FIRST_PERMIT
    for _ in range(2):
        coordinator.begin()
        coordinator.fail()
    assert coordinator.it.blame.crashes.limit == FIRST_PERMIT  # of two tasks


def test_a_failure_without_more_about_it_may_be_a_tuples_fault(coordinator):
    coordinator.begin()
    coordinator.it.failed(VoidAttempt(), coordinator.now)
    assert (coordinator.it.blame.crashes.failures, coordinator.it.blame.crashes.cause) == (1, "")


def test_a_slow_batch_of_few_and_light_tuples_keeps_its_permit(coordinator):
    coordinator.begin()
    coordinator.succeed(emitted=3, work=5.0, moved_bytes=100, cpu_seconds=5.0)
    assert coordinator.it.size.permit == FIRST_PERMIT


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([], []),
        ([(1, 3)], [(1, 3)]),
        ([(3, 4), (1, 3)], [(1, 4)]),
        ([(5, 6), (1, 3)], [(1, 3), (5, 6)]),
    ],
)
def test_few_ranges_are_merged_as_well(pairs, expected):
    assert [tuple(pair) for pair in merged(ranges(*pairs)).tolist()] == expected


# ---- what is told with the next attempt ----------------------------------------------------------


def test_spouts_are_told_whether_they_may_emit_and_for_how_long(coordinator):
    header = coordinator.begin()
    assert (header.active, header.is_retry, header.drains) == (True, False, False)
    assert header.emit_seconds == 0.8 * coordinator.target_seconds  # it has one stage
    coordinator.succeed()
    coordinator.it.active = False
    coordinator.it.size.emit_seconds = 3.0
    coordinator.it.size.permit = 5
    header = coordinator.begin()
    assert (header.active, header.is_retry) == (False, False)
    assert (header.emit_seconds, header.default_permit) == (3.0, 5)


@pytest.mark.parametrize(("workers", "pinned"), [(2, ()), (1, ("source",))])
def test_spouts_emit_for_half_of_a_batch_where_bolts_run_after_them(workers, pinned):
    it = placed(workers=workers, pinned=pinned)
    assert BatchSize().seconds_to_emit(it.topology.spec, it.plan) == 0.5 * 0.25


@pytest.mark.parametrize(("room", "travel"), [(0, True), (-1, False)])
def test_deliveries_travel_in_the_header_if_they_fit(coordinator, room, travel):
    coordinator.begin()
    coordinator.succeed(failed=[(1, 3, "no")])
    size = len(pack_deliveries(coordinator.it.last.deliveries))
    limits = replace(LIMITS, header_bytes=size + room)
    coordinator.it.current.placed = replace(coordinator.it.placed, limits=limits)
    header = coordinator.it.begin(coordinator.now)
    assert (header.deliveries is not None) is travel


def test_stages_that_were_left_out_keep_their_tags(coordinator):
    first = coordinator.begin()
    coordinator.it.committed(coordinator.it.finish([coordinator.summary()], 0.1, skipped=(1,)))
    second = coordinator.it.begin(coordinator.now)
    assert (second.base_of(0), second.base_of(1)) == (first.tag, first.base)


# ---- ends ----------------------------------------------------------------------------------------


def test_what_is_pending_is_known_of_each_task_until_it_says_otherwise(coordinator):
    one, other = coordinator.it.placed.plan.tasks("source")
    for more in ({one: 2}, {other: 3}):
        coordinator.begin()
        coordinator.succeed(pending=more, spout_pending=more, exhausted=dict.fromkeys(more, True))
    assert (coordinator.it.pending, coordinator.it.spout_pending) == (5, 5)
    assert coordinator.it.exhausted
    coordinator.begin()
    coordinator.succeed(pending={one: 0}, spout_pending={one: 1}, exhausted={one: False})
    assert (coordinator.it.pending, coordinator.it.spout_pending) == (3, 4)
    assert not coordinator.it.exhausted


def test_bolts_have_one_last_turn_until_something_was_executed_again(coordinator):
    coordinator.it.drain_bolts()
    assert coordinator.it.turns.next is Turn.USUAL  # nobody has said yet what is to be done before
    coordinator.begin()
    coordinator.succeed()
    coordinator.it.drain_bolts()
    for drains in (True, False, False):
        assert coordinator.begin().drains is drains
        coordinator.succeed()
        assert coordinator.it.turns.drained is True
        coordinator.it.drain_bolts()
    coordinator.begin()
    coordinator.succeed(emitted=1)
    assert coordinator.it.turns.drained is False
    coordinator.it.drain_bolts()
    assert coordinator.begin().drains is True


def test_bolts_have_no_last_turn_while_something_is_on_its_way(coordinator):
    coordinator.begin()
    coordinator.it.drain_bolts()
    assert coordinator.it.turns.next is Turn.USUAL
    coordinator.succeed(emitted=1, pending={1: 1})
    coordinator.it.drain_bolts()
    assert coordinator.it.turns.next is Turn.USUAL
    coordinator.begin()
    coordinator.succeed()  # in which nothing happened: a bolt holds what is pending
    coordinator.it.drain_bolts()
    assert coordinator.it.turns.next is Turn.LAST


def test_workers_are_cold_after_an_attempt_that_came_to_nothing(coordinator):
    coordinator.it.idle.warmed = WARM_BATCHES
    coordinator.begin()
    coordinator.fail()
    assert coordinator.it.idle.warmed == 0


# ---- which stages have a job of their own --------------------------------------------------------


def test_a_batch_runs_whole_when_ackers_hold_trees_or_it_is_no_usual_one():
    coordinator = Checked(placed(workers=2))
    it, end = coordinator.it, len(coordinator.it.placed.plan.stages)
    coordinator.begin()
    coordinator.succeed()  # the first one makes the tasks
    assert it.cuts(coordinator.begin()) == (end - 1, end)
    coordinator.succeed(pending={1: 2})
    assert it.cuts(coordinator.begin()) == (end,)
    coordinator.succeed(pending={1: 0})
    it.drain_bolts()
    assert it.cuts(coordinator.begin()) == (end,)
    coordinator.succeed()
    assert it.cuts(coordinator.begin()) == (end - 1, end)
    coordinator.succeed()
    it.blame.crashes = Crashes(limit=2)
    assert it.cuts(coordinator.begin()) == (end,)


def test_some_batches_run_whole_after_one_whose_trees_outlived_it():
    coordinator = Checked(placed(workers=2))
    it, end, whole = coordinator.it, len(coordinator.it.placed.plan.stages), 0
    coordinator.begin()
    it.finish([], 0.01, ackers_ran=True)
    coordinator.succeed()
    while it.cuts(coordinator.begin()) == (end,):
        coordinator.succeed()
        whole += 1
    assert whole == LIMITS.whole_batches


@pytest.mark.parametrize(
    ("said", "cuts"),
    [
        pytest.param({}, (1, 2, 3), id="nothing"),
        pytest.param({"wants_batch": True}, (2, 3), id="task-that-wants-a-batch"),
        pytest.param({"timers": {3: PendingTimers(None, 100.0)}}, (2, 3), id="timer"),
        pytest.param({"timers": {3: PendingTimers(None, 999.0)}}, (1, 2, 3), id="later-timer"),
        pytest.param({"resting": {3: resting(100.0)}}, (2, 3), id="result-that-comes-again"),
        pytest.param({"resting": {3: resting(999.0)}}, (1, 2, 3), id="result-that-comes-later"),
        pytest.param({"resting": {4: resting(100.0)}}, (1, 2, 3), id="message-that-comes-again"),
    ],
)
def test_only_spouts_are_asked_in_an_idle_topology_if_nothing_is_due_for_bolts(said, cuts):
    coordinator = Checked(placed(workers=2), clock=100.0)
    plan = coordinator.it.placed.plan
    assert [plan.component_of(task) for task in (4, 3)] == ["source", "count"]
    coordinator.it.idle.warmed = WARM_BATCHES
    coordinator.begin()
    coordinator.succeed(seconds=0.0, **said)  # the first one makes the tasks
    assert coordinator.it.cuts(coordinator.begin()) == cuts


# ---- how many tuples the next batch may have -----------------------------------------------------


@pytest.mark.parametrize(
    ("permit", "emitted", "work", "seconds", "expected"),
    [
        pytest.param(64, 64, 0.1, 0.1, 128, id="fast-and-full"),
        pytest.param(64, 64, 0.06, 0.1, 256, id="a-quarter-of-the-target"),
        pytest.param(64, 64, 0.03125, 0.08, 512, id="an-eighth-of-the-target"),
        pytest.param(64, 64, 0.001, 0.08, 512, id="no-time-at-all"),
        pytest.param(64, 64, -0.001, 0.08, 512, id="less-than-no-time"),
        pytest.param(64, 63, 0.1, 0.1, 64, id="fast-and-not-full"),
        pytest.param(64, 64, 0.001, 0.13, 192, id="longer-than-others-by-a-third-of-the-target"),
        pytest.param(64, 64, 0.001, 0.2, 128, id="longer-than-others-by-more-than-half-the-target"),
        pytest.param(64, 64, 0.125, 0.1, 68, id="half-the-target"),
        pytest.param(1000, 1000, 0.2, 0.2, 1062, id="near-the-target"),
        pytest.param(8, 8, 0.2, 0.2, 9, id="near-the-target-one-more-at-least"),
        pytest.param(64, 64, 0.25, 0.25, 68, id="at-the-target"),
        pytest.param(1000, 250, 0.5, 0.5, 450, id="slow"),
        pytest.param(1003, 250, 0.5, 0.5, 451, id="slow-with-a-quarter"),
        pytest.param(1000, 249, 0.5, 0.5, 1000, id="slow-with-less-than-a-quarter"),
        pytest.param(1000, 1000, 5.0, 5.0, 250, id="very-slow"),
        pytest.param(64, 64, 0.1, 0.3, 128, id="longer-than-others-by-the-target"),
        pytest.param(64, 64, 0.1, 0.31, 64, id="longer-than-others"),
        pytest.param(1000, 1000, 0.1, 0.55, 1000, id="longer-than-others-by-twice-the-target"),
        pytest.param(1000, 250, 0.1, 0.6, 500, id="much-longer-than-others"),
        pytest.param(1003, 250, 0.1, 0.6, 501, id="much-longer-with-a-quarter"),
        pytest.param(1000, 249, 0.1, 0.6, 1000, id="much-longer-with-less-than-a-quarter"),
        pytest.param(100, 100, 0.1, 0.6, FIRST_PERMIT, id="not-below-the-first-permit"),
        pytest.param(40, 40, 0.1, 0.6, 40, id="below-the-first-permit-already"),
    ],
)
def test_permits_follow_the_time_of_a_batch(coordinator, permit, emitted, work, seconds, expected):
    assert coordinator.target_seconds == 0.25
    coordinator.begin()
    coordinator.succeed(seconds=0.05)  # what a batch takes without tuples
    coordinator.it.size.permit = permit
    coordinator.begin()
    coordinator.succeed(seconds=seconds, emitted=emitted, work=work)
    assert coordinator.it.size.permit == expected
    assert isinstance(coordinator.it.size.permit, int)


@pytest.mark.parametrize(
    ("before", "times"),
    [
        pytest.param([], 2, id="no-other"),
        pytest.param([33], 2, id="more-than-half-as-large"),
        pytest.param([32], 8, id="half-as-large"),
        pytest.param([32, *[64] * (LAST_BATCHES - 1)], 2, id="half-as-large-and-forgotten"),
    ],
)
def test_permits_are_only_doubled_while_no_smaller_batch_tells_what_tuples_cost(
    coordinator, before, times
):
    for emitted in before:
        coordinator.begin()
        coordinator.succeed(seconds=0.4, emitted=emitted)
    coordinator.it.size.permit = 64
    coordinator.begin()
    coordinator.succeed(seconds=0.4, emitted=64, work=0.001)
    assert coordinator.it.size.permit == times * 64


def test_what_a_quick_batch_took_is_forgotten(coordinator):
    for seconds in (0.05, *[0.4] * LAST_BATCHES):
        coordinator.begin()
        coordinator.succeed(seconds=seconds)
    coordinator.begin()
    coordinator.succeed(seconds=0.4, emitted=FIRST_PERMIT, work=0.1)
    assert coordinator.it.size.permit == 2 * FIRST_PERMIT


def test_permits_stay_while_a_tuple_is_suspected(coordinator):
    coordinator.it.blame.crashes = Crashes(limit=10)
    coordinator.begin()
    coordinator.succeed(emitted=FIRST_PERMIT)
    assert coordinator.it.size.permit == FIRST_PERMIT


@pytest.mark.parametrize(("limit", "over"), [(49, False), (50, True)])
def test_no_tuple_is_suspected_when_batches_may_be_twice_as_large_as_usual(
    coordinator, limit, over
):
    coordinator.begin()
    coordinator.succeed(emitted=50)
    coordinator.it.blame.crashes = Crashes(limit=limit, successes=1)
    coordinator.begin()
    coordinator.succeed()
    assert (coordinator.it.blame.crashes.limit is None) is over


def test_what_batches_usually_emit_is_forgotten_slowly(coordinator):
    for emitted in (100, 0):
        coordinator.begin()
        coordinator.succeed(emitted=emitted)
    coordinator.it.size.permit = 1000
    for _ in range(2):
        coordinator.begin()
        coordinator.fail()
    assert coordinator.it.blame.crashes.limit == (2 * 90 + 2) // 2


def test_a_batch_is_a_commit_if_the_checkpoint_has_to_change_whatever_it_did(coordinator):
    coordinator.begin()
    done = coordinator.it.finish([coordinator.summary()], 0.1, must_commit=True)
    coordinator.it.committed(done)
    assert (done.commits, coordinator.it.last.number) == (True, 8)
