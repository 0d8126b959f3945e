"""A pipeline of ten steps whose workers die again and again gives what its rows give."""

import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta

from fulmen.testing import ABORT
from support.streams.ten_steps.steps import shop

START = datetime(2024, 5, 1, 12, tzinfo=UTC)


def drawn(rng, n):
    """Rows of an hour, in the order of their times."""
    times = sorted(rng.randrange(3600) for _ in range(n))
    return [
        {
            "user": rng.choice(["Ann", "bob", "Eve"]),
            "item": rng.choice(["tea", "salt"]),
            "price": rng.randrange(100),
            "at": (START + timedelta(seconds=second)).isoformat(),
        }
        for second in times
    ]


def expected(rows):
    """The same in plain Python."""
    windows, sums = defaultdict(list), defaultdict(int)
    for row in rows:
        if row["price"] % 7 == 0 or row["price"] * 100 >= 9500:
            continue
        at = datetime.fromisoformat(row["at"])
        start = at.replace(minute=at.minute // 10 * 10, second=0)
        for item in (row["item"], "all"):
            windows[item, start].append(row["price"] * 100)
        sums[row["user"].lower()] += row["price"] * 100
    return {
        (item, start): (len(cents), sum(cents), sum(cents) / len(cents))
        for (item, start), cents in windows.items()
    }, dict(sums)


def test_what_comes_out_is_that_of_the_rows_whatever_is_killed():
    rng = random.Random(7)
    rows = drawn(rng, 150)
    items = list(rows)
    for _ in range(3):
        items.insert(rng.randrange(len(items)), ABORT)
    outcome = shop.test(rows=items)
    windows, sums = expected(rows)
    found = {
        (row["item"], datetime.fromisoformat(row["start"])): (row["n"], row["cents"], row["mean"])
        for row in outcome["windows-table"]
    }
    assert found == windows
    assert len(outcome["windows-table"]) == len(windows)
    assert {row["user"]: row["cents"] for row in outcome["sums-table"]} == sums
