"""What a driver makes of the revisions that it reads while it runs."""

import pytest

from fulmen.kube.contract.endings import ExitCode
from fulmen.kube.contract.reports import DriverPhase
from fulmen.kube.contract.revisions import Directive, Revision
from fulmen.kube.driver.instructions import Instructions
from support.cli.documents import word_count

FIRST = Revision(generation=1, topology=word_count(), input_hash="a")


def later(changes=None, **fields):
    """The next revision, with what a spec has changed."""
    topology = word_count(changes or {})
    return FIRST.model_copy(update={"generation": 2, "topology": topology, **fields})


@pytest.fixture
def instructions():
    """Of a driver that runs as it was told at its start."""
    made = Instructions(FIRST)
    made.follow(FIRST)
    return made


def test_it_runs_until_it_is_told_otherwise(instructions):
    assert instructions.phase is DriverPhase.ACTIVE
    assert instructions.generation == 1
    assert instructions.stop.active is True
    assert instructions.stop.topology is None


def test_spouts_are_stopped_and_started_again(instructions):
    instructions.follow(later(directive=Directive.INACTIVE))
    assert instructions.stop.active is False
    assert instructions.phase is DriverPhase.INACTIVE
    instructions.follow(later(generation=3))
    assert instructions.stop.active is True
    assert instructions.phase is DriverPhase.ACTIVE


def test_it_drains_although_it_is_told_to_run_again_and_ends_as_drained(instructions):
    instructions.follow(later(directive=Directive.DRAIN))
    instructions.follow(later(generation=3))
    assert instructions.stop.drain
    assert instructions.phase is DriverPhase.DRAINING
    code, ended = instructions.ended(7)
    assert (code, ended.reason, ended.message) == (0, "Drained", "drained, at batch 7")


def test_a_driver_that_is_ended_says_after_which_batch(instructions):
    instructions.stop.now = True
    code, ended = instructions.ended(7)
    assert (code, ended.reason) == (ExitCode.TERMINATED, "Terminated")
    assert ended.message == "SIGTERM ended the driver after batch 7 was committed"


@pytest.mark.parametrize(
    ("revision", "workers"),
    [
        pytest.param(later({"spec.workers": 3}), 3, id="spec"),
        pytest.param(later(generation=1, workers=3), 3, id="autoscale"),
    ],
)
def test_another_number_of_workers_is_taken_over(instructions, revision, workers):
    instructions.follow(revision)
    assert instructions.stop.topology.spec.workers == workers
    assert instructions.phase is DriverPhase.REBALANCING
    assert instructions.generation == 1
    instructions.stop.topology = None  # the engine has taken it
    assert instructions.generation == revision.generation


def test_what_a_driver_need_not_change_for_changes_nothing(instructions):
    instructions.follow(later())
    assert instructions.stop.topology is None
    assert instructions.generation == 2


def test_who_may_look_at_tuples_is_taken_over_at_once(instructions):
    instructions.follow(later({"spec.tap": {"allowed": True}}))
    assert instructions.taps.is_allowed
    assert instructions.stop.topology is None
    instructions.follow(later(generation=3))
    assert not instructions.taps.is_allowed


def test_what_another_driver_is_to_run_is_not_taken_over(instructions):
    instructions.follow(later({"spec.workers": 3}, input_hash="b"))
    assert instructions.stop.topology is None
    assert instructions.generation == 1


def test_a_change_that_the_driver_refuses_is_tried_again_when_the_spec_changes(instructions):
    instructions.follow(later({"spec.bolts.1.numTasks": 8}))
    assert instructions.phase is DriverPhase.REBALANCING
    instructions.stop.topology, instructions.stop.refused = None, "a join"  # as the driver does
    assert (instructions.generation, instructions.phase) == (1, DriverPhase.ACTIVE)
    instructions.follow(FIRST.model_copy(update={"generation": 3}))
    assert instructions.stop.refused == ""
    assert instructions.stop.topology is not None
    instructions.stop.topology = None
    assert instructions.generation == 3
