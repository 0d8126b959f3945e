"""Deduplication: what is passed on, what is forgotten when, and that SQL finds the same."""

from math import nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fulmen import BasicBolt, FailedException, TopologyBuilder
from fulmen.errors import TopologyFailed, ValidationFailed
from fulmen.testing import ABORT, PAUSE, BoltHarness, CollectBolt, ListSpout, run
from fulmen.windows import Aggregate, Deduplicate
from support.suite import seeds
from support.windows.aggregates import within
from support.windows.sql_events import by_sql

FIELDS = ["order", "n", "at"]
FIRST = {"id": ["order"], "fields": ["order", "n"], "horizon": "10ms", "time": "at", "unit": "ms"}
LAST = {**FIRST, "keep": "last"}


def passed(items, config, lag="0", tasks=2, **runs):
    builder = TopologyBuilder()
    spout = builder.set_spout("source", ListSpout(items, fields=FIELDS))
    spout.set_event_time("at", unit="ms", lag=lag)
    bolt = builder.set_bolt("once", Deduplicate, tasks).set_config(config)
    bolt.fields_grouping("source", ["order"])
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("once")
    builder.set_bolt("late", CollectBolt).shuffle_grouping("once", "late")
    result = run(builder, **runs)
    assert result.errors == []
    late = [values["n"] for values, _ in result.collected("late")]
    return [tuple(row) for row in result.collected("sink")], late, result


def test_the_first_of_an_id_within_the_horizon_is_passed_on():
    items = [("a", 1, 0), ("b", 2, 3), ("a", 3, 9), PAUSE, ("a", 4, 10), ("a", 5, 19)]
    found, late, result = passed(items, FIRST)
    assert sorted(found) == [("a", 1), ("a", 4), ("b", 2)]
    assert late == []
    assert result.state("once") == {}, "at the end of time nothing is remembered"


def test_a_duplicate_that_is_earlier_does_not_make_an_id_forgotten_too_early():
    items = [("a", 1, 100), ("a", 2, 80), PAUSE, ("b", 3, 135), PAUSE, ("a", 4, 105)]
    items += [("a", 5, 112)]
    found, late, _ = passed(items, FIRST, lag="40ms")
    assert found == [("a", 1), ("a", 2), ("b", 3), ("a", 5)]
    assert late == []


def test_what_may_be_a_duplicate_of_a_forgotten_one_is_late():
    items = [("a", 1, 0), ("b", 2, 50), PAUSE, ("b", 3, 50), PAUSE, ("a", 4, 5), ("c", 5, 49)]
    assert passed(items, FIRST)[:2] == ([("a", 1), ("b", 2)], [4, 5])
    config = {**FIRST, "allowedLateness": "60ms"}
    assert passed(items, config, tasks=1)[:2] == ([("a", 1), ("b", 2), ("c", 5)], [])


def test_the_last_of_an_id_is_passed_on_when_no_later_one_can_come():
    items = [("a", 3, 9), ("a", 1, 0), ("a", 2, 9), PAUSE, ("b", 4, 10), PAUSE, ("b", 4, 10)]
    items += [PAUSE, ("a", 5, 7), ("a", 6, 12)]
    found, late, _ = passed(items, LAST, tasks=1)
    assert found == [("a", 2), ("b", 4), ("a", 6)]
    assert late == [5]


def test_an_earlier_one_that_comes_last_begins_the_duplicates_anew():
    items = [("a", 1, 10), PAUSE, ("a", 2, 12), PAUSE, PAUSE, ("a", 3, 14), PAUSE, ("a", 4, 3)]
    found, _, _ = passed(items, LAST, lag="100ms")
    assert found == [("a", 2), ("a", 3)], "one of those from 3 to 12, and one from 13 on"


def test_what_can_have_no_duplicate_any_more_is_forgotten():
    harness = BoltHarness(Deduplicate, fields=FIELDS, conf=FIRST)
    for at in (100, 80):
        harness.execute(["a", 1, at])
    harness.advance(watermark=89)
    assert harness.state == {("a",): (100, 80)}
    harness.advance(watermark=90)
    assert harness.state == {("a",): (100,)}


def test_a_late_one_of_an_id_whose_duplicates_are_awaited_is_taken():
    items = [("a", 1, 0), ("b", 1, 5), PAUSE, ("b", 1, 5), PAUSE, ("a", 2, 4)]
    found, late, _ = passed(items, LAST, tasks=1)
    assert ("a", 2) in found
    assert late == []


class FailsFirst(BasicBolt):
    outputs = ("order", "n")

    def execute(self, tup, collector):
        n = self.state[tup["n"]] = self.state.get(tup["n"], 0) + 1
        if n == 1:
            raise FailedException("not now")
        collector.emit(tup.values)


def test_what_fails_behind_it_is_not_lost_as_a_duplicate_of_itself():
    builder = TopologyBuilder()
    builder.set_spout("source", ListSpout([("a", 1, 0), ("a", 2, 0)], fields=FIELDS))
    config = {"id": ["order"], "fields": ["order", "n"], "horizon": "1h"}
    builder.set_bolt("once", Deduplicate).set_config(config).global_grouping("source")
    builder.set_bolt("fails", FailsFirst).global_grouping("once")
    builder.set_bolt("sink", CollectBolt).global_grouping("fails")
    assert run(builder).collected("sink") == [["a", 1]]


def test_without_event_time_the_horizon_is_of_the_clock():
    config = {"id": ["order"], "fields": ["order", "n"], "horizon": "3s"}
    items = [("a", 1, 0), PAUSE, ("a", 2, 0), *[PAUSE] * 10, ("a", 3, 0)]
    found, _, _ = passed(items, config, batch_seconds=0.5)
    assert found == [("a", 1), ("a", 3)]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": ["ordr"]}, ["id: its input has no field 'ordr'. It has: order, n, at"]),
        ({"fields": ["x"], "time": "y"}, ["has no field 'x'", "has no field 'y'"]),
        ({"id": [], "fields": [], "horizon": "0"}, ["id", "fields", "must be above 0"]),
        ({"fields": ["n", "n"]}, ["fields has n several times"]),
        ({"time": None, "keep": "last"}, ["keep: last needs time"]),
        ({"keep": "last", "allowedLateness": "1s"}, ["allowedLateness is for keep: first"]),
        ({"keep": "middle"}, ["keep"]),
    ],
)
def test_mistakes_are_all_found_before_anything_runs(change, said):
    with pytest.raises(ValidationFailed) as raised:
        passed([("a", 1, 0)], {**FIRST, **change})
    for text in said:
        assert text in str(raised.value)


# ---- a restart with other options

BY_CLOCK = {"id": ["order"], "fields": ["order", "n"], "horizon": "1h"}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (FIRST, LAST, "keep first; now it is last"),
        (LAST, FIRST, "keep last; now it is first"),
        (FIRST, {**FIRST, "id": ["order", "n"]}, "id order; now it is order, n"),
        (BY_CLOCK, FIRST, "horizon of the clock; now it is of event time"),
        (LAST, {**LAST, "fields": ["n"]}, "fields order, n; now it is n"),
        (FIRST, {**FIRST, "fields": ["n"], "horizon": "20ms", "allowedLateness": "1ms"}, None),
        (LAST, {**LAST, "horizon": "20ms"}, None),
        (FIRST, {**FIRST, "time": "n"}, "time at; now it is n"),
    ],
)
def test_a_change_is_refused_that_ids_which_are_remembered_do_not_allow(before, after, said):
    """They would not be found again, or be read as what they are not."""
    items = [("a", 1, 0), PAUSE, ("a", 2, 1)]
    first = passed(items, before, batches=1)[2]
    if said is None:
        passed(items, after, checkpoint=first)
    else:
        with pytest.raises(TopologyFailed, match=f"has ids that were kept with {said}. Change"):
            passed(items, after, checkpoint=first)


def test_ids_that_were_forgotten_stay_late_when_more_is_allowed_to_be_late():
    items = [("a", 1, 0), PAUSE, ("b", 2, 90), PAUSE, PAUSE]
    first = passed(items, FIRST, batches=4)[2]
    items += [("a", 3, 0), ("b", 4, 91), ("c", 5, 200), PAUSE, PAUSE, ("c", 6, 195), ("a", 7, 95)]
    found, late, _ = passed(items, {**FIRST, "allowedLateness": "1s"}, checkpoint=first)
    assert (found, late) == ([("a", 1), ("b", 2), ("c", 5), ("a", 7)], [3])


def test_a_longer_horizon_holds_for_what_is_kept_already():
    items = [("a", 1, 0), PAUSE, ("b", 2, 5), PAUSE]
    first = passed(items, LAST, batches=3)[2]
    items += [("b", 3, 15), PAUSE, PAUSE, ("a", 4, 25), PAUSE, ("c", 5, 60), PAUSE]
    found, late, _ = passed(items, {**LAST, "horizon": "30ms"}, checkpoint=first)
    assert (sorted(found), late) == ([("a", 4), ("b", 3), ("c", 5)], [])


@pytest.mark.parametrize(("horizon", "found"), [("2h", [1]), ("10m", [1, 2, 3]), ("1h", [1, 3])])
def test_another_horizon_of_the_clock_holds_for_what_is_kept_already(horizon, found):
    """The second comes after 30 minutes, the third after 90."""
    items = [("a", 1, 0), PAUSE]
    first = passed(items, BY_CLOCK, batches=1, batch_seconds=1800)[2]
    items += [PAUSE, ("a", 2, 0), PAUSE, PAUSE, ("a", 3, 0), PAUSE]
    again = {**BY_CLOCK, "horizon": horizon}
    rows = passed(items, again, checkpoint=first, batch_seconds=1800)[0]
    assert [n for _, n in rows] == found


# ---- oracles

EXTRAS = [(), (), (), (PAUSE,), (PAUSE, PAUSE), (ABORT,)]
EXAMPLES = settings.default.max_examples // 4
TIMES = st.integers(-30, 60) | st.integers(0, 24)  # many are within a horizon of others
EVENTS = st.lists(st.tuples(st.sampled_from("ab"), TIMES), max_size=12)
SQL = """
    WITH RECURSIVE
    starts AS (
        SELECT who, min(t) s FROM events GROUP BY who
        UNION
        SELECT e.who, min(e.t) OVER (PARTITION BY e.who) FROM starts JOIN events e
        ON e.who = starts.who AND e.t >= starts.s + 10)
    SELECT who, arg_max(n, t * 1000 + n) FROM starts JOIN events USING (who)
    WHERE t >= s AND t < s + 10 GROUP BY who, s"""


def mixed(events, extra):
    items = []
    for number, (who, at) in enumerate(events):
        items.append((who, number, at))
        items += extra.draw(st.sampled_from(EXTRAS))
    return items


@given(events=EVENTS, is_near=st.booleans(), extra=st.data())
@settings(max_examples=EXAMPLES)
def test_last_ones_are_those_of_sql(events, is_near, extra):
    """In any order within the lag, with crashes, in batches of any size, on several workers."""
    if is_near:  # then some are emitted before the last event has come
        some = within(8, [(who, "", at) for who, at in events], extra.draw)
        events = [(who, at) for who, _, at in some]
    lag = "8ms" if is_near else "100ms"
    found, late, _ = passed(mixed(events, extra), LAST, lag=lag, workers=2)
    rows = [(who, number, at) for number, (who, at) in enumerate(events)]
    assert late == []
    assert sorted(found) == sorted(by_sql(SQL, events=("who TEXT, n BIGINT, t BIGINT", rows)))


@given(events=EVENTS, extra=st.data())
@settings(max_examples=EXAMPLES)
def test_no_two_that_are_passed_on_are_within_the_horizon_and_none_is_lost(events, extra):
    """With a lag that is too small: each is passed on, late, or a duplicate of one that was."""
    found, late, _ = passed(mixed(events, extra), FIRST, lag="10ms", workers=2)
    times = [at for _, at in events]
    kept = {n for _, n in found}
    assert len(kept) == len(found)
    for number, (who, at) in enumerate(events):
        near = [n for w, n in found if w == who and n != number and abs(times[n] - at) < 10]
        if number in kept:
            assert not near
        else:
            assert near or number in late


def test_what_is_late_is_counted_in_several_classes_of_a_topology():
    builder, items = TopologyBuilder(), [100, PAUSE, 120, PAUSE, PAUSE, 5]
    spout = builder.set_spout("source", ListSpout(items, fields=["at"]))
    spout.set_event_time("at", unit="ms")
    first = builder.set_bolt("first", Deduplicate).fields_grouping("source", ["at"])
    first.set_config({**FIRST, "id": ["at"], "fields": ["at"]})
    windows = builder.set_bolt("windows", Aggregate).fields_grouping("source", ["at"])
    window = {"type": "tumbling", "size": "50ms"}
    windows.set_config({"key": ["at"], "window": window, "aggregates": {"number": "count"}})
    result = run(builder, batches=6)
    assert result.errors == []
    assert result.metrics["first"]["late"] == result.metrics["windows"]["late"] == 1
    assert result.metrics["windows"]["open_windows"] == 2


class Singly(Deduplicate):
    """Looks at each tuple alone, as any class may that derives from it."""

    def execute(self, tup, collector):
        super().execute(tup, collector)


def test_many_tuples_at_once_are_as_each_alone():
    """What is passed on, what is late, what fails, and in which order it comes."""
    lates = 0
    for seed in seeds.several(settings.default.max_examples):
        with seeds.generator(seed) as rng:
            events, keep = any_events(rng), rng.choice(("first", "first", "last"))
            (at_once, late), (singly, _) = (outcome(c, keep, events) for c in (Deduplicate, Singly))
        lates += late
        assert at_once == singly
    assert lates > 0


def any_events(rng):
    """With odd ids and times in some of them, and pauses between batches."""
    odd = rng.random() < 0.3
    ids = ["a", "a", "b", *[1, True, None, nan, ["no hash"]] * odd]
    events = []
    for n in range(rng.randint(0, 24)):
        at = rng.choice((None, 10**18, 7.5)) if odd and rng.random() < 0.2 else rng.randint(-20, 60)
        events.append((rng.choice(ids), n, at, rng.randint(-5, 60)))
        events += [PAUSE] * (rng.random() < 0.1)
    return events


def outcome(cls, keep, events):
    """All that was emitted and failed, and how much was late."""
    builder = TopologyBuilder(max_replays=0)
    spout = builder.set_spout("source", ListSpout(events, fields=[*FIELDS, "now"]))
    spout.set_event_time("now", unit="ms", lag="1ms")
    once = builder.set_bolt("once", cls).set_config({**FIRST, "keep": keep})
    once.global_grouping("source")
    sink = builder.set_bolt("sink", CollectBolt)
    for stream in ("default", "late"):
        sink.shuffle_grouping("once", stream)
    result = run(builder, emits=True)
    emitted, failed = result.collected("sink"), sorted(result.failed("source"), key=str)
    return str((emitted, failed)), len(result.emitted("once", "late"))
