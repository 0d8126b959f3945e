"""Windows of a topology: what they emit, when, what is late, and that DuckDB counts the same."""

from collections import defaultdict
from datetime import datetime, tzinfo
from decimal import Decimal
from math import nan
from typing import ClassVar

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from fulmen import BasicBolt, FailedException, Stream
from fulmen.api.keys import NAN_CURE, NOT_EQUAL_TO_ITSELF
from fulmen.errors import ValidationFailed
from fulmen.testing import PAUSE, BoltHarness, CollectBolt, run
from fulmen.windows import Aggregate, Aggregation
from fulmen.windows.options import AggregateOptions
from support.windows.aggregates import (
    COUNT,
    EVENTS,
    EXAMPLES,
    EXTRAS,
    FIELDS,
    FILTERED,
    SESSION,
    SUMS,
    TUMBLING,
    WINDOWS,
    by_duckdb,
    plain,
    results,
    topology,
    within,
)


def test_each_window_of_each_key_is_emitted_once_when_it_has_ended():
    items = [("a", 1, 0), ("b", 2, 9), ("a", 4, 9), ("a", 8, 10), PAUSE, ("c", 1, 25), PAUSE]
    items += [("c", 1, 25), PAUSE, ("c", 1, 26)]
    found, late = results(items, TUMBLING)
    assert sorted(found[:2]) == [("a", 0, 10, 2, 5), ("b", 0, 10, 1, 2)]
    assert found[2:] == [("a", 10, 20, 1, 8), ("c", 20, 30, 3, 3)]
    assert late == []


def test_what_is_late_is_on_a_stream_of_its_own_with_its_window():
    items = [("a", 1, 0), ("a", 1, 30), PAUSE, ("a", 1, 30), PAUSE]
    items += [("a", 1, 5), ("a", 1, 12), ("a", 1, 30)]
    found, late = results(items, TUMBLING)
    assert sorted(found) == [("a", 0, 10, 1, 1), ("a", 30, 40, 3, 3)]
    assert late == [(5, 5, 0, 10), (12, 12, 10, 20)]


@pytest.mark.parametrize("window", [TUMBLING, {**TUMBLING, "type": "sliding", "every": "5ms"}])
@pytest.mark.parametrize("key", [["user"], ["user", "amount"], []])
def test_counts_alone_are_as_those_beside_other_aggregates(key, window):
    """They are counted by the chunk. What is late, or is in other windows, is not at hand there."""
    items = [("a", 1, 0), ("b", 1, 9), ("a", 1, 0), ("a", 1, 12), ("a", 1, 30), PAUSE]
    items += [("a", 1, 30), PAUSE, ("a", 1, 5), ("a", 1, 27), ("a", 1, 31), ("b", 1, 47)]
    items += [PAUSE, ("a", 1, 47), PAUSE, ("b", 1, 39), ("b", 1, 44), PAUSE]
    items += [("a", 1, 49), ("a", 1, 50)]
    alone, late = results(items, window, key=key, aggregates=COUNT)
    beside, late_beside = results(items, window, key=key)
    assert sorted(alone) == sorted(row[:-1] for row in beside)
    assert late == late_beside


def test_what_is_out_of_order_within_the_lag_is_not_late():
    items = [("a", 1, 0), ("a", 1, 30), PAUSE, ("a", 1, 30), PAUSE, ("a", 1, 12), ("a", 1, 30)]
    found, late = results(items, TUMBLING, lag="20ms")
    assert sorted(found) == [("a", 0, 10, 1, 1), ("a", 10, 20, 1, 1), ("a", 30, 40, 3, 3)]
    assert late == []


def test_a_window_that_takes_what_is_late_says_so_each_time():
    items = [("a", 1, 0), ("a", 1, 15), PAUSE, ("n", 1, 15), PAUSE, ("a", 1, 5), ("a", 1, 6)]
    items += [PAUSE, ("a", 1, 40), PAUSE, ("n", 1, 40), PAUSE, ("a", 1, 7)]
    found, late = results(items, TUMBLING, allowedLateness="20ms")
    assert [row for row in found if row[1] == 0] == [
        ("a", 0, 10, 1, 1, "on_time", 0),
        ("a", 0, 10, 2, 2, "late", 1),
        ("a", 0, 10, 3, 3, "late", 2),
    ]
    assert late == [(7, 7, 0, 10)]


def test_a_key_that_comes_late_is_emitted_alone():
    items = [("a", 1, 0), ("a", 1, 15), PAUSE, ("n", 1, 15), PAUSE, ("b", 1, 5), ("b", 1, 6)]
    items += [PAUSE, ("b", 1, 7)]
    found, late = results(items, TUMBLING, allowedLateness="20ms")
    assert [row for row in found if row[1] == 0] == [
        ("a", 0, 10, 1, 1, "on_time", 0),
        ("b", 0, 10, 2, 2, "on_time", 0),
        ("b", 0, 10, 3, 3, "late", 1),
    ]
    assert late == []


def test_a_window_is_emitted_before_its_end_if_something_has_come():
    items = [("a", 1, 0), *[PAUSE] * 8, ("a", 1, 1), *[PAUSE] * 12]
    found, _ = results(items, TUMBLING, emitEvery="1s", batch_seconds=0.5)
    assert found == [
        ("a", 0, 10, 1, 1, "early", 0),
        ("a", 0, 10, 2, 2, "early", 1),
        ("a", 0, 10, 2, 2, "on_time", 2),
    ]
    alone, _ = results(items, TUMBLING, aggregates=COUNT, emitEvery="1s", batch_seconds=0.5)
    assert alone == [(*row[:4], *row[5:]) for row in found]


def test_a_session_alone_is_late_when_the_watermark_is_above_its_end():
    items = [("a", 1, 20), PAUSE, ("a", 2, 20), PAUSE, ("b", 3, 10), ("c", 4, 9)]
    found, late = results(items, SESSION)
    assert sorted(found) == [("a", 20, 30, 2, 3), ("b", 10, 20, 1, 3)]
    assert late == [(9, 9, 9, 19)]


def test_sessions_that_touch_are_one_also_when_a_late_one_lies_between():
    items = [("a", 1, 0), ("a", 2, 25), ("a", 4, 10), ("b", 1, 3), PAUSE, ("a", 8, 18)]
    items += [("a", 16, 60)]
    found, late = results(items, SESSION, lag="30ms")
    assert sorted(found) == [("a", 0, 35, 4, 15), ("a", 60, 70, 1, 16), ("b", 3, 13, 1, 1)]
    assert late == []


def test_a_session_waits_for_what_may_be_just_at_its_end():
    items = [("a", 1, 0), PAUSE, ("n", 1, 10), PAUSE, ("n", 1, 10), PAUSE, ("a", 2, 10)]
    found, late = results(items, SESSION)
    assert [row for row in found if row[0] == "a"] == [("a", 0, 20, 2, 3)]
    assert late == []


def test_a_session_that_has_ended_takes_what_is_late_and_may_go_on():
    items = [("a", 1, 0), ("n", 1, 15), PAUSE, ("n", 1, 15), PAUSE, ("a", 1, 2), PAUSE]
    items += [("a", 1, 9), PAUSE, ("n", 1, 100), PAUSE, ("n", 1, 101), PAUSE, ("a", 1, 0)]
    found, late = results(items, SESSION, allowedLateness="20ms")
    assert [row for row in found if row[0] == "a"] == [
        ("a", 0, 10, 1, 1, "on_time", 0),
        ("a", 0, 12, 2, 2, "late", 1),
        ("a", 0, 19, 3, 3, "on_time", 2),
    ]
    assert late == [(0, 0, 0, 10)]


@pytest.mark.parametrize("window", [TUMBLING, SESSION])
def test_nothing_is_kept_of_what_ends_when_it_would_be_emitted_early(window):
    conf = {"time": "at", "unit": "ms", "key": ["user"], "window": window, "aggregates": SUMS}
    bolt = BoltHarness(Aggregate, fields=FIELDS, conf={**conf, "emitEvery": "1s"})
    bolt.execute(["a", 1, 0])
    bolt.advance(watermark=50, seconds=2)
    bolt.end_batch()
    assert [emitted.values[-2] for emitted in bolt.emitted] == ["on_time"]
    assert bolt.state == {}


def test_a_window_by_count_ends_with_so_many_tuples_of_its_key():
    items = [("a", n, n) for n in range(7)] + [("b", 1, 9)]
    found, _ = results(items, {"type": "count", "size": 3})
    assert found == [("a", 0, 2, 3, 3), ("a", 3, 5, 3, 12)]


@pytest.mark.parametrize(("size", "every"), [(3, 1), (4, 3)])
def test_a_window_by_count_may_be_of_the_last_tuples_after_each_few(size, every):
    items = [row for n in range(9) for row in (("a", n, n), PAUSE, ("b", -n, n))]
    window = {"type": "count", "size": size, "every": every}
    aggregates = {"last": "list(amount)", "mean": "mean(amount)"}
    found, _ = results(items, window, aggregates=aggregates)
    for user, sign in (("a", 1), ("b", -1)):
        ends = range(every, 10, every)
        last = [[sign * n for n in range(max(0, end - size), end)] for end in ends]
        assert [row for row in found if row[0] == user] == [
            (user, abs(some[0]), abs(some[-1]), some, sum(some) / len(some)) for some in last
        ]


def test_a_condition_without_a_value_fails_its_tuple_and_changes_nothing():
    aggregates = {"n": "count", "odd": "count filter (where 6 // amount = 6)"}
    items = [("a", 1, 0), ("a", 0, 1), ("a", 3, 2)]
    result = run(topology(items, TUMBLING, aggregates=aggregates, replays=False))
    assert [row[3:] for row in result.collected("sink")] == [[2, 1]]
    [(_, reason)] = result.failed("source")
    assert "division by zero" in reason or "0" in reason


def test_days_of_a_time_zone_and_no_key():
    day = 86_400_000
    items = [("a", 1, 0), ("b", 2, day // 2), ("a", 4, day)]
    window = {"type": "calendar", "unit": "day", "timezone": "Asia/Tokyo"}
    found, _ = results(items, window, key=())
    nine = 9 * 3_600_000
    assert found == [(-nine, day - nine, 2, 3), (day - nine, 2 * day - nine, 1, 4)]


def test_a_value_that_can_not_be_added_fails_its_tuple_and_changes_nothing():
    aggregates = {"all": "list(amount)", "least": "min(amount)"}
    items = [("a", 1, 0), ("a", "x", 1), ("a", 3, 2)]
    result = run(topology(items, TUMBLING, aggregates=aggregates, replays=False))
    [row] = result.collected("sink")
    assert row[3:] == [[1, 3], 1]
    assert [reason for _, reason in result.failed("source")]


def test_a_number_that_is_too_large_for_a_sketch_changes_nothing():
    aggregates = {"all": "list(amount)", "half": "quantile(amount, 0.5)"}
    items = [("a", 1, 0), ("a", 10**400, 1), ("a", 3, 2)]
    result = run(topology(items, TUMBLING, aggregates=aggregates, replays=False))
    assert [row[3:] for row in result.collected("sink")] == [[[1, 3], 1.0]]
    [reason] = [said for _, said in result.failed("source")]
    assert "its field 'amount'" in reason


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (("a", "x", 0), "its field 'amount': 'x' is no number"),
        ((["a"], 1, 0), "its key is (['a'],), which is not hashable"),
        ((nan, 1, 0), f"its key is (nan,), which {NOT_EQUAL_TO_ITSELF}. {NAN_CURE}"),
    ],
)
def test_bad_tuples_fail_with_the_reason(item, reason):
    items = [item, ("b", 1, 1)]
    result = run(topology(items, TUMBLING, is_grouped=False, replays=False))
    assert [said for _, said in result.failed("source")] == [reason]


class NoZone(tzinfo):
    def utcoffset(self, when):
        raise LookupError("no such zone")


@pytest.mark.parametrize("key", [nan, Decimal("sNaN"), datetime(2020, 1, 1, tzinfo=NoZone())])
@pytest.mark.parametrize("more", [{}, {"partial": True}, {"allowedLateness": "1ms"}], ids=str)
def test_a_key_of_a_plain_type_that_is_none_fails_alone(key, more):
    items = [("a", 1, 0), (key, 1, 1), ("a", 1, 2)]
    options = {"is_grouped": False, "replays": False, **more}
    builder = topology(items, TUMBLING, aggregates=COUNT, **options)
    result = run(builder, workers=2 if "partial" in more else 1)
    [(_, _, _, count, *_)] = result.collected("sink")
    assert count == 2
    assert len(result.failed("source")) == 1


NEW_YEAR_1, NEW_YEAR_10000 = -62_135_596_800_000, 253_402_300_800_000


@pytest.mark.parametrize(
    ("window", "time"),
    [
        ({"type": "tumbling", "size": "7d"}, NEW_YEAR_1),
        ({"type": "sliding", "size": "2d", "every": "1d"}, NEW_YEAR_1),
        ({"type": "calendar", "unit": "day", "timezone": "America/Lima"}, NEW_YEAR_1),
        ({"type": "calendar", "unit": "hour", "timezone": "Asia/Kolkata"}, NEW_YEAR_10000 - 1),
        ({"type": "calendar", "unit": "year"}, NEW_YEAR_10000 - 1),
        ({"type": "tumbling", "size": "1d"}, NEW_YEAR_10000 - 1),
        ({"type": "session", "gap": "1s"}, NEW_YEAR_10000 - 1000),
    ],
)
def test_a_tuple_is_late_whose_window_has_no_edges_that_a_datetime_could_be(window, time):
    """As those have whose source knows no time, or one that has no end."""
    items = [("a", 1, 0), PAUSE, ("a", 1, time), ("a", 2, 0), PAUSE]
    result = run(topology(items, window, is_timed=False))
    assert (result.errors, len(result.acked("source"))) == ([], 3)
    [[values, at, *edges]] = result.collected("late")
    assert (values["at"], plain(at), edges) == (time, time, [None, None])
    assert {row[-1] for row in result.collected("sink")} == {3}


# ---- mistakes


@pytest.mark.parametrize(
    ("window", "config", "said"),
    [
        ({"type": "tumbling"}, {}, "size"),
        ({"type": "tumbling", "size": "0"}, {}, "must be above 0"),
        ({"type": "tumbling", "size": "-1s"}, {}, "size"),
        ({"type": "session"}, {}, "gap"),
        ({"type": "sliding", "size": "1s", "every": "2s"}, {}, "must not be above size, 1s"),
        ({"type": "calendar", "unit": "day", "timezone": "Mars"}, {}, "no time zone 'Mars'"),
        ({"type": "count", "size": 0}, {}, "size"),
        ({"type": "count", "size": 2, "every": 3}, {}, "every is 3, but must not be above size"),
        (
            TUMBLING,
            {"aggregates": {"n": "count filter (where amont > 1)"}},
            "aggregates.n: where 'amont > 1': there is no field 'amont' (column 1). Did you mean"
            " 'amount'?",
        ),
        (
            TUMBLING,
            {"aggregates": {"n": "count filter (where user = 'a')"}, "partial": True},
            "partial: true is not for aggregates with a filter",
        ),
        ({"type": "hopping"}, {}, "hopping"),
        (TUMBLING, {"time": None, "is_timed": False}, "time is missing"),
        (TUMBLING, {"aggregates": {"p": "quantile(amount"}}, "p: 'quantile(amount' is no"),
        (TUMBLING, {"time": "when"}, "time: its input has no field 'when'"),
        (TUMBLING, {"key": ["usr"]}, "key: its input has no field 'usr'. It has: user, amount, at"),
        (TUMBLING, {"aggregates": {"n": "sum(x)"}}, "aggregates.n: its input has no field 'x'"),
        (TUMBLING, {"aggregates": {"n": "sum(amount * 2)"}}, "Give what is computed a name in"),
        (TUMBLING, {"aggregates": {"n": "add(x)"}}, "n: there is no aggregate 'add'"),
        (TUMBLING, {"aggregates": {"m": "max_by(amount, bid)"}}, "aggregates.m: its input has no"),
        (TUMBLING, {"aggregates": {"user": "count"}}, "several output fields are called user"),
        (TUMBLING, {"aggregates": {}}, "aggregates"),
        ({"type": "count", "size": 2}, {"emitEvery": "1s"}, "not for windows by count"),
        (
            {"type": "cumulative", "size": "1d", "every": "7h"},
            {},
            "must be a multiple of every, 7h",
        ),
        ({"type": "sliding", "size": "30d", "every": "1s"}, {}, "would be in 2,592,000 windows"),
        ({"size": "1s"}, {}, "'type' is missing. Write one of tumbling, sliding, cumulative"),
        (TUMBLING, {"allowedLateness": "-5m"}, "must be a number of at most 9 digits and ms"),
    ],
)
def test_mistakes_are_found_before_anything_runs(window, config, said):
    with pytest.raises(ValidationFailed) as raised:
        run(topology([("a", 1, 1)], window, **config))
    assert said in str(raised.value)


@pytest.mark.parametrize("aggregate", ["sum(x)", "mean(x)", "quantile(x, 0.5)"])
def test_a_field_whose_type_is_no_number_is_told_where_an_aggregate_needs_numbers(aggregate):
    options = AggregateOptions(window=TUMBLING, time="at", aggregates={"n": aggregate})
    told = {
        kind: list(Aggregate().check_input(options, Stream(("x", "at"), types={"x": kind})))
        for kind in ("string", "bool", "timestamp", "decimal", "int32", "json")
    }
    assert [kind for kind, wrong in told.items() if not wrong] == ["decimal", "int32", "json"]
    assert told["string"] == [
        "aggregates.n: 'x' is a string, but must be a number. Declare it as one where it is read,"
        " as in fields: {x: float64}"
    ]
    others = AggregateOptions(
        window=TUMBLING, time="at", aggregates={"n": "max(x)", "m": "count(x)"}
    )
    stream = Stream(("x", "at"), types={"x": "string"})
    assert list(Aggregate().check_input(others, stream)) == []


def test_wrong_aggregates_are_told_with_other_mistakes_whatever_is_known_of_the_input():
    config = {"aggregates": {"n": "cout", "m": "quantile(x, 2)"}, "emitEvery": "x"}
    with pytest.raises(ValidationFailed) as raised:
        run(topology([("a", 1, 1)], TUMBLING, **config))
    places = [problem.path.rpartition("config.")[2] for problem in raised.value.problems]
    assert places == ["aggregates.n", "aggregates.m", "emitEvery"]


def test_options_that_do_not_go_together_are_told_at_once():
    config = {"emit": "final", "emitEvery": "1s", "key": ["user", "user"]}
    with pytest.raises(ValidationFailed, match=r"emit: final is not for.*; several output fields"):
        run(topology([("a", 1, 1)], TUMBLING, **config))


def test_the_time_is_that_of_the_source_if_none_is_named():
    items = [("a", 1, 0), ("a", 2, 9), ("a", 4, 10)]
    found, _ = results(items, TUMBLING, time=None, unit=None)
    assert found == [("a", 0, 10, 2, 3), ("a", 10, 20, 1, 4)]


def test_aggregates_whose_commas_yaml_has_taken_for_its_own():
    text = (
        "{n: count, p: quantile(amount, 0.95), top: top(amount, 1), u: distinct(user, approximate)}"
    )
    items = [("a", 5, 0), ("a", 5, 1), ("a", 1, 2)]
    found, _ = results(items, TUMBLING, aggregates=yaml.safe_load(text))
    assert found == [("a", 0, 10, 3, 5.0, [[5, 2]], 1)]


class Product(Aggregation):
    def init(self):
        return 1

    def add(self, kept, value, time):
        return kept * value

    def merge(self, kept, other):
        return kept * other


class WithProduct(Aggregate):
    own = {"product": Product}  # noqa: RUF012 (as authors write it)


def test_an_aggregation_of_ones_own():
    items = [("a", 2, 0), ("a", 5, 1)]
    found, _ = results(items, TUMBLING, cls=WithProduct, aggregates={"p": "product(amount)"})
    assert found == [("a", 0, 10, 10)]


class Merging(Product):
    merges: ClassVar[list] = []

    def merge(self, kept, other):
        self.merges.append((kept, other))
        return super().merge(kept, other)


class WithMerging(Aggregate):
    own = {"product": Merging}  # noqa: RUF012 (as authors write it)


def test_a_tuple_of_one_session_is_added_to_it_without_a_copy_of_what_is_kept(monkeypatch):
    monkeypatch.setattr(Merging, "merges", [])
    items = [("a", 2, 0), ("a", 3, 1), PAUSE, ("a", 5, 9), ("a", 7, 25), ("a", 11, 17)]
    how = {"cls": WithMerging, "aggregates": {"p": "product(amount)"}, "lag": "1s"}
    assert results(items, SESSION, **how)[0] == [("a", 0, 35, 2310)]
    assert Merging.merges == [(30, 11), (7, 330)], "only what has become one"


class Forgetful(Aggregate):
    state_ttl = "2s"


def test_windows_have_no_time_to_live():
    with pytest.raises(ValidationFailed, match="state_ttl: what it keeps is forgotten by event"):
        run(topology([("a", 1, 0)], TUMBLING, cls=Forgetful))


class Refusing(Product):
    kind = OverflowError

    def result(self, kept):
        if kept == 3:
            raise self.kind("three is too many")
        return kept


class WithRefusing(Aggregate):
    own = {"refusing": Refusing}  # noqa: RUF012 (as authors write it)


@pytest.mark.parametrize("kind", [OverflowError, SystemExit])
@pytest.mark.parametrize("window", [TUMBLING, SESSION])
def test_a_result_that_raises_is_reported_and_the_others_are_emitted(window, kind, monkeypatch):
    monkeypatch.setattr(Refusing, "kind", kind)
    items = [("a", 2, 0), ("b", 3, 0), ("c", 5, 0)]
    result = run(topology(items, window, cls=WithRefusing, aggregates={"r": "refusing(amount)"}))
    assert sorted(row[-1] for row in result.collected("sink")) == [2, 5]
    [error] = result.errors
    assert "three is too many" in str(error)


# ---- DuckDB says the same


@pytest.mark.parametrize("kind", WINDOWS)
@given(events=EVENTS, is_near=st.booleans(), extra=st.data())
@settings(max_examples=EXAMPLES)
def test_final_results_are_those_of_sql(kind, events, is_near, extra):
    """In any order within the lag, with crashes, in batches of any size, on several workers."""
    window, factor = WINDOWS[kind]
    events = [(user, amount, at * (factor or 1)) for user, amount, at in events]
    if is_near:  # then windows end before the last event has come
        events = within(8 * (factor or 1), events, extra.draw)
    items = []
    for event in events:
        items.append(event)
        items += extra.draw(st.sampled_from(EXTRAS))
    lag = ("8" if is_near else "400") + ("h" if factor else "ms")
    aggregates = extra.draw(st.sampled_from([SUMS, COUNT, FILTERED]))
    partial = kind != "session" and aggregates is not FILTERED and extra.draw(st.booleans())
    how = {"partial": partial, "aggregates": aggregates}
    found, late = results(items, window, lag=lag, workers=2, **how)
    assert late == []
    width = 3 + len(aggregates)
    assert sorted(found, key=repr) == sorted((r[:width] for r in by_duckdb(kind, events)), key=repr)


@given(events=EVENTS, extra=st.data())
@settings(max_examples=EXAMPLES)
def test_what_is_not_late_is_in_its_window_whatever_is_lost(events, extra):
    """With a lag that is too small: what is late is told, and windows have all the rest."""
    items = []
    for event in events:
        items.append(event)
        items += extra.draw(st.sampled_from(EXTRAS))
    partial = extra.draw(st.booleans())
    how = {"partial": partial, "aggregates": extra.draw(st.sampled_from([SUMS, COUNT]))}
    found, late = results(items, TUMBLING, lag="20ms", workers=2, **how)
    left = defaultdict(int)
    for _, _, at in events:
        left[at // 10 * 10] += 1
    for at, _, start, end in late:
        assert (start, end) == (at // 10 * 10, at // 10 * 10 + 10)
        left[start] -= 1
    counted = defaultdict(int)
    for _, start, _, count, *_ in found:
        counted[start] += count
    assert counted == {start: count for start, count in left.items() if count}
    assert len({row[:2] for row in found}) == len(found), "a window was emitted twice"


class RefusesOnce(BasicBolt):
    """Fails each window once."""

    outputs = ("user", "total")

    def execute(self, tup, collector):
        key = tup["user"], tup["window_start"]
        if key not in self.state:
            self.state[key] = True
            raise FailedException("not yet")
        collector.emit([tup["user"], tup["total"]])


def test_a_window_that_is_full_comes_again_and_its_last_tuple_does_not():
    """It is emitted for its last tuple, which the spout would emit once more."""
    items = [("a", 1, 0), ("a", 2, 1), ("a", 4, 2), ("a", 8, 3)]
    builder = topology(items, {"type": "count", "size": 2}, aggregates={"total": "sum(amount)"})
    builder.set_bolt("fails", FailsOnce).shuffle_grouping("windows")
    result = run(builder)
    assert sorted(row[-1] for row in result.collected("fails")) == [3, 12]
    assert result.trees["failed"] == 2
    assert result.trees["acked"] == 4 + 2


class FailsOnce(CollectBolt):
    def __init__(self):
        super().__init__()
        self.seen = []

    def execute(self, tup, collector):
        if tup["total"] not in self.seen:
            self.seen.append(tup["total"])
            raise FailedException("not yet")
        super().execute(tup, collector)


@pytest.mark.parametrize("tracked", [True, False])
def test_a_window_that_the_bolt_behind_it_fails_comes_again(tracked):
    """Those of event time's end as well: a drained topology waits for them."""
    builder = topology([("a", 1, 0), ("b", 2, 9), PAUSE, ("a", 4, 15), ("a", 8, 25)], TUMBLING)
    builder.set_bolt("refuses", RefusesOnce).shuffle_grouping("windows")
    builder.set_bolt("table", CollectBolt).shuffle_grouping("refuses")
    found = builder.build()
    bolts = [
        bolt.model_copy(update={"track_results": tracked}) if bolt.name == "windows" else bolt
        for bolt in found.spec.bolts
    ]
    spec = found.spec.model_copy(update={"bolts": tuple(bolts)})
    result = run(found.model_copy(update={"spec": spec}))
    rows = sorted(map(tuple, result.collected("table")))
    assert rows == ([("a", 1), ("a", 4), ("a", 8), ("b", 2)] if tracked else [])
    assert result.trees["failed"] == (4 if tracked else 0)
