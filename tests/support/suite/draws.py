"""Which cells of a matrix of tests run this time. All of them: `make test-all`."""

import math
import random


def drawn(cells, share, seed):
    """A share of the cells, at least one, each as likely as the others.

    Args:
        cells: Their names, in any order.
        share: Above 0, at most 1. With a half, a cell is left out of ten runs in a row once in a
            thousand times.
        seed: Another one draws others.
    """
    count = max(1, math.ceil(share * len(cells)))
    return set(random.Random(str(seed)).sample(sorted(cells), count))
