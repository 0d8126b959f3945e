"""Operators over two streams, sessions, branches and async functions against plain Python."""

from collections import Counter, defaultdict

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from fulmen import Stream
from fulmen.streams import Streams, agg, session, sliding
from fulmen.testing import CollectBolt, ListSpout
from support.streams.operators import WITHIN, as_of, joined, row

FIELDS = Stream(("user", "n", "at"), types={"user": "string", "n": "int64"})
SOME = settings(max_examples=5, phases=(Phase.explicit, Phase.generate))


ROWS = st.lists(
    st.builds(row, st.integers(0, 20), st.sampled_from(["a", "b"]), st.integers(0, 50)), max_size=10
)
LEFT = [row(1, "a", 10), row(2, "b", 12), row(3, "a", 40)]
RIGHT = [row(4, "a", 12), row(5, "a", 5), row(6, "b", 50), row(7, "c", 10)]


def source(pipeline, name="rows"):
    spout = ListSpout((), streams={"default": FIELDS})
    return pipeline.source(name, spout, event_time={"field": "at", "unit": "ms"}, lag="1h")


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize("kind", WITHIN)
@SOME
@given(left=ROWS, right=ROWS)
@example(left=LEFT, right=RIGHT)
def test_joins_have_each_pair_once_and_what_has_no_other(kind, how, left, right):
    more, are_together = WITHIN[kind]
    pipeline = Streams("joined", workers=2)
    others = source(pipeline, "others").select("user", "at", m="n")
    rows = source(pipeline).join(others, "user", how=how, parallelism=2, **more)
    rows.sink("out", CollectBolt)
    outcome = pipeline.test(rows=left, others=right)
    expected = joined(how, are_together, left, right)
    assert Counter((r["n"], r.get("m")) for r in outcome["out"]) == expected


@SOME
@given(rows=ROWS, others=ROWS)
@example(rows=LEFT, others=RIGHT)
def test_each_row_is_in_one_branch_and_merged_branches_are_all_rows(rows, others):
    pipeline = Streams("branches")
    first, second = source(pipeline), source(pipeline, "others")
    parts = first.branch(odd=lambda r: r.n % 2, big=lambda r: r.n > 4)
    texts = second.branch(odd="n % 2 = 1", big="n > 4")
    for name in ("odd", "big", "rest"):
        parts[name].merge(texts[name]).sink(name, CollectBolt)
    outcome = pipeline.test(rows=rows, others=others)
    expected = defaultdict(list)
    for one in [*rows, *others]:
        expected["odd" if one["n"] % 2 else "big" if one["n"] > 4 else "rest"].append(one)
    for name in ("odd", "big", "rest"):
        assert sorted(outcome[name], key=repr) == sorted(expected[name], key=repr)


@SOME
@given(rows=ROWS)
@example(rows=[row(1), row(2, second=4), row(3, second=9), row(4, "b", 30), row(5, second=40)])
def test_sessions_end_where_a_gap_is_longer(rows):
    pipeline = Streams("sessions", workers=2)
    keyed = source(pipeline).key_by("user").window(session("5s"))
    keyed.aggregate(n=agg.count(), total=agg.sum("n"), parallelism=2).sink("out", CollectBolt)
    outcome = pipeline.test(rows=rows)
    sessions = []
    for user in ("a", "b"):
        before = None
        for one in sorted((r for r in rows if r["user"] == user), key=lambda r: r["at"]):
            if before is None or one["at"] - before > 5000:
                sessions.append((user, []))
            sessions[-1][1].append(one["n"])
            before = one["at"]
    expected = Counter((user, len(ns), sum(ns)) for user, ns in sessions)
    assert Counter((r["user"], r["n"], r["total"]) for r in outcome["out"]) == expected


@SOME
@given(rows=ROWS)
@example(rows=LEFT)
def test_a_row_is_in_each_sliding_window_of_its_time(rows):
    pipeline = Streams("sliding", workers=2)
    keyed = source(pipeline).key_by("user").window(sliding("20s", "5s"))
    keyed.aggregate(ns=agg.list("n"), parallelism=2).sink("out", CollectBolt)
    outcome = pipeline.test(rows=rows)
    expected = defaultdict(list)
    for one in rows:
        last = one["at"] // 5000 * 5000
        for start in range(last - 15_000, last + 1, 5000):
            expected[one["user"], start].append(one["n"])
    found = {
        (r["user"], round(r["window_start"].timestamp() * 1000)): sorted(r["ns"])
        for r in outcome["out"]
    }
    assert found == {key: sorted(ns) for key, ns in expected.items()}
    assert len(outcome["out"]) == len(expected)


async def twice(one):
    return [one.user, one.n * 2]


async def several(one):
    return [[one.user, one.n]] * (one.n % 3)


@SOME
@given(rows=ROWS)
@example(rows=LEFT)
def test_async_functions_give_what_others_give_in_their_order(rows):
    pipeline = Streams("waiting")
    kept = source(pipeline).filter(lambda one: one.n != 2)
    kept.map(twice, fields=["user", "n"]).sink("twice", CollectBolt)
    kept.flat_map(several, fields=["user", "n"]).sink("several", CollectBolt)
    outcome = pipeline.test(rows=rows)
    of_use = [one for one in rows if one["n"] != 2]
    assert [(r["user"], r["n"]) for r in outcome["twice"]] == [
        (one["user"], one["n"] * 2) for one in of_use
    ]
    assert [(r["user"], r["n"]) for r in outcome["several"]] == [
        (one["user"], one["n"]) for one in of_use for _ in range(one["n"] % 3)
    ]


@SOME
@given(rows=ROWS, asked=ROWS)
@example(
    rows=[row(1, second=10), row(2, second=30), row(3, "b", 5)],
    asked=[row(7, second=20), row(8, second=5), row(9, second=30), row(10, "b", 50)],
)
def test_a_table_as_it_was_has_the_newest_row_that_is_not_later(rows, asked):
    unique = {(one["user"], one["at"]): one for one in rows}  # of one moment there is one row
    pipeline = Streams("valid", workers=2)
    table = source(pipeline, "table").select("user", "at", m="n")
    joined = source(pipeline).join_as_of(table, "user", how="left", parallelism=2)
    joined.sink("out", CollectBolt)
    outcome = pipeline.test(rows=asked, table=[*unique.values()])
    assert Counter((r["n"], r["m"]) for r in outcome["out"]) == as_of(asked, unique.values())
