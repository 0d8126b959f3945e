"""Windows that are aggregated before tuples leave their worker: the same results, in fewer rows."""

import math
from decimal import Decimal

import pytest

from fulmen import Stream
from fulmen.errors import ValidationFailed
from fulmen.testing import PAUSE, run
from fulmen.windows import Aggregate, Aggregation
from fulmen.windows.aggregate.partial import partial_windows
from fulmen.windows.options import AggregateOptions
from support.windows.aggregates import (
    SESSION,
    TUMBLING,
    results,
    topology,
)


class Merges(Aggregation):
    """How many values there were, and how often such numbers were merged."""

    def init(self):
        return (0, 0)

    def add(self, kept, value, time):
        return kept[0] + 1, kept[1]

    def merge(self, kept, other):
        return kept[0] + other[0], kept[1] + other[1] + 1


class ExactMerges(Merges):
    splits = True


class Counting(Aggregate):
    own = {"merges": Merges, "exact": ExactMerges}  # noqa: RUF012 (as authors write it)


class LooksAtEach(Counting):
    def execute(self, tup, collector):
        super().execute(tup, collector)


FEW = [("a", 1, n % 10) for n in range(50)] + [PAUSE] + [("a", 1, n % 10) for n in range(30)]
MANY = [(f"user-{n}", 1, 0) for n in range(50)]


@pytest.mark.parametrize(
    ("items", "aggregate", "options", "merged"),
    [
        (FEW, "merges(amount)", {"partial": True}, (80, 2)),
        (FEW, "merges(amount)", {"partial": False}, (80, 0)),
        (FEW, "merges(amount)", {}, (80, 0)),
        (FEW, "exact(amount)", {}, (80, 2)),
        (FEW, "exact(amount)", {"cls": LooksAtEach}, (80, 0)),
        (FEW, "exact(amount)", {"key": []}, (80, 2)),
        (FEW, "exact(amount)", {"window": SESSION}, (80, 0)),
        (MANY, "exact(amount)", {}, (1, 0)),
        (MANY, "exact(amount)", {"partial": True}, (1, 1)),
    ],
)
def test_a_key_is_one_row_a_batch_where_that_is_wanted(items, aggregate, options, merged):
    options = {"cls": Counting, "window": TUMBLING, **options}
    found, _ = results(items, aggregates={"m": aggregate}, lag="10ms", workers=2, **options)
    assert found[0][-1] == merged


@pytest.mark.parametrize("partial", [True, False])
def test_what_is_late_updates_its_window_each_time(partial):
    items = [("a", 1, 0), ("a", 1, 15), PAUSE, ("n", 1, 15), PAUSE, ("a", 1, 5), ("a", 1, 6)]
    items += [PAUSE, ("a", 1, 40), PAUSE, ("n", 1, 40), PAUSE, ("a", 1, 7)]
    found, late = results(items, TUMBLING, allowedLateness="20ms", partial=partial, workers=2)
    assert [row for row in found if row[1] == 0] == [
        ("a", 0, 10, 1, 1, "on_time", 0),
        ("a", 0, 10, 2, 2, "late", 1),
        ("a", 0, 10, 3, 3, "late", 2),
    ]
    assert late == [(7, 7, 0, 10)]


@pytest.mark.parametrize("wrong", ["x", 10**400, {}])
def test_a_value_that_can_not_be_added_fails_its_own_tuple_alone(wrong):
    items = [("a", 1, 0), ("a", wrong, 1), ("a", 3, 2), ("a", None, 3)]
    aggregates = {"n": "count", "half": "quantile(amount, 0.5)"}
    builder = topology(items, TUMBLING, aggregates=aggregates, partial=True, replays=False)
    result = run(builder, workers=2)
    assert [row[3:] for row in result.collected("sink")] == [[3, 1.0]]
    assert len(result.failed("source")) == 1


@pytest.mark.parametrize("values", [[1, "x", 2], [3, math.nan, 1], [Decimal("sNaN"), 2], [True, 1]])
def test_values_of_several_kinds_have_the_same_results(values):
    items = [("a", value, n) for n, value in enumerate(values)] * 3
    aggregates = {"least": "min(amount)", "most": "max(amount)", "some": "distinct(amount)"}
    found = []
    for partial in (True, False):
        builder = topology(items, TUMBLING, aggregates=aggregates, partial=partial, replays=False)
        result = run(builder, workers=2)
        found.append(([row[3:] for row in result.collected("sink")], len(result.failed("source"))))
    assert repr(found[0]) == repr(found[1])


def test_a_tuple_without_a_value_does_not_fail_with_those_whose_value_is_wrong():
    items = [("a", "x", 0), PAUSE, ("a", 1, 1), ("a", None, 2), ("a", 3, 3)]
    aggregates = {"n": "count", "least": "min(amount)"}
    builder = topology(items, TUMBLING, aggregates=aggregates, partial=True, replays=False)
    result = run(builder, workers=2)
    assert [row[3:] for row in result.collected("sink")] == [[2, "x"]]
    assert len(result.failed("source")) == 2


@pytest.mark.parametrize("partial", [True, False])
def test_of_equal_times_the_first_and_the_last_one_count(partial):
    items = [("a", n, 5) for n in range(6)]
    aggregates = {"first": "first(amount)", "last": "last(amount)", "all": "list(amount)"}
    aggregates["best"] = "max_by(amount, user)"
    found, _ = results(items, TUMBLING, aggregates=aggregates, partial=partial, workers=2)
    assert found == [("a", 0, 10, 0, 5, [0, 1, 2, 3, 4, 5], 0)]


@pytest.mark.parametrize("partial", [True, False])
def test_several_fields_by_the_same_one_are_of_the_same_tuple(partial):
    bids = [(7, 5), (9, 3), (None, 4), (9, 2), (1, 0)]  # amount, time: the earlier nine counts
    items = [("a", *bid) for bid in bids for _ in range(2)]
    aggregates = {"at": "max_by(at, amount)", "most": "max_by(amount, amount)"}
    found, _ = results(items, TUMBLING, aggregates=aggregates, partial=partial, workers=2)
    assert found == [("a", 0, 10, 2, 9)]


def test_tuples_are_sent_as_they_are_if_a_second_field_can_not_be_sent():
    best = {"best": "max_by(at, amount)"}
    options = AggregateOptions(window=TUMBLING, aggregates=best, time="at")
    combiner = partial_windows(options, Stream(("user", "amount", "at")), [], {})
    combiner.begin(None)
    assert combiner.add([["a"] * 2, [2, 1], [10**12] * 2]) == [0, 0]
    assert combiner.add([["a"] * 2, [2, object()], [10**12] * 2]) is None


def outcome(items, aggregates, partial, **more):
    builder = topology(
        items, aggregates=aggregates, partial=partial, replays=False, **{"window": TUMBLING, **more}
    )
    result = run(builder, workers=2)
    assert result.errors == []
    return sorted(map(repr, result.collected("sink"))), len(result.failed("source"))


@pytest.mark.parametrize("aggregates", [{"n": "count"}, {"last": "last(amount)"}])
@pytest.mark.parametrize("kinds", [[True, 1, 1.0, Decimal(1)], [0.0, -0.0], [None, "a", b"a"]])
@pytest.mark.parametrize("together", [1, 4])
def test_equal_keys_of_several_types_are_those_that_their_tasks_have(kinds, aggregates, together):
    keys = [key for key in kinds * 4 for _ in range(together)]
    items = [(key, n, 5) for n, key in enumerate(keys)]
    wanted = outcome(items, aggregates, partial=False, tasks=3)  # -0.0 goes to another one
    assert outcome(items, aggregates, partial=True, tasks=3) == wanted


def test_of_equal_times_one_beside_no_value_counts_as_it_came():
    items = [("x", 1, 5), ("y", None, 5), ("z", 2, 5), ("w", None, 5)]
    aggregates = {"first": "first(amount)", "last": "last(user)", "all": "list(user)"}
    for some in (items, items[:2], items[1:]):
        wanted = outcome(some, aggregates, partial=False, key=[])
        assert outcome(some, aggregates, partial=True, key=[]) == wanted


@pytest.mark.parametrize("lateness", ["0", "20ms"])
def test_what_is_late_for_some_of_its_windows_comes_to_the_others_as_it_was_emitted(lateness):
    before = [("a", 0, 35), PAUSE, ("a", 0, 36), PAUSE]
    some = [("k", True, 25), *[("k", 1, 41)] * 3, ("k", 1.0, 25), ("a", 1, 5), ("k", True, 41)]
    window = {"type": "sliding", "size": "30ms", "every": "10ms"}
    more = {"window": window, "allowedLateness": lateness}
    for items in ([*before, *some], [*before, *some[1:]]):
        wanted = outcome(items, {"n": "count", "least": "min(amount)"}, partial=False, **more)
        found = outcome(items, {"n": "count", "least": "min(amount)"}, partial=True, **more)
        assert found == wanted


@pytest.mark.parametrize("window", [SESSION, {"type": "count", "size": 2}])
def test_windows_that_are_not_known_before_are_refused(window):
    with pytest.raises(ValidationFailed, match="partial: true is not for windows of type"):
        run(topology([("a", 1, 1)], window, partial=True))
