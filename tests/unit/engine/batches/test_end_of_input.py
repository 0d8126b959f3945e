"""When nothing has come for so long that nothing will."""

import pytest

from fulmen.engine.batches.ends.end_of_input import AWAY_SECONDS, EndOfInput
from fulmen.engine.batches.pace.idle import IDLE_BATCHES_TO_END, Idle
from fulmen.engine.protocol.summary import ErrorReport, Summary
from support.runs.coordinators import batch_of

SPOUT, BOLT = 1, 2
OVER = Idle(quiet=IDLE_BATCHES_TO_END)
RAISED = Summary(0, 0, has_raised=True)


def away(task):
    return Summary(0, 0, errors=[ErrorReport("a", task, "refused", service="localhost:5432")])


def done(clock, *summaries):
    return batch_of(*summaries, clock=clock)


@pytest.fixture
def end():
    return EndOfInput(clock=100.0)


def likely_after(end, batches, clock=100.0):
    for summary in batches:
        end.committed(done(clock, Summary(1, 0), summary), {SPOUT}, is_empty=False)
    return end.is_likely(OVER, clock)


def test_a_topology_that_is_idle_for_long_has_come_to_its_end(end):
    assert end.is_likely(OVER, 100.0)
    assert likely_after(end, [Summary(0, 0)])
    assert not end.is_likely(Idle(), 100.0)


def test_after_a_spout_has_raised_some_batches_must_be_calm(end):
    assert not likely_after(end, [RAISED])
    calm = [Summary(0, 0)] * (IDLE_BATCHES_TO_END - 1)
    assert not likely_after(end, calm)
    assert likely_after(end, [Summary(0, 0)])
    assert not likely_after(end, [*calm, RAISED])


def test_what_was_away_may_have_more_for_a_while(end):
    assert not likely_after(end, [away(SPOUT)])
    assert not likely_after(end, [Summary(0, 0)], 100.0 + AWAY_SECONDS - 1)
    assert likely_after(end, [Summary(0, 0)], 100.0 + AWAY_SECONDS)


def test_an_error_of_a_spout_that_names_no_service_is_no_reason_to_wait(end):
    assert likely_after(end, [Summary(0, 0, errors=[ErrorReport("a", SPOUT, "unreadable")])])


def test_what_a_bolt_connects_to_may_be_away_at_the_end(end):
    assert likely_after(end, [away(BOLT)])


def test_a_source_of_transactions_is_at_its_end_after_some_empty_batches_in_a_row(end):
    def ended_after(batches, is_empty):
        for _ in range(batches):
            end.committed(done(100.0), {SPOUT}, is_empty=is_empty)
        return end.is_likely_of_transactions

    assert not ended_after(IDLE_BATCHES_TO_END - 1, is_empty=True)
    assert ended_after(1, is_empty=True)
    assert not ended_after(1, is_empty=False)
    assert not ended_after(IDLE_BATCHES_TO_END - 1, is_empty=True)
    assert ended_after(1, is_empty=True)


def test_it_is_known_for_how_long_spouts_have_emitted_nothing(end):
    assert end.seconds_without_input(103.0) == 3.0
    end.committed(done(105.0, Summary(0, 0, emitted=2)), {SPOUT}, is_empty=False)
    end.committed(done(106.0, Summary(0, 0)), {SPOUT}, is_empty=False)
    assert end.seconds_without_input(107.0) == 2.0
