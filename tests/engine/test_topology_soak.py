"""Short soaks (soaks/soak.py): random kills under `fulmen run`, another seed each time in CI."""

import pytest

from support.soaks import state_soak
from support.soaks.soak import Soak
from support.suite import seeds
from support.worlds import unrepeatable
from support.worlds import unrepeatable_windows as windows

ROUNDS = 4
DRIVERS = "drivers that die or are followed, and workers that are killed"

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]


@pytest.mark.matrix(share=1 / 5, name=DRIVERS, cell="soak")
@pytest.mark.parametrize(
    ("workers", "parts"),
    [
        pytest.param((2,), unrepeatable, id="bytes"),
        pytest.param((1, 2, 3), windows, id="windows"),
    ],
)
def test_whatever_is_killed_nothing_is_lost_or_counted_twice_or_left_behind(
    tmp_path, workers, parts
):
    print(f"FULMEN_SEED={seeds.FIRST}")
    with Soak(tmp_path, seeds.FIRST, workers, parts) as soak:
        for _ in range(ROUNDS):
            soak.round()
        soak.settle()
        soak.drain()
        print(soak.figures())
        assert soak.killed >= ROUNDS


@pytest.mark.slow  # its rounds take minutes each
@pytest.mark.timeout(3600)
def test_state_that_moves_while_processes_are_killed_is_whole(tmp_path):
    """Numbers of tasks change, savepoints are made and gone back to."""
    print(f"FULMEN_SEED={seeds.FIRST}")
    print(state_soak.soak(tmp_path, seeds.FIRST, ROUNDS).figures())


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_state_that_moves_is_whole_after_a_hundred_kills(tmp_path):
    print(state_soak.soak(tmp_path, seeds.FIRST, 100).figures())
