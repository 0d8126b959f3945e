"""Rows for the pipeline of ten steps, and what it gives of them, in plain Python."""

from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta

START = datetime(2024, 5, 1, 12, tzinfo=UTC)


def drawn(rng, n, hour=0):
    """Rows of an hour, in the order of their times."""
    times = sorted(rng.randrange(3600) for _ in range(n))
    return [
        {
            "user": rng.choice(["Ann", "bob", "Eve"]),
            "item": rng.choice(["tea", "salt"]),
            "price": rng.randrange(100),
            "at": (START + timedelta(hours=hour, seconds=second)).isoformat(),
        }
        for second in times
    ]


def expected(rows):
    """The windows, by item and start, and the sums of users."""
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


def alike(rows):
    """How many sales of a user and a low price there were, and how many of them are as many."""
    each = Counter(
        (row["user"].lower(), row["price"] * 100)
        for row in rows
        if row["price"] % 7 and row["price"] < 10
    )
    numbers = Counter(each.values())
    return {(*of, n, numbers[n]) for of, n in each.items()}


def windows_of(rows):
    """The rows of windows as `expected` has them."""
    return {
        (row["item"], datetime.fromisoformat(row["start"])): (row["n"], row["cents"], row["mean"])
        for row in rows
    }
