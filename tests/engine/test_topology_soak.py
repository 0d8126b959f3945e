"""A short soak (soaks/soak.py): random kills under `fulmen run`, another seed each time in CI."""

import random

import pytest

from support.soaks.soak import Soak
from support.suite import seeds
from support.worlds import unrepeatable
from support.worlds import unrepeatable_windows as windows

ROUNDS = 4


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_whatever_is_killed_nothing_is_lost_or_counted_twice_or_left_behind(tmp_path):
    print(f"FULMEN_SEED={seeds.FIRST}")
    drawn = random.Random(seeds.FIRST).choice([((2,), unrepeatable), ((1, 2, 3), windows)])
    with Soak(tmp_path, seeds.FIRST, *drawn) as soak:
        for _ in range(ROUNDS):
            soak.round()
        soak.settle()
        soak.drain()
        print(soak.figures())
        assert soak.killed >= ROUNDS
