"""However tuples are cut into chunks, the same comes of them as one by one."""

from collections import Counter

import pytest
from hypothesis import settings

from support.suite import seeds
from support.worlds.chunk_worlds import SINGLY, any_world, other_ways, run

WORLDS = max(8, settings.default.max_examples // 3)


def compare(one, other):
    """Both are the same: acks, failures and their reasons, order, states, figures."""
    assert one.orders == other.orders
    assert one.received == other.received
    assert one.acked == other.acked
    assert one.failed.keys() == other.failed.keys()
    for msg_id, reason in one.failed.items():
        uids = one.refused[msg_id]
        assert sorted(uids) == sorted(other.refused[msg_id])
        if len(uids) < 2:
            assert other.failed[msg_id] == reason
        elif "" not in uids:
            assert any(f"<{uid}>" in other.failed[msg_id] for uid in uids)
    assert one.states == other.states
    assert other.counts in (one.counts, None)


OFTEN = (
    "many at once",
    "a range of ids",
    "a wrong row among many",
    "emit tuple",
    "emit wrong",
    "emit need",
    "kept tuples",
    "held",
    "ended later",
    "0 anchors",
    "2 anchors",
    "never acked",
    "failed",
    "failed more than once",
    "acked",
    "attempts lost",
    "where",
    "one to one",
    "not one to one",
)
"""What is hard to get right. Without it hardly anything was tested."""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_comes_of_tuples_does_not_follow_from_how_they_are_cut_into_chunks():
    cases = Counter()
    for number, seed in enumerate(seeds.several(10 * WORLDS)):
        rare = [name for name in OFTEN if cases[name] < WORLDS // 4]
        if number >= WORLDS and not rare:
            return
        with seeds.generator(seed) as rng:
            world = any_world(rng)
            one = run(world, SINGLY, seed)
            for way in other_ways(rng):
                other = run(world, way, seed)
                compare(one, other)
                cases.update(other.cases)
    pytest.fail(f"hardly anything was tested: {cases}")
