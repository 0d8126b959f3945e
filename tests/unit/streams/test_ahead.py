"""Steps in the task that emits: what is left out, what fails, and which steps get a bolt."""

import re
from collections import Counter
from typing import NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from fulmen import FailedException, Stream
from fulmen.errors import ValidationFailed
from fulmen.streams import Streams, agg
from fulmen.testing import PAUSE, CollectBolt, ListSpout, ListTransactions, run
from fulmen.topology.resource.spec import Topology

FIELDS = Stream(("user", "n"), types={"user": "string", "n": "int64"})


def source(pipeline, name="rows", **options):
    return pipeline.source(name, ListSpout((), streams={"default": FIELDS}), **options)


@pytest.fixture
def pipeline():
    return Streams("ahead", workers=2)


def names(pipeline):
    return [bolt.name for bolt in pipeline.build().spec.bolts]


def figures(outcome, component):
    return outcome.result.report["components"][component]


def test_what_a_step_leaves_out_is_acked_and_not_sent(pipeline):
    kept = source(pipeline).filter(lambda row: row.n > 7)
    kept.key_by("user").count(name="counts", parallelism=2).sink("out", CollectBolt)
    outcome = pipeline.test(rows=[["a", n] for n in range(10)])
    assert [row["count"] for row in outcome["out"]] == [1, 2]
    assert figures(outcome, "rows")["acked"] == figures(outcome, "rows")["emitted"] == 10
    assert figures(outcome, "rows")["transferred"] == 2
    assert figures(outcome, "counts")["executed"] == 2


def test_a_grouping_may_name_fields_that_a_function_makes(pipeline):
    named = source(pipeline).map(lambda row: [row.user[0], row.n], fields=["letter", "n"])
    named.key_by("letter").aggregate(n=agg.sum("n"), parallelism=2).sink("out", CollectBolt)
    outcome = pipeline.test(rows=[["ann", 1], ["bob", 2], ["ada", 4]])
    assert sorted((row["letter"], row["n"]) for row in outcome["out"]) == [
        ("a", 1), ("a", 5), ("b", 2)
    ]  # fmt: skip


def test_a_row_that_fails_in_a_step_fails_its_tree_alone_and_comes_again(pipeline):
    tried = Counter()

    def once(row):
        tried[row.n] += 1
        if row.n == 2 and tried[2] < 3:
            raise KeyError("amount")
        return row.n != 3

    source(pipeline).filter(lambda row: row.n).filter(once).sink("out", CollectBolt)
    outcome = pipeline.test(rows=[["a", n] for n in range(5)])
    assert sorted(row["n"] for row in outcome["out"]) == [1, 2, 4]
    assert outcome.result.trees["acked"] == 5
    assert outcome.result.trees["failed"] == 2
    assert tried == {1: 1, 2: 3, 3: 1, 4: 1}
    error = outcome.result.errors[0]
    assert error.component == "rows"
    assert re.fullmatch(
        r"bolt 'out', input from 'rows': step 2 'filter' \(test_ahead\.py:\d+\):"
        r" KeyError: 'amount'",
        error.message,
    )


def test_a_row_that_is_failed_on_purpose_is_no_error(pipeline):
    def refused(row):
        raise FailedException("not today")

    source(pipeline).peek(refused).sink("out", CollectBolt)
    outcome = pipeline.test(rows=[["a", 1]], replays=False)
    assert outcome["out"] == []
    assert outcome.result.trees["failed"] == 1
    assert outcome.result.errors == []


def test_nothing_comes_out_of_a_row_of_which_a_later_row_fails(pipeline):
    made = source(pipeline).flat_map(lambda row: range(row.n, -1, -1), fields="m")
    made.filter(lambda row: 6 // row.m).sink("out", CollectBolt)
    outcome = pipeline.test(rows=[["a", 3]], replays=False)
    assert outcome["out"] == []
    assert outcome.result.trees["failed"] == 1


def test_a_row_that_can_not_be_grouped_fails_alone_and_no_function_runs_twice(pipeline):
    tried = []

    def listed(row):
        tried.append(row.n)
        return [{row.user} if row.n % 2 else row.user, row.n]

    made = source(pipeline).where("n > 0").map(listed, fields=["user", "n"])
    made.key_by("user").count(parallelism=2).sink("out", CollectBolt)
    outcome = pipeline.test(rows=[["a", n] for n in range(5)], replays=False)
    assert [row["count"] for row in outcome["out"]] == [1, 2]
    assert outcome.result.trees["failed"] == 2
    assert tried == [1, 2, 3, 4]
    (error, _) = outcome.result.errors
    assert error.message.startswith(
        "bolt 'rows-by-user-count', input from 'rows': no task can be chosen by a value of type"
    )


def test_a_row_that_fails_in_a_step_fails_its_transaction_which_comes_again():
    tried = Counter()

    def once(row):
        tried[row.word] += 1
        return 1 // (tried["b"] > 1 or row.word != "b")

    pipeline = Streams("again", max_spout_pending=1)
    words = pipeline.source("words", ListTransactions(["a", PAUSE, "b", "c"], ["word"]))
    words.filter(once).key_by("word").count().sink("out", CollectBolt)
    outcome = pipeline.test(words=["a", PAUSE, "b", "c"])
    assert sorted(row["word"] for row in outcome["out"]) == ["a", "b", "c"]
    assert tried == {"a": 1, "b": 2, "c": 2}


BOLTS = {
    "errors": (lambda s, f: s.filter(f).errors, ["rows-filter", "out"]),
    "regrouped": (lambda s, f: s.shuffle().filter(f), ["rows-filter", "out"]),
    "shuffled behind": (lambda s, f: s.filter(f).shuffle(), ["out"]),
    "merged": (lambda s, f: s.filter(f).merge(s), ["rows-filter", "out"]),
    "merged with itself": (
        lambda s, f: s.filter(f).merge(s.filter(f)),
        ["rows-filter", "rows-filter-2", "out"],
    ),
    "joined with itself": (
        lambda s, f: s.filter(f).join(s.filter(f), "user", name="j"),
        ["rows-filter", "rows-filter-2", "j", "out"],
    ),
    "branches": (lambda s, f: s.branch(big=f).big, ["out"]),
}


@pytest.mark.parametrize(("call", "expected"), BOLTS.values(), ids=BOLTS)
def test_steps_get_a_bolt_where_that_is_asked_for_or_less_work(pipeline, call, expected):
    call(source(pipeline), lambda row: row.n).sink("out", CollectBolt)
    assert names(pipeline) == expected


def test_steps_that_several_inputs_use_run_once(pipeline):
    tried = []
    shuffled = source(pipeline).peek(lambda row: tried.append(row.n)).shuffle()
    for name in ("one", "other"):
        shuffled.sink(name, CollectBolt)
    outcome = pipeline.test(rows=[["a", 1], ["b", 2]])
    assert outcome["one"] == outcome["other"] == [{"user": "a", "n": 1}, {"user": "b", "n": 2}]
    assert tried == [1, 2]


class Counted(NamedTuple):
    user: str
    n: int

    def is_some(self):
        return self.n > 0


class Plain(NamedTuple):
    user: str
    n: int


def test_functions_behind_merged_streams_get_rows_of_the_class_of_the_first(pipeline):
    left, right = (source(pipeline, name, row=cls) for name, cls in (("l", Counted), ("r", Plain)))
    both = left.filter(lambda row: row.is_some()).merge(right.filter(lambda row: row.n < 9))
    both.filter(lambda row: row.is_some()).sink("out", CollectBolt)
    outcome = pipeline.test(l=[["a", 1], ["a", 0]], r=[["b", 2], ["b", 0], ["b", 9]], replays=False)
    rows = [{"user": "a", "n": 1}, {"user": "b", "n": 2}]
    assert sorted(outcome["out"], key=lambda row: row["n"]) == rows


def test_nothing_comes_out_of_a_row_that_an_expression_has_divided_if_a_part_fails(pipeline):
    parts = source(pipeline).select("n", part="unnest(string_split(user, ' '))")
    parts.filter(lambda row: int(row.part) < row.n).sink("out", CollectBolt)
    outcome = pipeline.test(rows=[["1 x", 5], ["1 2 7", 5]], replays=False)
    assert [row["part"] for row in outcome["out"]] == ["1", "2"]
    assert outcome.result.trees["failed"] == 1


def test_what_is_wrong_with_a_class_behind_through_is_said(pipeline):
    source(pipeline).filter(lambda row: row.n).sink("out", CollectBolt)
    document = pipeline.build().model_dump(by_alias=True, mode="json", exclude_none=True)
    (item,) = document["spec"]["bolts"][0]["inputs"]
    item["through"]["config"]["digest"] = "0" * 16
    with pytest.raises(ValidationFailed, match=r"input from 'rows': .*'rows.filter'\] are others"):
        run(Topology.model_validate(document))
    item["through"]["class"] = "fulmen.testing.CollectBolt"
    with pytest.raises(ValidationFailed, match="is not derived from InputFunction"):
        run(Topology.model_validate(document))


CALLS = {
    "filter": (lambda s: s.filter(lambda r: r.n % 3), lambda rs: [r for r in rs if r[1] % 3]),
    "map": (
        lambda s: s.map(lambda r: [r.user * 2, r.n - 1], fields=["user", "n"]),
        lambda rs: [(user * 2, n - 1) for user, n in rs],
    ),
    "flat_map": (
        lambda s: s.flat_map(lambda r: [r, [r.user, 7]][: r.n % 4], fields=["user", "n"]),
        lambda rs: [one for r in rs for one in [r, (r[0], 7)][: r[1] % 4]],
    ),
    "where": (lambda s: s.where("n <> 5"), lambda rs: [r for r in rs if r[1] != 5]),
    "with": (
        lambda s: s.with_fields(n="n + length(user)"),
        lambda rs: [(user, n + len(user)) for user, n in rs],
    ),
}
ROWS = st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 9)), max_size=30)


@settings(max_examples=6, phases=(Phase.explicit, Phase.generate))
@given(steps=st.lists(st.sampled_from([*CALLS]), min_size=1, max_size=5), rows=ROWS)
def test_rows_ahead_of_a_grouping_are_those_behind_a_bolt_in_the_order_of_their_keys(steps, rows):
    pipeline = Streams("drawn", workers=2)
    stream = source(pipeline)
    expected = [(user, n) for user, n in rows]
    for name in steps:
        call, model = CALLS[name]
        stream, expected = call(stream), model(expected)
    apart = stream.peek(len)
    apart.errors.sink("errors", CollectBolt)
    stream = stream.peek(len)
    for name, one in (("ahead", stream), ("apart", apart)):
        keyed = one.key_by("user")
        kept = keyed.update_state(
            lambda seen, r: [*seen, r.n], [], name=f"by-{name}", parallelism=2
        )
        kept.sink(name, CollectBolt)
    outcome = pipeline.test(rows=[list(row) for row in rows])
    last = {user: [n for of, n in expected if of == user] for user, _ in expected}
    for name in ("ahead", "apart"):
        assert {row["user"]: row["value"] for row in outcome[name]} == last
    assert outcome["errors"] == []
