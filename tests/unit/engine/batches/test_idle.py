"""How long a topology waits in which nothing happens."""

import pytest

from fulmen.engine.batches.idle import IDLE_BATCHES_TO_END, WARM_BATCHES, Idle


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


def test_only_spouts_need_be_asked_when_nothing_happens_and_workers_are_warm():
    assert Idle(batches=1, warmed=WARM_BATCHES).needs_spouts_only
    assert not Idle(batches=0, warmed=WARM_BATCHES).needs_spouts_only
    assert not Idle(batches=1, warmed=WARM_BATCHES - 1).needs_spouts_only


def test_nothing_comes_any_more_after_some_batches_in_which_nothing_happened():
    assert Idle(batches=IDLE_BATCHES_TO_END).is_over
    assert not Idle(batches=IDLE_BATCHES_TO_END - 1).is_over
