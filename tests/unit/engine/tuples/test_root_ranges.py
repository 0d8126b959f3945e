"""Tuples whose trees are not told apart, against the same tuples told apart."""

from collections import Counter
from itertools import count

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fulmen.engine.emitting.anchoring import RangeAnchors
from fulmen.engine.tuples.chunk import Chunk, JoinedRanges, Lineage, RootRange, ended, merge
from fulmen.engine.tuples.tuple_rows import TupleRows

FIRST = 1 << 48


class World:
    """Lineages by their numbers; of each also the roots that its tuples have by a plain list."""

    def __init__(self, sizes):
        self.ranges, self.known, first = [], [], FIRST
        for n in sizes:
            one = RootRange(first, n)
            one.born = float(first - FIRST)
            self.ranges.append(one)
            self.known.append((one, list(range(first, first + n))))
            first += n + 3
        self.waits_for = Counter()
        self.edges = count(1)

    def draw(self, n):
        return np.array([1 << next(self.edges) % 60 for _ in range(n)], np.uint64)

    def wait(self, roots, edges):
        for root, edge in zip(roots, edges.tolist(), strict=True):
            self.waits_for[root] ^= edge

    def step(self, what, number, data):
        lineage, roots = self.known[number % len(self.known)]
        at = [i % lineage.n for i in data] if lineage.n else []
        index = np.array(at, np.int64)
        some = [roots[i] for i in at]
        if what == "below":
            self.known.append((lineage.below(at), some))
        elif what == "same":
            assert lineage.below(range(lineage.n)) is lineage
        elif what == "take":
            self.known.append((lineage.take(index), some))
        elif what == "joined":
            other, others = self.known[len(data) % len(self.known)]
            self.known.append((JoinedRanges([lineage, other]), roots + others))
        elif what == "failed":
            edges = self.draw(len(at))
            lineage.add_edges(index, edges)
            self.wait(some, edges)
        elif what == "drawn":
            drawn = lineage.drawn(self.draw)
            assert drawn.roots.tolist() == roots
            assert drawn.offsets is None
            self.wait(roots, drawn.edges)
        assert lineage.roots_at(index).tolist() == some
        assert [lineage.of(i) for i in at] == [((root,), (0,)) for root in some]


STEPS = st.tuples(
    st.sampled_from(["below", "same", "take", "joined", "failed", "drawn"]),
    st.integers(0, 50),
    st.lists(st.integers(0, 20), max_size=8),
)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.lists(STEPS, max_size=20))
def test_ranges_know_of_each_tuple_what_a_plain_list_knows(sizes, steps):
    world = World(sizes)
    for step in steps:
        world.step(*step)
    for lineage, roots in world.known:
        assert lineage.roots_at(None).tolist() == roots
        assert lineage.n == len(roots)
        anchors = RangeAnchors(lineage)
        assert [anchors.of(i) for i in range(lineage.n)] == [(root,) for root in roots]
        wanted = roots[:1]
        assert anchors.among(wanted) == [i for i, root in enumerate(roots) if root in wanted]
    roots, values, born = ended(world.ranges)
    assert roots.tolist() == [root for _, known in world.known[: len(sizes)] for root in known]
    assert values.tolist() == [world.waits_for[root] for root in roots.tolist()]
    assert born.tolist() == [one.born for one in world.ranges for _ in range(one.n)]


def test_chunks_whose_trees_are_told_apart_stay_apart_from_others():
    def chunk(lineage, n):
        return Chunk("a", "default", ("x",), 1, lineage, TupleRows([[i] for i in range(n)]))

    one, other = RootRange(FIRST, 2), RootRange(FIRST + 7, 1)
    apart = Lineage(*(np.array([5], np.uint64),) * 2)
    chunks = [chunk(one, 2), chunk(other, 1), chunk(apart, 1), chunk(None, 1), chunk(one, 2)]
    merged = merge(chunks)
    assert [[c.lineage(i)[0] for i in range(len(c))] for c in merged] == [
        [(FIRST,), (FIRST + 1,), (FIRST + 7,)],
        [(5,), ()],
        [(FIRST,), (FIRST + 1,)],
    ]
