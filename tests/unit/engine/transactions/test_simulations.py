"""Whatever fails, and whenever: each row of the source is in the stores outside exactly once."""

import pytest
from hypothesis import settings

from support.suite import seeds
from support.worlds.troubled_parts import KINDS
from support.worlds.troubled_world import World

WORLDS = settings.default.max_examples // 4


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.matrix(share=2 / 7, name="transactions in worlds at random", cell="stores")
@pytest.mark.parametrize("kind", KINDS)
def test_each_row_is_stored_exactly_once(kind):
    for seed in seeds.several(WORLDS):
        with seeds.generator(seed):
            World(seed, kind).simulate()
