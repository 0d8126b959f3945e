"""What each attempt is made of while the tuple is searched that kills its workers."""

import pytest

from fulmen.engine.batches.failures.crashes import Crashes, Probe

TASKS = (4, 5, 6)


def suspicious(limit, **more):
    """What is known when attempts are down to so many tuples."""
    return Crashes(limit=limit, trial=Probe.ALONE if limit == 1 else Probe.SOME, **more)


def one_each(*tasks):
    return dict.fromkeys(tasks, 1)


def test_batches_are_halved_from_the_second_failure_on_down_to_one_tuple():
    crashes, found = Crashes(), []
    for _ in range(7):
        crashes.failed(likely=100, cause="killed")
        found.append(crashes.permits(TASKS))
    assert found == [
        (None, ()),
        ({4: 16, 5: 16, 6: 16}, ()),
        ({4: 8, 5: 8, 6: 8}, ()),
        ({4: 4, 5: 4, 6: 4}, ()),
        ({4: 2, 5: 2, 6: 2}, ()),
        (one_each(4, 5, 6), ()),
        (one_each(4), ()),
    ]


@pytest.mark.parametrize(("likely", "limit"), [(0, 1), (1, 1), (3, 1), (4, 2), (5, 2)])
def test_a_batch_that_had_hardly_any_tuples_is_tried_with_one_at_least(likely, limit):
    crashes = Crashes()
    for _ in range(2):
        crashes.failed(likely, "killed")
    assert crashes.limit == limit


@pytest.mark.parametrize("tasks", [(4,), TASKS], ids=["one-task", "three-tasks"])
def test_a_tuple_is_dropped_after_two_failures_alone_each_followed_by_a_success_without_it(tasks):
    crashes = suspicious(1)
    nothing = dict.fromkeys(tasks, 0)
    for _ in range(2):
        assert crashes.permits(tasks) == (one_each(4), ())
        crashes.failed(1, "killed")
        assert crashes.permits(tasks) == (nothing, ())
        assert not crashes.succeeded(enough=100)
    assert crashes.permits(tasks) == (one_each(4), (4,))
    assert not crashes.succeeded(enough=100)
    assert (crashes.limit, crashes.alone) == (2, 0)


def test_after_a_drop_there_are_more_tuples_at_once_from_the_tasks_whose_turn_it_is():
    crashes = suspicious(1)
    crashes.trial = Probe.DROPPING
    found = []
    for _ in range(4):
        crashes.succeeded(enough=100)
        found.append(crashes.permits(TASKS))
    assert found == [
        (one_each(5, 6), ()),
        (one_each(4, 5), ()),
        (one_each(4, 5, 6), ()),  # four of three tasks
        (one_each(4, 5, 6), ()),
    ]
    crashes.succeeded(enough=100)
    assert crashes.permits(TASKS) == ({4: 2, 5: 2, 6: 2}, ())


def test_without_a_drop_two_successes_double_the_tuples():
    crashes = suspicious(1)
    crashes.succeeded(enough=100)
    assert crashes.permits(TASKS) == (one_each(5), ())
    crashes.succeeded(enough=100)
    assert crashes.permits(TASKS) == (one_each(4, 6), ())


def test_successes_before_a_failure_do_not_count():
    crashes = suspicious(4)
    crashes.succeeded(enough=100)
    crashes.failed(4, "killed")
    assert crashes.limit == 2
    crashes.succeeded(enough=100)
    assert crashes.limit == 2
    crashes.succeeded(enough=100)
    assert crashes.limit == 4


def test_a_success_alone_clears_the_tuple_of_what_it_was_suspected_of():
    crashes = suspicious(1)
    crashes.failed(1, "killed")
    crashes.succeeded(enough=100)
    assert crashes.alone == 1
    crashes.succeeded(enough=100)
    assert crashes.alone == 0


@pytest.mark.parametrize("trial", [Probe.WITHOUT, Probe.DROPPING], ids=["without", "dropping"])
def test_who_is_suspected_changes_when_an_attempt_fails_without_the_tuple(trial):
    crashes = suspicious(1, alone=2, rounds=3)
    crashes.trial = trial
    crashes.failed(0, "node lost")
    assert crashes.permits(TASKS) == (one_each(5), ())
    assert (crashes.alone, crashes.rounds) == (0, 4)
    crashes.succeeded(enough=100)
    assert crashes.rounds == 0


def test_each_spout_task_is_suspected_in_its_turn():
    crashes, found = suspicious(1), []
    for _ in range(4):
        found.append(crashes.permits(TASKS))
        crashes.failed(1, "killed")
        assert crashes.permits(TASKS) == (dict.fromkeys(TASKS, 0), ())
        crashes.failed(0, "killed")
    assert found == [(one_each(task), ()) for task in (4, 5, 6, 4)]
    assert crashes.rounds == 4


def test_the_cause_is_that_of_the_last_attempt_that_had_the_tuple():
    crashes = suspicious(1)
    crashes.failed(1, "out of memory")
    crashes.failed(0, "node lost")  # which had no tuple
    assert crashes.cause == "out of memory"
    crashes.failed(1, "segmentation fault")
    assert crashes.cause == "segmentation fault"


@pytest.mark.parametrize(("limit", "enough", "over"), [(8, 16, True), (8, 17, False)])
def test_nobody_is_suspected_when_the_limit_is_none(limit, enough, over):
    crashes = suspicious(limit, successes=1)
    assert crashes.succeeded(enough) is over
    assert Crashes().succeeded(enough)


def test_without_spout_tasks_there_is_nobody_to_limit():
    assert suspicious(1).permits(()) == (None, ())
