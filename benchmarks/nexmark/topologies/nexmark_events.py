"""The events of Nexmark: persons, who sell in auctions, for which others bid. No Fulmen here.

By the public description of Nexmark: of each 50 events one is a person, three are auctions and 46
are bids; half of the bids are for a hot auction, and three of four by a hot bidder. The same number
gives the same events in every process. Their times are out of order by less than `DISORDER_MS`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, islice

import numpy as np

PERSONS = ("id", "name", "email", "city", "state", "time", "extra")
AUCTIONS = ("id", "item", "initial", "reserve", "seller", "category", "expires", "time", "extra")
BIDS = ("auction", "bidder", "price", "channel", "url", "time", "extra")
_NUMBERS = "id time initial reserve seller category expires auction bidder price"
WHOLE_NUMBERS = frozenset(_NUMBERS.split())
"""Of their fields. All others are texts."""
STREAMS = {"persons": PERSONS, "auctions": AUCTIONS, "bids": BIDS}

CHUNK = 5_000
"""Events that are made at once. Of each 50 events, the first is a person, then come 3 auctions."""
EVENTS_PER_SECOND = 10_000
BEGIN = 1_600_000_000_000
DISORDER_MS = 100
LIST = 1_000
"""Events that a source has at once."""
AUCTION_MS = 400
"""How long an auction is open at most."""
FIRST_ID = 1_000
ACTIVE = 100
"""So many auctions, and ten times as many persons, are bid for and bid."""
CATEGORIES = 5
HOT_CHANNELS = ("Apple", "Baidu", "Facebook", "Google")
CHANNELS = 10_000
SIDE_INPUT = 10_000

_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_CITIES = ("Phoenix", "Palo Alto", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Cheyenne")
_FIRST = ("Ann", "Bea", "Cem", "Dan", "Eve", "Fay", "Gil", "Hal")
_LAST = ("Abel", "Bloch", "Curie", "Dirac", "Euler", "Fermi")
_URLS = [
    f"https://auctions.example/{n % 10}/{n // 10 % 10}/{n // 100}/item.htm?query=1"
    + (f"&channel_id={n * 7919}" if n % 10 else "")
    for n in range(1_000)
]
_EXTRA = ["x" * (30 + n % 40) for n in range(1_000)]

Row = tuple[str, list]
"""The name of a stream, and a value for each of its fields."""


def side_input():
    """The table that bids are joined with, by their auction modulo its size."""
    return {key: f"value-{key * 7919 % SIDE_INPUT}" for key in range(SIDE_INPUT)}


def chunk(number: int, rate: int = EVENTS_PER_SECOND) -> list[Row]:
    """So many events as a chunk has, in the order in which they come.

    Args:
        number: From 0.
        rate: How many there are in a second of event time.
    """
    random = np.random.default_rng([7, number])
    k = number * CHUNK + np.arange(CHUNK)
    time = BEGIN + k * 1_000 // rate - random.integers(0, DISORDER_MS, CHUNK)
    group, place = k // 50, k % 50
    rows: list = [None] * CHUNK
    for kind, mine in (
        ("persons", place == 0),
        ("auctions", (place > 0) & (place < 4)),
        ("bids", place > 3),
    ):
        columns = _COLUMNS[kind](random, group[mine], place[mine], time[mine])
        for i, row in zip(np.flatnonzero(mine).tolist(), zip(*columns, strict=True), strict=True):
            rows[i] = kind, list(row)
    return rows


def lists(
    count: int,
    rate: int = EVENTS_PER_SECOND,
    size: int = LIST,
    made: Callable[[int, int], list[Row]] = chunk,
) -> list[list[Row]]:
    """The first events, in lists of `size`. `made` is `chunk` or `ad_chunk`."""
    chunks = (made(number, rate) for number in range(-(-count // CHUNK)))
    events = islice(chain.from_iterable(chunks), count)
    return list(iter(lambda: list(islice(events, size)), []))


def _persons(random, group, place, time):
    del place
    n = len(group)
    names = [f"{_FIRST[a]} {_LAST[b]}" for a, b in random.integers(0, (8, 6), (n, 2)).tolist()]
    ids = (FIRST_ID + group).tolist()
    return (
        ids,
        names,
        [f"person{one}@example.com" for one in ids],
        _drawn(random, _CITIES, n),
        _drawn(random, _STATES, n),
        time.tolist(),
        _drawn(random, _EXTRA, n),
    )


def _auctions(random, group, place, time):
    n = len(group)
    ids = FIRST_ID + 3 * group + place - 1
    initial = _prices(random, n)
    hot = group // 100 * 100
    seller = _hot_or(random, 0.75, hot, group, 10 * ACTIVE)
    return (
        ids.tolist(),
        [f"item {one}" for one in ids.tolist()],
        initial.tolist(),
        (initial + _prices(random, n)).tolist(),
        seller.tolist(),
        (10 + random.integers(0, CATEGORIES, n)).tolist(),
        (time + 1 + random.integers(0, AUCTION_MS, n)).tolist(),
        time.tolist(),
        _drawn(random, _EXTRA, n),
    )


def _bids(random, group, place, time):
    del place
    n = len(group)
    newest = 3 * group + 2
    auction = _hot_or(random, 0.5, newest // 100 * 100, newest, ACTIVE)
    hot = np.minimum(group, group // 100 * 100 + 1)
    bidder = _hot_or(random, 0.75, hot, group, 10 * ACTIVE)
    named = np.where(random.random(n) < 0.5, random.integers(0, 4, n), -1).tolist()
    numbers = random.integers(0, CHANNELS, n).tolist()
    channels = [
        HOT_CHANNELS[one] if one >= 0 else f"channel-{number}"
        for one, number in zip(named, numbers, strict=True)
    ]
    return (
        auction.tolist(),
        bidder.tolist(),
        _prices(random, n).tolist(),
        channels,
        _drawn(random, _URLS, n),
        time.tolist(),
        _drawn(random, _EXTRA, n),
    )


_COLUMNS = {"persons": _persons, "auctions": _auctions, "bids": _bids}


def _prices(random, n):
    return np.rint(10 ** (random.random(n) * 6) * 100).astype(np.int64)


def _hot_or(random, share, hot, newest, active):
    """Ids of which a share is a hot one, and the others are among the newest ones."""
    n = len(newest)
    cold = newest - (random.random(n) * np.minimum(active, newest + 1)).astype(np.int64)
    return FIRST_ID + np.where(random.random(n) < share, hot, cold)


def _drawn(random, texts, n):
    return [texts[i] for i in random.integers(0, len(texts), n).tolist()]


# The Yahoo streaming benchmark

ADS = ("ad", "campaign")
AD_EVENTS = ("user", "page", "ad", "ad_type", "event", "time", "ip")
CAMPAIGNS = 100
ADS_OF_CAMPAIGN = 10
_EVENT_TYPES = ("view", "click", "purchase")
_AD_TYPES = ("banner", "modal", "sponsored-search", "mail", "mobile")


def ads() -> list[Row]:
    """The ads, and the campaigns that they are of."""
    every = range(CAMPAIGNS * ADS_OF_CAMPAIGN)
    return [("ads", [f"ad-{n}", f"campaign-{n // ADS_OF_CAMPAIGN}"]) for n in every]


def ad_chunk(number: int, rate: int = EVENTS_PER_SECOND) -> list[Row]:
    """So many events of ads as a chunk has, in the order in which they come. See `chunk`."""
    random = np.random.default_rng([8, number])
    k = number * CHUNK + np.arange(CHUNK)
    time = BEGIN + k * 1_000 // rate - random.integers(0, DISORDER_MS, CHUNK)
    drawn = random.integers(0, (100, 100, CAMPAIGNS * ADS_OF_CAMPAIGN, 5, 3, 256), (CHUNK, 6))
    return [
        (
            "events",
            [
                f"user-{user}",
                f"page-{page}",
                f"ad-{ad}",
                _AD_TYPES[ad_type],
                _EVENT_TYPES[event],
                when,
                f"10.0.0.{ip}",
            ],
        )
        for (user, page, ad, ad_type, event, ip), when in zip(
            drawn.tolist(), time.tolist(), strict=True
        )
    ]
