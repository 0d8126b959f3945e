"""A pipeline of ten steps whose workers die again and again gives what its rows give."""

import random
from collections import Counter
from operator import itemgetter

from fulmen.testing import ABORT
from support.streams.ten_steps.model import alike, drawn, expected, windows_of
from support.streams.ten_steps.steps import shop


def test_what_comes_out_is_that_of_the_rows_whatever_is_killed():
    rng = random.Random(7)
    rows = drawn(rng, 150)
    items = list(rows)
    for _ in range(3):
        items.insert(rng.randrange(len(items)), ABORT)
    outcome = shop.test(rows=items)
    windows, sums = expected(rows)
    assert windows_of(outcome["windows-table"]) == windows
    assert len(outcome["windows-table"]) == len(windows)
    assert {row["user"]: row["cents"] for row in outcome["sums-table"]} == sums
    left = Counter()
    for row in outcome["alike-table"]:
        left[itemgetter("user", "cents", "n", "alike")(row)] += -1 if row["is_retraction"] else 1
    assert Counter({row: n for row, n in left.items() if n}) == Counter(alike(rows))
