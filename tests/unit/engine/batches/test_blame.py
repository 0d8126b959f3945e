"""What an attempt that came to nothing is blamed on, and what the next attempts do without."""

import pytest

from fulmen.engine.batches.failures.blame import Fault, VoidAttempt
from fulmen.engine.batches.failures.crashes import Crashes, Probe
from fulmen.engine.batches.failures.suspects import PAUSE_SECONDS
from fulmen.engine.batches.size.permits import FIRST_PERMIT
from fulmen.engine.protocol.callbacks.call_names import FUNCTIONS
from fulmen.engine.protocol.callbacks.calls import Call
from fulmen.engine.time.event_times import WHOLE_TASK
from support.runs.coordinators import Checked, placed, ranges


@pytest.fixture
def coordinator():
    return Checked()


@pytest.fixture
def spouts(coordinator):
    """Two tasks of a spout."""
    return tuple(coordinator.it.placed.plan.tasks("source"))


@pytest.fixture
def bolt(coordinator):
    """A task of a bolt."""
    return coordinator.it.placed.plan.tasks("count")[0]


def fail(coordinator, *calls, **more):
    """An attempt comes to nothing in these calls. Returns the coordinator."""
    coordinator.it.begin(coordinator.now)
    made = [Call(*call, seconds=1.0) for call in calls]
    coordinator.it.failed(VoidAttempt("killed", calls=made, **more), coordinator.now)
    return coordinator.it


# ---- spouts' own calls -----------------------------------------------------------------------


def test_a_spout_task_that_ended_its_process_twice_is_left_out_until_its_pause_is_over(
    coordinator, spouts
):
    for left_out in ((), (), spouts[:1]):
        assert coordinator.it.begin(coordinator.now).left_out == left_out
        it = fail(coordinator, (spouts[0], "next_tuple"))
    assert it.blame.crashes == Crashes()  # and no tuple is suspected
    coordinator.now += 3 * PAUSE_SECONDS
    assert it.begin(coordinator.now).left_out == ()
    it.active = False  # no spout may emit, so none is tried again
    assert it.begin(coordinator.now).left_out == spouts[:1]


def test_functions_that_a_spout_task_runs_for_an_input_end_their_process_by_a_tuple(
    coordinator, spouts
):
    for _ in range(3):
        it = fail(coordinator, (spouts[0], FUNCTIONS))
    assert it.begin(coordinator.now).left_out == ()
    assert it.blame.crashes.failures == 3


def test_a_batch_that_counts_clears_spouts_that_were_in_it(coordinator, spouts):
    fail(coordinator, (spouts[0], "next_tuple"))
    header = coordinator.it.begin(coordinator.now)
    coordinator.it.committed(coordinator.it.finish([coordinator.summary()], 0.1))
    assert header.left_out == ()
    assert not fail(coordinator, (spouts[0], "next_tuple")).blame.left_out
    assert fail(coordinator, (spouts[0], "next_tuple")).blame.left_out


def test_a_spout_task_that_hangs_is_left_out_at_once_for_as_long_as_it_was_given(
    coordinator, spouts
):
    it = fail(coordinator, (spouts[1], "open"), hung_seconds=300.0)
    [suspect] = it.blame.left_out
    assert (suspect.task, suspect.callback, suspect.hangs) == (spouts[1], "open", True)
    assert suspect.again == coordinator.now + 300.0


def test_messages_of_a_spout_task_that_is_left_out_are_not_waited_for(coordinator, spouts):
    coordinator.begin()
    coordinator.succeed(spout_pending=dict.fromkeys(spouts, 3), acked={1: ranges((0, 1))})
    fail(coordinator, (spouts[0], "ack"), hung_seconds=1.0)
    header = coordinator.it.begin(coordinator.now)
    assert header.left_out == spouts[:1]
    left = coordinator.summary(spout_pending={spouts[1]: 0}, exhausted={spouts[1]: True})
    left.owed = {1: coordinator.it.last.deliveries[1]}
    coordinator.it.committed(coordinator.it.finish([left], 0.1))
    assert coordinator.it.spout_pending == 0
    assert coordinator.it.exhausted
    assert coordinator.it.last.deliveries.keys() == {1}  # nobody has been told, and nobody can be
    assert coordinator.it.settled


def test_a_topology_whose_spout_tasks_are_all_left_out_is_not_exhausted(coordinator, spouts):
    coordinator.begin()
    coordinator.succeed(exhausted=dict.fromkeys(spouts, True))
    assert coordinator.it.exhausted
    fail(coordinator, *((task, "ack") for task in spouts), hung_seconds=1.0)
    assert coordinator.it.begin(coordinator.now).left_out == spouts
    coordinator.it.committed(coordinator.it.finish([coordinator.summary()], 0.1))
    assert not coordinator.it.exhausted


def test_while_a_tuple_is_suspected_only_tasks_that_are_not_left_out_may_emit(coordinator, spouts):
    fail(coordinator, (spouts[0], "next_tuple"), hung_seconds=1.0)
    coordinator.it.blame.crashes = Crashes(limit=1, trial=Probe.ALONE)
    assert coordinator.it.begin(coordinator.now).permits == {spouts[1]: 1}


# ---- calls of bolts --------------------------------------------------------------------------


def test_a_call_of_a_bolt_may_be_its_tuples_fault(coordinator, bolt):
    it = fail(coordinator, (bolt, "execute"))
    assert (it.blame.crashes.failures, it.blame.crashes.cause) == (1, "killed")
    assert it.blame.unmade.certain is None
    assert not it.blame.left_out


def test_no_tuple_is_to_blame_when_a_bolt_can_not_be_made(coordinator, bolt):
    for certain in (False, False, True):
        it = fail(coordinator, (bolt, "prepare"))
        assert (it.blame.unmade.certain is not None) is certain
    assert it.blame.crashes.failures == 0
    assert (it.blame.unmade.certain.task, it.blame.unmade.certain.callback) == (bolt, "prepare")
    assert not it.blame.left_out


def test_a_bolt_whose_making_hangs_will_never_be_made(coordinator, bolt):
    assert fail(coordinator, (bolt, "prepare"), hung_seconds=0.5).blame.unmade.certain.hangs


def test_a_batch_that_counts_shows_that_all_bolts_were_made(coordinator, bolt):
    for _ in range(2):
        fail(coordinator, (bolt, "prepare"))
    coordinator.it.begin(coordinator.now)
    coordinator.it.committed(coordinator.it.finish([coordinator.summary()], 0.1))
    assert fail(coordinator, (bolt, "prepare")).blame.unmade.certain is None


def test_a_spout_that_can_not_be_made_is_left_out(coordinator, spouts):
    it = fail(coordinator, (spouts[0], "restoring its fields"), hung_seconds=1.0)
    assert [suspect.task for suspect in it.blame.left_out] == [spouts[0]]
    assert it.blame.unmade.certain is None


# ---- a tuple that was dropped in vain ----------------------------------------------------------


def dropping(coordinator):
    """The first tuple of the first task is dropped in the next attempt."""
    blame = coordinator.it.blame
    blame.crashes = Crashes(limit=1, trial=Probe.DROPPING, cause="dead", traceback="line")


def test_an_attempt_that_drops_a_tuple_tells_why(coordinator, spouts):
    dropping(coordinator)
    header = coordinator.it.begin(coordinator.now)
    assert (header.poisoned, header.cause, header.traceback) == (spouts[:1], "dead", "line")
    coordinator.it.blame.crashes.trial = Probe.ALONE
    header = coordinator.it.begin(coordinator.now)
    assert (header.poisoned, header.cause, header.traceback) == ((), "", "")


def test_a_spout_is_to_blame_if_its_batch_fails_although_its_tuple_was_dropped(coordinator, spouts):
    dropping(coordinator)
    it = fail(coordinator)
    [suspect] = it.blame.left_out
    assert (suspect.task, suspect.is_certain) == (spouts[0], True)
    assert it.blame.crashes == Crashes()


def test_a_call_of_a_bolt_proves_nothing_of_the_spout_whose_tuple_was_dropped(coordinator, bolt):
    dropping(coordinator)
    it = fail(coordinator, (bolt, "execute"))
    assert not it.blame.left_out
    assert it.blame.crashes.limit == 1


@pytest.mark.parametrize(("rounds", "hopeless"), [(2, False), (3, True)])
def test_a_batch_is_hopeless_when_each_of_two_spout_tasks_was_suspected_in_vain(
    coordinator, rounds, hopeless
):
    coordinator.it.blame.crashes = Crashes(limit=1, trial=Probe.ALONE, rounds=rounds)
    assert coordinator.it.hopeless is hopeless


# ---- services that are away, and bolts that are full ---------------------------------------------


def permits(header, spouts):
    return [header.permit(task) for task in spouts]


def test_after_a_service_was_away_an_attempt_without_tuples_asks_for_it(coordinator, spouts):
    dropping(coordinator)
    it = fail(coordinator, fault=Fault.SERVICE)
    header = it.begin(coordinator.now)
    assert permits(header, spouts) == [0, 0]
    assert header.poisoned == ()
    it.committed(it.finish([coordinator.summary()], 0.1))
    assert it.idle.batches == 0  # nothing happened, as nothing was to
    it.blame.crashes = Crashes()
    assert permits(it.begin(coordinator.now), spouts) == [FIRST_PERMIT, FIRST_PERMIT]


def test_what_a_batch_without_tuples_took_says_nothing_about_others(coordinator):
    coordinator.it.blame.crashes = Crashes(limit=1, trial=Probe.ALONE)
    it = fail(coordinator, fault=Fault.SERVICE)
    it.begin(coordinator.now)
    it.committed(it.finish([coordinator.summary()], 0.1))
    assert (it.blame.crashes.limit, it.blame.crashes.successes) == (1, 0)


@pytest.mark.parametrize("is_suspect", [False, True])
def test_while_a_bolt_holds_the_spouts_they_emit_nothing(coordinator, spouts, bolt, is_suspect):
    coordinator.begin()
    coordinator.succeed(holds={bolt: "full"})
    coordinator.it.blame.crashes = Crashes(limit=1, trial=Probe.ALONE) if is_suspect else Crashes()
    assert permits(coordinator.it.begin(coordinator.now), spouts) == [0, 0]


# ---- ends ----------------------------------------------------------------------------------------


def test_a_last_attempt_closes_instances_and_is_no_batch(coordinator):
    header = coordinator.it.begin_closing(coordinator.now)
    assert header.closes
    assert coordinator.it.attempt is None


@pytest.mark.parametrize("is_at_end", [False, True])
def test_event_time_ends_with_the_last_turn_of_bolts_only_at_the_end(coordinator, is_at_end):
    coordinator.begin()
    coordinator.succeed()
    coordinator.it.drain_bolts(is_at_end=is_at_end)
    header = coordinator.begin()
    assert (header.drains, bool(header.ends_time)) == (True, is_at_end)
    coordinator.succeed(emitted=1)
    assert not coordinator.begin().ends_time


def test_bolts_are_told_how_far_event_time_has_come():
    coordinator = Checked(placed(spouts=1, is_timed=True))
    [task] = coordinator.it.placed.plan.tasks("source")
    assert coordinator.begin().watermarks.get("count", (None,))[0] is None
    coordinator.succeed(emitted=1, event_times={(task, WHOLE_TASK): 8})
    first = coordinator.begin().watermarks["count"][0]
    coordinator.succeed(emitted=1, event_times={(task, WHOLE_TASK): 18})
    assert coordinator.begin().watermarks["count"] == (first + 10, first)
