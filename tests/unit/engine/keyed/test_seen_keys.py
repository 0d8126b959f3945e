"""Keys that were seen: none is forgotten, and few are taken for one that was not."""

import numpy as np

from fulmen.engine.keyed.stores.seen_keys import SeenKeys


def test_every_key_that_was_seen_is_known_and_hardly_any_other():
    seen, sizes = SeenKeys(), (0, 1, 60_000, 0, 40_000, 3, 100_000)
    ends, wrong = np.cumsum(sizes), 0
    for start, end in zip(ends - sizes, ends, strict=True):
        new = [b"%d" % n for n in range(start, end)]
        wrong += seen.add(new).sum()
    assert wrong <= 0.01 * ends[-1]  # of all: of three keys one may be such
    assert len(seen._filters) > 1
    assert seen.add([b"%d" % n for n in range(0, ends[-1], 7)]).all()
