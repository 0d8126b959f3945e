"""Operators that keep something against plain Python, whatever is lost, in batches of any size."""

import json
import os
import sqlite3
import tempfile
from collections import Counter
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from fulmen import BasicBolt, Stream
from fulmen.connectors.files import FileLookup
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
from support.streams.operators import KEEPING, TOGETHER, by_user, net, row

FIELDS = Stream(("user", "n", "at"), types={"user": "string", "n": "int64"})
CHANGES = Stream(("user", "n", "is_retraction"), types={"user": "string", "n": "int64"})
SOME = settings(max_examples=3, phases=(Phase.explicit, Phase.generate))
USERS = st.sampled_from("ab")


def cut(rows):
    """Draw rows with marks between them: where a batch ends, and where a worker dies."""
    return st.lists(
        st.one_of(rows, rows, rows, st.just(PAUSE), st.just(ABORT)), max_size=16
    ).filter(lambda items: items.count(ABORT) < 4)


ITEMS = cut(st.builds(row, st.integers(0, 3), USERS, st.integers(0, 20)))
MIXED = [row(1), row(1, second=4), ABORT, row(2, "b", 3), PAUSE, row(1, second=5), ABORT]
MIXED += [row(1, second=1), row(2, "b", 12), PAUSE, row(2, second=3), row(3)]


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


def timed(pipeline, name, **select):
    spout = ListSpout((), streams={"default": FIELDS})
    rows = pipeline.source(name, spout, event_time={"field": "at", "unit": "ms"}, lag="1h")
    return rows.select("user", "at", **select) if select else rows


def of_different_moments(items):
    """Without the rows of a user that have the time of one before: none of them is newer."""
    seen = set()
    return [
        item
        for item in items
        if not isinstance(item, dict)
        or not ((of := (item["user"], item["at"])) in seen or seen.add(of))
    ]


@pytest.mark.parametrize("operator", TOGETHER)
@SOME
@given(left=ITEMS, right=ITEMS.map(of_different_moments))
@example(left=MIXED, right=of_different_moments([PAUSE, row(7, "c"), *MIXED[::-1], row(9, "b", 3)]))
def test_what_is_made_of_two_streams_is_that_of_all_their_rows(operator, left, right):
    build, model, values = TOGETHER[operator]
    pipeline = Streams("together", workers=2)
    build(timed(pipeline, "rows"), timed(pipeline, "others", m="n")).sink("out", CollectBolt)
    outcome = pipeline.test(rows=left, others=right)
    expected = model(*([i for i in items if isinstance(i, dict)] for items in (left, right)))
    assert net(outcome["out"], values) == expected


class TableWriter(BasicBolt):
    """Writes the next version of the table when a row says so, and passes rows on."""

    outputs = ("n", "user")
    path, versions = "", iter(())

    def execute(self, tup, collector):
        if tup["n"] == 0:
            write(self.path, next(self.versions))
        collector.emit([tup["n"], tup["user"]])


class AlwaysLooked(FileLookup):
    """Looks at the table in each batch."""

    clock = staticmethod(count(0, 100).__next__)


def write(path, version):
    """Each user has two rows, both of one version."""
    new = f"{path}.new"
    Path(new).write_text("".join(f"{user},{version}\n" for user in "abab"))
    os.replace(new, path)


@pytest.mark.parametrize("memory", [0, 10**9], ids=["on disk", "in memory"])
@SOME
@given(items=ITEMS)
@example(items=[row(1), row(0), ABORT, row(2, "b"), PAUSE, row(0, "b"), row(3), PAUSE, row(4)])
def test_a_table_that_changes_is_seen_as_a_whole_whatever_is_lost(memory, items):
    with tempfile.TemporaryDirectory() as folder:
        path, versions = f"{folder}/table", count(1)
        write(path, 0)
        TableWriter.path, TableWriter.versions = path, versions
        pipeline = Streams("looked-up", workers=2)
        rows = timed(pipeline, "rows").process(TableWriter, name="writer")
        form = {"type": "csv", "fields": {"user": "string", "version": "int64"}}
        rows.lookup_in(
            AlwaysLooked, "user", path=path, format=form, add=["version"], memory_bytes=memory,
            parallelism=2,
        ).sink("out", CollectBolt)  # fmt: skip
        outcome = pipeline.test(rows=items)
    found = [(r["user"], r["n"], r["version"]) for r in outcome["out"]]
    assert all(n % 2 == 0 for n in Counter(found).values()), (
        "both rows of a user are of one version"
    )
    given_rows = Counter((i["user"], i["n"]) for i in items if isinstance(i, dict))
    assert Counter({of: n // 2 for of, n in Counter(f[:2] for f in found).items()}) == given_rows
    assert {version for *_, version in found} <= {*range(next(versions))}


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
