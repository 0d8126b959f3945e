"""A short soak (support/soak.py): random kills under `fulmen run`, another seed each time in CI."""

import random

import pytest

from support import seeds, unrepeatable
from support import unrepeatable_windows as windows
from support.soak import Soak

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
