import numpy as np
import pytest

from fulmen.engine.emitting.combined_tuples import gathered
from fulmen.engine.tuples.chunk import Lineage


def ids(*some):
    return np.array(some, np.uint64)


def numbers(*some):
    return np.array(some, np.int64)


@pytest.mark.parametrize(
    ("lineage", "rows", "found"),
    [
        (
            Lineage(ids(7, 8, 9), ids(1, 2, 4)),
            [1, 0, 1],
            [((8,), (2,)), ((7, 9), (1, 4))],
        ),
        (  # two tuples of a tree: it has one edge to the row, as if both had been acked
            Lineage(ids(7, 7, 9), ids(1, 2, 4)),
            [0, 0, 0],
            [((7, 9), (3, 4))],
        ),
        (  # a tuple of several trees, and one of none
            Lineage(ids(7, 8, 8), ids(1, 2, 4), numbers(0, 2, 2, 3)),
            [0, 1, 0],
            [((7, 8), (1, 6)), ((), ())],
        ),
        (Lineage(ids(), ids(), numbers(0, 0)), [0], [((), ())]),
    ],
)
def test_a_row_has_the_edges_of_all_that_it_stands_for(lineage, rows, found):
    lineage = gathered(lineage, numbers(*rows), len(found))
    assert [lineage.of(i) for i in range(len(found))] == found
