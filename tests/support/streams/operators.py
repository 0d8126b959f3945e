"""Operators of streams, each with what it gives of all rows in plain Python.

Rows have a user, a number and a time in milliseconds. An operator is what it makes of one stream or
of two, its model of the rows of both, and what is compared of a row that comes out.
"""

from collections import Counter, defaultdict

from fulmen import BasicBolt
from fulmen.streams import agg, tumbling

START = 1_700_000_000_000


def row(n, user="a", second=0):
    return {"user": user, "n": n, "at": START + second * 1000}


class Since(BasicBolt):
    """Emits how many rows of the user came since the last one with this number."""

    outputs = ("user", "n", "since")

    def execute(self, tup, collector):
        seen = self.state.get(tup["user"], ())
        since = seen[::-1].index(tup["n"]) if tup["n"] in seen else None
        self.state[tup["user"]] = (*seen, tup["n"])
        collector.emit([tup["user"], tup["n"], since])


def by_user(rows):
    """The numbers of each user, as they come."""
    found = defaultdict(list)
    for one in rows:
        found[one["user"]].append(one["n"])
    return found


def once(rows):
    """Rows that have none before them that was taken, has their number and is close."""
    taken = []
    for one in rows:
        alike = [t for t in taken if (t["user"], t["n"]) == (one["user"], one["n"])]
        if all(abs(t["at"] - one["at"]) >= 5000 for t in alike):
            taken.append(one)
    return Counter((t["user"], t["n"], t["at"]) for t in taken)


def since(rows):
    found = Counter()
    for user, ns in by_user(rows).items():
        for place, n in enumerate(ns):
            before = ns[:place][::-1]
            found[user, n, before.index(n) if n in before else None] += 1
    return found


def last_two(rows):
    return Counter(
        (user, *ns[max(0, end - 2) : end])
        for user, ns in by_user(rows).items()
        for end in range(1, len(ns) + 1)
    )


def kept_last(seen, one):
    return [*seen, one.n][-2:]


KEEPING = {
    "deduplicate": (
        lambda s: s.deduplicate("user", "n", within="5s", name="once", parallelism=2),
        once,
        lambda r: (r["user"], r["n"], r["at"]),
    ),
    "process": (
        lambda s: s.key_by("user").process(Since, name="since", parallelism=2),
        since,
        lambda r: (r["user"], r["n"], r["since"]),
    ),
    "update_state": (
        lambda s: s.key_by("user").update_state(
            kept_last, [], fields="last", name="last", parallelism=2
        ),
        last_two,
        lambda r: (r["user"], *r["last"]),
    ),
}
"""Operators that keep something by key."""


def close(one, other):
    return -5000 <= other["at"] - one["at"] <= 5000


def in_one_window(one, other):
    return one["at"] // 10_000 == other["at"] // 10_000


def joined(how, are_together, left, right):
    """The pairs of rows of a user that are together, and rows without a match."""
    others = defaultdict(list)
    for j, other in enumerate(right):
        others[other["user"]].append((j, other))
    pairs = [
        (i, j)
        for i, one in enumerate(left)
        for j, other in others[one["user"]]
        if are_together(one, other)
    ]
    expected = Counter((left[i]["n"], right[j]["n"]) for i, j in pairs)
    with_other = {i for i, _ in pairs}
    if how in ("semi", "anti"):
        expected = Counter((left[i]["n"], None) for i in with_other if how == "semi")
    if how in ("left", "full", "anti"):
        expected += Counter((r["n"], None) for i, r in enumerate(left) if i not in with_other)
    if how in ("right", "full"):
        with_other = {j for _, j in pairs}
        expected += Counter((None, r["n"]) for j, r in enumerate(right) if j not in with_other)
    return expected


def as_of(left, right):
    """Each row with the newest of its user that is not later; of one moment there is one row."""
    expected = Counter()
    for one in left:
        of_user = [r for r in right if r["user"] == one["user"] and r["at"] <= one["at"]]
        newest = max(of_user, key=lambda r: r["at"], default={"n": None})
        expected[one["n"], newest["n"]] += 1
    return expected


def grouped(left, right):
    """The numbers of both sides, by user and window of 10 s."""
    expected = defaultdict(lambda: ([], []))
    for side, rows in enumerate((left, right)):
        for one in rows:
            expected[one["user"], one["at"] // 10_000][side].append(one["n"])
    return Counter(
        (user, *(tuple(sorted(ns)) for ns in sides)) for (user, _), sides in expected.items()
    )


def of_group(one):
    ns = (tuple(sorted(r[field] for r in one[side])) for side, field in _SIDES)
    return (one["user"], *ns)


def of_pair(one):
    return one["n"], one.get("m")


_SIDES = (("left", "n"), ("right", "m"))
WITHIN = {
    "interval": ({"within": ("-5s", "5s")}, close),
    "window": ({"window": tumbling("10s")}, in_one_window),
}


def join(kind, how):
    options, are_together = WITHIN[kind]
    return (
        lambda left, right: left.join(
            right, "user", how=how, name=f"{kind}-{how}", parallelism=2, **options
        ),
        lambda left, right: joined(how, are_together, left, right),
        of_pair,
    )


TOGETHER = {
    **{f"{k}-{how}": join(k, how) for k, how in (
        ("interval", "left"), ("interval", "full"), ("interval", "anti"), ("window", "full"),
        ("window", "semi"),
    )},
    "as-of": (
        lambda left, right: left.join_as_of(
            right, "user", how="left", name="as-of", parallelism=2
        ),
        as_of,
        of_pair,
    ),
    "co-groups": (
        lambda left, right: left.co_group(
            right, "user", window=tumbling("10s"), name="co-groups", parallelism=2
        ),
        grouped,
        of_group,
    ),
    "changes": (
        lambda left, right: left.key_by("user").aggregate(
            name="left-n", parallelism=2, n=agg.sum("n"), retract=True
        ).join(
            right.key_by("user").aggregate(
                name="right-m", parallelism=2, m=agg.max("m"), retract=True
            ), "user", how="full", retract=True, name="changes", parallelism=2,
        ),
        lambda left, right: Counter(
            (sum(ours[user]) if ours[user] else None, max(theirs[user], default=None))
            for ours, theirs in [(by_user(left), by_user(right))]
            for user in {*ours, *theirs}
        ),
        of_pair,
    ),
}  # fmt: skip
"""Operators over two streams, of which the second has its number as `m`."""


def net(rows, values):
    """What is there of rows, some of which take back others."""
    found = Counter()
    for one in rows:
        found[values(one)] += -1 if one.get("is_retraction") else 1
    return Counter({of: n for of, n in found.items() if n})
