import numpy as np
import pytest

from fulmen.api.tuples import Tuple
from fulmen.engine.acking.root_ids import traced_root, without_traced
from fulmen.engine.emitting.anchoring import ManyAnchors, OneAnchor
from fulmen.engine.tuples.chunk import Chunk, Lineage
from fulmen.engine.tuples.tuple_rows import TupleRows

ROOTS = np.array([traced_root(1, 2), without_traced(traced_root(1, 3))], np.uint64)
LINEAGE = Lineage(ROOTS, ROOTS)
CHUNK = Chunk("a", "default", ("x",), 1, LINEAGE, TupleRows([[1], [2]]))


@pytest.mark.parametrize(
    "roots",
    [OneAnchor(LINEAGE, ROOTS), ManyAnchors([(Tuple((), CHUNK, i),) for i in range(2)], print)],
)
def test_a_tap_finds_a_tree_whether_or_not_it_is_traced(roots):
    wanted = [without_traced(root) for root in ROOTS.tolist()]
    assert [list(roots.among([root])) for root in wanted] == [[0], [1]]
    assert [roots.of(i) for i in range(2)] == [(root,) for root in wanted]


def test_copies_of_one_emit_are_told_together_wherever_it_is_among_all():
    xors, edges = np.zeros(3, np.uint64), np.array([1, 2, 4], np.uint64)
    some = OneAnchor(Lineage(ROOTS[[0, 1, 0]], ROOTS[[0, 1, 0]]), xors).take(np.array([2, 0]))
    copies = some.copies(np.array([0, 0, 1]), 3, lambda n: edges[:n])
    assert xors.tolist() == [4, 0, 3]
    assert copies.edges.tolist() == [1, 2, 4]
    assert copies.roots.tolist() == [ROOTS[0]] * 3


def test_some_of_the_emits_with_many_anchors_have_their_own():
    one, other = (Tuple((), CHUNK, i) for i in range(2))
    told = []
    some = ManyAnchors([(one,), (one, other), ()], lambda *said: told.append(said)).take(
        np.array([2, 1])
    )
    copies = some.copies(None, 2, lambda n: np.full(n, 7, np.uint64))
    assert copies.offsets.tolist() == [0, 0, 2]
    assert copies.roots.tolist() == ROOTS.tolist()
    assert told == [(one, 7), (other, 7)]
