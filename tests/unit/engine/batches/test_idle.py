"""How long a topology waits in which nothing happens."""

import pytest

from fulmen.engine.batches.pace.idle import IDLE_BATCHES_TO_END, SHORT_WAITS, WARM_BATCHES, Idle


@pytest.mark.parametrize(
    ("batches", "cold", "warm"),
    [
        (0, 0.001, 0.001),
        (1, 0.002, 0.002),
        (7, 0.128, 0.128),
        (8, 0.25, 0.25),
        (47, 0.25, 0.25),
        (48, 0.25, 1.0),
        (109, 0.25, 1.0),
        (110, 0.25, 2.5),
        (10_000, 0.25, 2.5),
    ],
)
def test_the_wait_doubles_up_to_what_an_idle_topology_may_wait(batches, cold, warm):
    assert Idle(batches=batches).seconds() == pytest.approx(cold)
    assert Idle(batches=batches, warmed=WARM_BATCHES).seconds() == pytest.approx(warm)


def test_batches_in_a_row_are_counted():
    idle = Idle()
    for is_idle, batches in [(True, 1), (True, 2), (False, 0), (True, 1)]:
        idle.committed(is_idle)
        assert idle.batches == batches
    assert idle.warmed == 4
    idle.failed()
    assert (idle.batches, idle.warmed) == (1, 0)


def test_batches_without_a_job_do_not_warm_workers():
    idle = Idle()
    idle.committed(is_idle=True, had_no_job=True)
    assert (idle.batches, idle.warmed) == (1, 0)


def test_only_spouts_need_be_asked_when_nothing_happens_and_workers_are_warm():
    assert Idle(batches=1, warmed=WARM_BATCHES).needs_spouts_only
    assert not Idle(batches=0, warmed=WARM_BATCHES).needs_spouts_only
    assert not Idle(batches=1, warmed=WARM_BATCHES - 1).needs_spouts_only


def test_nothing_comes_any_more_after_some_batches_in_which_nothing_happened():
    idle = Idle()
    for _ in range(2):
        for _ in range(IDLE_BATCHES_TO_END - 1):
            idle.committed(is_idle=True)
            assert not idle.is_over
        idle.committed(is_idle=True)
        assert idle.is_over
        idle.committed(is_idle=False)
        assert not idle.is_over


def test_ticks_do_not_put_off_the_end():
    idle = Idle()
    for _ in range(3):
        for _ in range(IDLE_BATCHES_TO_END - 6):
            idle.committed(is_idle=True)
        idle.committed(is_idle=False, only_ticked=True)
    assert idle.is_over


def test_waits_that_ticks_cut_short_do_not_bring_the_end_near():
    idle = Idle()
    for _ in range(100):
        for _ in range(SHORT_WAITS):
            idle.committed(is_idle=True)
        idle.committed(is_idle=False, only_ticked=True)
    assert not idle.is_over
