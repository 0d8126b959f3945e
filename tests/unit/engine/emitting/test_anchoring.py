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
