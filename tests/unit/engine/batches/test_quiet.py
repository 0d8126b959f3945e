"""When nothing is on its way any more, and when a topology has nothing more to do."""

import pytest

from fulmen.engine.batches.failures.blame import Fault, VoidAttempt
from fulmen.engine.batches.failures.crashes import Crashes
from fulmen.engine.batches.pace.idle import IDLE_BATCHES_TO_END
from fulmen.engine.protocol.callbacks.calls import Call
from fulmen.engine.protocol.summary import Resting, Summary
from support.runs.coordinators import Checked, placed, ranges, told

SPOUT, OTHER_SPOUT, BOLT = 4, 5, 3
MESSAGE_THAT_COMES_AGAIN = {SPOUT: Resting(messages=1, due=999.0, failures=1, reason="no")}


@pytest.fixture
def it():
    """The coordinator of a topology whose last batch was idle."""
    made = Checked(placed(workers=2)).it
    plan = made.placed.plan
    assert [plan.component_of(t) for t in (SPOUT, OTHER_SPOUT, BOLT)] == ["source"] * 2 + ["count"]
    batch(made)
    assert made.is_quiet
    return made


def batch(it, times=1, **said):
    for _ in range(times):
        it.begin(5000.0)
        it.committed(it.finish([Summary(0, 0, **told(**said))], 0.1))


# ---- quiet -----------------------------------------------------------------------------------


def test_no_topology_is_quiet_during_an_attempt_nor_until_a_failed_one_was_repeated(it):
    it.begin(5000.0)
    assert not it.is_quiet
    assert not it.settled
    it.failed(VoidAttempt("killed"), 5000.0)
    assert not it.is_quiet
    batch(it)
    assert it.is_quiet


def test_no_topology_is_quiet_before_its_spouts_were_told_what_has_become_of_messages(it):
    batch(it, acked={1: ranges((0, 1))})
    assert not it.is_quiet
    batch(it, owed=dict(it.last.deliveries))  # a spout was not told yet
    assert it.idle.batches > 0
    assert not it.is_quiet
    batch(it)
    assert it.is_quiet


def test_no_topology_is_quiet_while_a_task_wants_a_batch(it):
    batch(it, wants_batch=True)
    assert it.idle.batches > 0
    assert not it.is_quiet


@pytest.mark.parametrize(
    ("holds", "happened", "quiet"),
    [({BOLT: "full"}, False, True), ({BOLT: "full"}, True, False), ({}, True, False)],
)
def test_what_bolts_hold_is_all_that_is_pending_when_nothing_happens(it, holds, happened, quiet):
    batch(it, pending={1: 1}, holds=holds, did_something=happened)
    assert it.is_quiet is quiet


def test_a_probe_in_which_nothing_happens_does_not_tell_that_nothing_is_on_its_way(it):
    batch(it, pending={1: 1}, did_something=True)
    it.begin(5000.0)
    it.failed(VoidAttempt("no broker", fault=Fault.SERVICE), 5000.0)
    assert it.blame.probe.is_next
    batch(it)  # the probe: no spout may emit
    assert not it.is_quiet
    batch(it)
    assert it.is_quiet


# ---- nothing more ------------------------------------------------------------------------------

EXHAUSTED = {SPOUT: True, OTHER_SPOUT: True}


@pytest.mark.parametrize(
    ("said", "is_over"),
    [
        pytest.param({"exhausted": EXHAUSTED}, True, id="all-say-so"),
        pytest.param({"exhausted": EXHAUSTED | {SPOUT: None}}, False, id="one-never-says"),
        pytest.param(
            {"exhausted": EXHAUSTED, "resting": MESSAGE_THAT_COMES_AGAIN}, False, id="comes-again"
        ),
        pytest.param({"exhausted": EXHAUSTED, "holds": {BOLT: "full"}}, False, id="bolt-is-full"),
        pytest.param({"exhausted": EXHAUSTED, "wants_batch": True}, False, id="wants-a-batch"),
    ],
)
def test_spouts_that_are_exhausted_are_the_end(it, said, is_over):
    batch(it, **said)
    assert it.has_nothing_more is is_over


@pytest.mark.parametrize(
    ("said", "is_over"),
    [
        pytest.param({}, True, id="no-spout-says"),
        pytest.param({"exhausted": {SPOUT: None}}, True, id="never-says"),
        pytest.param({"exhausted": {SPOUT: False}}, False, id="will-say"),
        pytest.param({"resting": MESSAGE_THAT_COMES_AGAIN}, False, id="comes-again"),
        pytest.param({"holds": {BOLT: "full"}}, False, id="bolt-is-full"),
    ],
)
def test_nothing_for_long_is_the_end_if_no_spout_knows_its_own(it, said, is_over):
    batch(it, 2 + IDLE_BATCHES_TO_END, **said)
    assert it.has_nothing_more is is_over


def test_nothing_for_long_is_not_the_end_while_a_tuple_is_suspected(it):
    batch(it, 2 + IDLE_BATCHES_TO_END)
    it.blame.crashes = Crashes(limit=1)
    assert not it.has_nothing_more


def test_what_a_spout_has_that_is_left_out_does_not_put_off_the_end(it):
    said = {"exhausted": EXHAUSTED | {SPOUT: False}, "resting": MESSAGE_THAT_COMES_AGAIN}
    batch(it, 2 + IDLE_BATCHES_TO_END, **said)
    assert not it.has_nothing_more
    it.begin(5000.0)
    calls = [Call(SPOUT, "next_tuple", 300.0)]
    it.failed(VoidAttempt("hangs", calls=calls, hung_seconds=300.0), 5000.0)
    batch(it)
    assert it.has_nothing_more


def test_the_spouts_are_named_that_have_not_said_their_end(it):
    batch(it, exhausted=EXHAUSTED | {SPOUT: False})
    assert it.spouts_without_end == ["source"]
    batch(it, exhausted=EXHAUSTED)
    assert it.spouts_without_end == []


def test_the_seconds_are_known_in_which_no_spout_has_emitted(it):
    batch(it, emitted=1)
    assert it.seconds_without_input == 0.0
    it.begin(5010.0)
    assert it.seconds_without_input == 10.0
