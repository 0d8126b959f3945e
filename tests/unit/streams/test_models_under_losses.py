"""Operators that keep something against plain Python, whatever is lost, in batches of any size."""

import json
import sqlite3
import tempfile
from collections import Counter, defaultdict
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from fulmen import BasicBolt, Stream
from fulmen.streams import Streams, agg
from fulmen.testing import (
    ABORT,
    PAUSE,
    CollectBolt,
    ListSpout,
    ListTransactions,
    TransactionFault,
    run,
)

START = 1_700_000_000_000
FIELDS = Stream(("user", "n", "at"), types={"user": "string", "n": "int64"})
CHANGES = Stream(("user", "n", "is_retraction"), types={"user": "string", "n": "int64"})
SOME = settings(max_examples=3, phases=(Phase.explicit, Phase.generate))
USERS = st.sampled_from("ab")


def cut(rows):
    """Draw rows with marks between them: where a batch ends, and where a worker dies."""
    return st.lists(
        st.one_of(rows, rows, rows, st.just(PAUSE), st.just(ABORT)), max_size=16
    ).filter(lambda items: items.count(ABORT) < 4)


def row(n, user="a", second=0):
    return {"user": user, "n": n, "at": START + second * 1000}


ITEMS = cut(st.builds(row, st.integers(0, 3), USERS, st.integers(0, 20)))
MIXED = [row(1), row(1, second=4), ABORT, row(2, "b", 3), PAUSE, row(1, second=5), ABORT]
MIXED += [row(1, second=1), row(2, "b", 12), PAUSE, row(2, second=3), row(3)]


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


KEEPING = {
    "deduplicate": (
        lambda s: s.deduplicate("user", "n", within="5s", parallelism=2),
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
            lambda seen, r: [*seen, r.n][-2:], [], fields="last", name="last", parallelism=2
        ),
        last_two,
        lambda r: (r["user"], *r["last"]),
    ),
}


@pytest.mark.parametrize("operator", KEEPING)
@SOME
@given(items=ITEMS)
@example(items=MIXED)
def test_what_is_kept_by_key_is_that_of_the_rows_whatever_is_lost(operator, items):
    build, model, values = KEEPING[operator]
    pipeline = Streams("kept", workers=2)
    spout = ListSpout((), streams={"default": FIELDS})
    rows = pipeline.source("rows", spout, event_time={"field": "at", "unit": "ms"}, lag="1h")
    build(rows).sink("out", CollectBolt)
    outcome = pipeline.test(rows=items)
    expected = model([item for item in items if isinstance(item, dict)])
    assert Counter(map(values, outcome["out"])) == expected


def change(n, user="a", is_retraction=False):
    return {"user": user, "n": n, "is_retraction": is_retraction}


def valid(items):
    """Changes that take back what is there alone; others are new rows."""
    there, found = Counter(), []
    for item in items:
        if isinstance(item, dict):
            of = item["user"], item["n"]
            item["is_retraction"] &= there[of] > 0
            there[of] += -1 if item["is_retraction"] else 1
        found.append(item)
    return found


CHANGED = cut(st.builds(change, st.integers(0, 2), USERS, st.booleans())).map(valid)
LEFT = [change(1), change(2), ABORT, change(2, "b"), change(1, "a", True), PAUSE, change(2)]
RIGHT = [PAUSE, change(5), change(5), PAUSE, ABORT, change(5, "a", True), change(6, "c")]


def there(items):
    """The rows that are not taken back."""
    found = Counter()
    for item in items:
        if isinstance(item, dict):
            found[item["user"], item["n"]] += -1 if item["is_retraction"] else 1
    return list(found.elements())


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@SOME
@given(left=CHANGED, right=CHANGED)
@example(left=LEFT, right=RIGHT)
def test_a_regular_join_adds_up_to_the_join_of_what_is_there(how, left, right):
    pipeline = Streams("joined", workers=2)
    rows, others = (
        pipeline.source(name, ListSpout((), streams={"default": CHANGES}))
        for name in ("rows", "others")
    )
    others = others.select("user", "is_retraction", m="n")
    rows.join(others, "user", how=how, retract=True, parallelism=2).sink("out", CollectBolt)
    outcome = pipeline.test(rows=left, others=right)
    ours, theirs = there(left), there(right)
    pairs = Counter((n, m) for user, n in ours for other, m in theirs if user == other)
    with_match = {user for user, _ in ours} & {user for user, _ in theirs}
    alone = Counter((n, None) for user, n in ours if user not in with_match)
    expected = {
        "semi": Counter((n, None) for user, n in ours if user in with_match),
        "anti": alone,
    }.get(how, pairs)
    if how in ("left", "full"):
        expected += alone
    if how in ("right", "full"):
        expected += Counter((None, m) for user, m in theirs if user not in with_match)
    found = Counter()
    for one in outcome["out"]:
        found[one["n"], one.get("m")] += -1 if one["is_retraction"] else 1
    assert {pair: n for pair, n in found.items() if n} == expected


FAULTS = st.lists(
    st.builds(
        TransactionFault,
        st.integers(1, 4),
        st.just("sums"),
        st.just("committing"),
        kills=st.booleans(),
    ),
    max_size=2,
    unique_by=lambda fault: fault.txid,
)


@SOME
@given(
    items=st.lists(st.one_of(st.tuples(USERS, st.integers(-9, 9)), st.just(PAUSE)), max_size=12),
    failing=FAULTS,
)
@example(
    items=[("a", 1), ("b", 2), PAUSE, ("a", -3), PAUSE, ("b", 4), ("a", 5)],
    failing=[
        TransactionFault(1, "sums", "committing", kills=True),
        TransactionFault(2, "sums", "committing"),
    ],
)
def test_a_store_has_the_aggregates_of_all_rows_whatever_transactions_fail(items, failing):
    with tempfile.TemporaryDirectory() as folder:
        at = str(Path(folder) / "sums.db")
        pipeline = Streams("sums", workers=2, max_spout_pending=2)
        rows = pipeline.source("rows", ListTransactions(items, ["user", "n"]))
        rows.key_by("user").persistent_aggregate(
            "sqlite", at, "sums", name="sums", parallelism=2, n=agg.count(), total=agg.sum("n")
        )
        run(pipeline.build(), failing=failing, checkpoint=str(Path(folder) / "state"))
        with closing(sqlite3.connect(at)) as database:
            found = dict(database.execute("SELECT key, value FROM sums"))
    ns = by_user({"user": user, "n": n} for user, n in (i for i in items if i is not PAUSE))
    assert {user: json.loads(value) for user, value in found.items()} == {
        user: {"n": len(of), "total": sum(of)} for user, of in ns.items()
    }
