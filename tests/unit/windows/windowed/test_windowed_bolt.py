"""Windowed bolts in topologies: what they get, acks, what is late; and that SQL says the same."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fulmen import BasicBolt, FailedException, TopologyBuilder
from fulmen.cli.display.kept_values import is_of_window
from fulmen.errors import TopologyFailed, ValidationFailed
from fulmen.testing import ABORT, PAUSE, BoltHarness, CollectBolt, ListSpout, run
from fulmen.windows import WindowedBolt, WindowedOptions
from support.runs.engine_runs import make_driver
from support.windows.aggregates import within
from support.windows.sql_events import by_sql

FIELDS = ["user", "n", "at"]


class Shown(WindowedBolt):
    outputs = ("key", "all", "new", "expired", "start", "end")
    transient = ("collector",)

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, window):
        lists = [[tup["n"] for tup in some] for some in (window.tuples, window.new, window.expired)]
        self.collector.emit([list(window.key), *lists, window.start, window.end])


def by_time(bolt, lag="0"):
    return bolt.with_timestamp_field("at", unit="ms").with_lag(lag)


def shown(items, bolt, config=None, tasks=1, key=(), lag="0", **runs):
    builder = TopologyBuilder()
    source = builder.set_spout("source", ListSpout(items, fields=FIELDS))
    source.set_event_time("at", unit="ms", lag=lag)
    windowed = builder.set_bolt("windowed", bolt, tasks)
    if config is not None:
        windowed.set_config(config)
    if key:
        windowed.fields_grouping("source", list(key))
    else:
        windowed.global_grouping("source")
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("windowed")
    if (config or {}).get("lateTupleStream") or bolt.__dict__.get("_given", {}).get(
        "late_tuple_stream"
    ):
        builder.set_bolt("late", CollectBolt).shuffle_grouping("windowed", "late")
    result = run(builder, **runs)
    return result.collected("sink"), result


def test_windows_of_so_many_tuples_whatever_crashes():
    items = [("a", 1, 0), ("a", 2, 0), PAUSE, ("b", 3, 0), ABORT, ("a", 4, 0), ("a", 5, 0)]
    found, result = shown(items, Shown().with_window(3, 2))
    assert [row[1:4] for row in found] == [[[1, 2], [1, 2], []], [[2, 3, 4], [3, 4], [1]]]
    assert [row[4:] for row in found] == [[None, None]] * 2
    assert len(result.acked("source")) == 5, "a tuple is acked although its window is open"


def test_a_window_after_each_tuple_if_nothing_is_said_of_the_slide():
    found, _ = shown([("a", 1, 0), ("a", 2, 0), ("a", 3, 0)], Shown().with_window(2))
    assert [row[1] for row in found] == [[1], [1, 2], [2, 3]]


def test_windows_by_event_time_with_a_lag_and_what_is_late():
    bolt = by_time(Shown().with_window("20ms", "10ms"), "5ms").with_late_tuple_stream("late")
    items = [("a", 1, 3), ("a", 2, 12), ("a", 3, 8), PAUSE, PAUSE, ("a", 4, 7), ("a", 5, 6), PAUSE]
    items += [("a", 6, 40)]
    found, result = shown(items, bolt)
    assert [(row[1], row[4:]) for row in found] == [
        ([1, 4, 3], [-10, 10]),
        ([1, 4, 3, 2], [0, 20]),
        ([2], [10, 30]),
        ([6], [20, 40]),
        ([6], [30, 50]),
    ]
    [[late]] = result.collected("late")
    assert late == {"user": "a", "n": 5, "at": 6}
    assert len(result.acked("source")) == 6
    assert result.state("windowed") == {}


@pytest.mark.parametrize("cut", [(), (PAUSE,), (PAUSE, PAUSE)])
@pytest.mark.parametrize("lags", [("5ms", "0"), ("0", "5ms"), ("2ms", "3ms")])
def test_a_tuple_just_as_old_as_the_lags_allow_is_in_its_window(cut, lags):
    """At whose end the watermark is, in whichever batch the tuple comes."""
    bolt = by_time(Shown().with_tumbling_window("10ms"), lags[0]).with_late_tuple_stream("late")
    items = [("a", 1, 15), *cut, ("a", 2, 10), PAUSE, ("a", 3, 16), PAUSE, PAUSE, ("a", 4, 10)]
    found, result = shown(items, bolt, lag=lags[1])
    assert [row[1] for row in found] == [[2], [1, 3]]
    assert [values["n"] for (values,) in result.collected("late")] == [4]


def test_a_window_waits_for_the_lag_of_its_bolt_also_when_an_earlier_one_is_called():
    with BoltHarness(by_time(Shown().with_tumbling_window("10ms"), "5ms"), fields=FIELDS) as bolt:
        for n, at in enumerate((5, 15, 22)):
            bolt.execute(["a", n, at])
        bolt.advance(22)
        bolt.execute(["a", 3, 17])
        bolt.advance(40)
        assert [row.values[1] for row in bolt.emitted] == [[0], [1, 3], [2]]


TIMED = {"window": {"length": "10s", "slide": "5s"}, "timestampField": "at", "unit": "ms"}


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ({"key": ["n"]}, "key nothing; now it is n"),
        ({"window": {"length": "10s", "slide": 2}}, "slide 5000 ms; now it is .* slide 2 tuples"),
        ({"timestampField": "n"}, "timestampField at; now it is n"),
        ({"timestampField": None}, "timestampField at; now it is nothing"),
        ({"window": {"length": "10000ms", "slide": "5s"}, "lag": "3s"}, None),
    ],
)
def test_a_change_is_refused_that_open_windows_do_not_allow(after, said):
    """They would have tuples of both keys, times or windows in them."""
    items = [("a", 1, 1000), PAUSE, ("b", 2, 2000), PAUSE]
    first = shown(items, Shown(), TIMED, batches=2)[1]
    if said is None:
        assert shown(items, Shown(), {**TIMED, **after}, checkpoint=first)[1].errors == []
    else:
        key = after.get("key", ())
        wanted = f"has open windows that were kept with .*{said}"
        with pytest.raises(TopologyFailed, match=wanted) as refused:
            shown(items, Shown(), {**TIMED, **after}, key=key, checkpoint=first)
        assert "Traceback" not in str(refused.value)


def test_what_has_left_its_last_window_is_forgotten_before_a_gap_and_after_a_restart():
    bolt = by_time(Shown().with_window("20ms", "10ms"))
    with BoltHarness(bolt, fields=FIELDS) as harness:
        for n, at in enumerate((5, 500, 501)):
            harness.execute(["a", n, at])
            harness.advance(at)
            harness.restart()
        assert [row.values[1] for row in harness.emitted] == [[0], [0], [1]]
        assert set(harness.state) == {("tuples", (), number) for number in (1, 2, None)}
        assert all(is_of_window(place, value, "") for place, value in harness.state.items())


def test_each_key_has_windows_of_its_own_by_configuration():
    config = {"window": {"length": 2, "slide": 2}, "key": ["user"]}
    items = [("a", 1, 0), ("b", 2, 0), ("b", 3, 0), ("a", 4, 0), ("c", 5, 0)]
    found, _ = shown(items, Shown(), config, tasks=2, key=["user"])
    assert sorted(row[:2] for row in found) == [[["a"], [1, 4]], [["b"], [2, 3]]]


@pytest.mark.parametrize(
    ("window", "windows"),
    [
        (("2s", "2s"), [[1, 2], [3]]),
        (("4s", "2s"), [[1, 2], [2, 3], [3]]),
        ((2, "2s"), [[1, 2], [2, 3]]),
        (("4s", 2), [[1, 2]]),
    ],
)
def test_windows_by_the_clock(window, windows):
    items = [("a", 1, 0), PAUSE, ("a", 2, 0), *[PAUSE] * 5, ("a", 3, 0), *[PAUSE] * 12]
    found, _ = shown(items, Shown().with_window(*window), batch_seconds=0.5)
    distinct = [row[1] for i, row in enumerate(found) if i == 0 or row[1] != found[i - 1][1]]
    assert distinct == windows


def test_there_is_no_watermark_before_each_input_has_had_a_tuple():
    builder = TopologyBuilder()
    one = builder.set_spout("one", ListSpout([("a", 1, 5), PAUSE, ("a", 2, 25)], fields=FIELDS))
    items = [PAUSE, PAUSE, PAUSE, ("a", 3, 1), PAUSE, ("a", 4, 30)]
    other = builder.set_spout("other", ListSpout(items, fields=FIELDS))
    for source in (one, other):
        source.set_event_time("at", unit="ms")
    bolt = by_time(Shown().with_tumbling_window("10ms"))
    builder.set_bolt("windowed", bolt).global_grouping("one").global_grouping("other")
    builder.set_bolt("sink", CollectBolt).global_grouping("windowed")
    found = run(builder).collected("sink")
    assert [row[1] for row in found] == [[3, 1], [2, 4]]


def test_people_are_told_when_the_next_window_is_called_and_what_it_waits_for():
    at = 1_714_564_800_000  # 2024-05-01 12:00:00 UTC
    items = [("a", 1, at + 61_000), ("b", 2, at + 1_000), ("b", 3, at + 130_000)]
    items += [PAUSE] * 9
    builder = TopologyBuilder()
    source = builder.set_spout("source", ListSpout(items, fields=FIELDS))
    source.set_event_time("at", unit="ms")
    windows = by_time(Shown().with_tumbling_window("1m"), lag="5s").with_key("user")
    builder.set_bolt("windowed", windows).fields_grouping("source", ["user"])
    running = make_driver(builder).start()
    for _ in range(3):
        running.step()
    running.close()
    found = running.totals.event_times()["windowed"]
    assert found.why == (
        "'windowed' has something due at 2024-05-01 12:03:05.001 UTC: the watermark is 2024-05-01"
        " 12:02:10 UTC, and it needs a tuple of 'source' with a time of 2024-05-01 12:03:05.001 UTC"
        " or later"
    )
    assert not found.is_stuck


def test_keys_with_windows_are_counted():
    window = by_time(Shown().with_tumbling_window(2)).with_key("user")
    bolt = BoltHarness(window, fields=FIELDS)
    for user in "aab":
        bolt.execute([user, 1, 5])
    bolt.end_batch()
    assert bolt.metrics["open_windows"] == 2


class Raises(Shown):
    kind = ValueError

    def execute(self, window):
        if window.tuples[0]["n"] < 3:
            raise (FailedException if window.tuples[0]["n"] == 2 else self.kind)("no such window")
        super().execute(window)


@pytest.mark.parametrize("kind", [ValueError, SystemExit])
def test_a_window_that_raises_is_reported_and_the_others_are_called(kind, monkeypatch):
    monkeypatch.setattr(Raises, "kind", kind)
    bolt = by_time(Raises().with_tumbling_window("10ms"))
    items = [("a", 1, 5), ("a", 2, 15), ("a", 3, 25)]
    found, result = shown(items, bolt)
    assert [row[1] for row in found] == [[3]]
    assert len(result.errors) == 2
    assert len(result.acked("source")) == 3


class ReturnsRows(Shown):
    def execute(self, window):
        return [[1]]


def later(method):
    """A decorator that does not say what it is around of."""
    return lambda self, window: method(self, window)


class AsyncBehindADecorator(Shown):
    @later
    async def execute(self, window):
        raise AssertionError("nobody awaits it")


@pytest.mark.parametrize(
    ("cls", "said"),
    [(ReturnsRows, "a list, which goes nowhere"), (AsyncBehindADecorator, "a coroutine that")],
)
def test_what_a_window_returns_goes_nowhere_and_is_told(cls, said):
    found, result = shown([("a", 1, 5)], by_time(cls().with_tumbling_window("10ms")))
    assert found == []
    assert f"TypeError: it returned {said}" in result.errors[0].message


class OwnOptions(WindowedOptions):
    factor: int = 1


class Times(WindowedBolt):
    outputs = ("product",)
    config_model = OwnOptions

    def __init__(self):
        self.with_tumbling_window(2)

    def prepare(self, conf, context, collector):
        super().prepare(conf, context, collector)
        self.collector, self.factor = collector, context.options.factor

    def execute(self, window):
        self.collector.emit([sum(tup["n"] for tup in window.tuples) * self.factor])


def test_options_of_ones_own_and_a_window_that_the_class_has_set():
    items = [("a", 1, 0), ("a", 2, 0)]
    assert shown(items, Times(), {"factor": 5})[0] == [[15]]
    assert shown(items, Times(), {"window": {"length": 1}})[0] == [[1], [3 - 1]]


class Declares(WindowedBolt):
    def declare_output_fields(self, declarer):
        declarer.declare(["n"])

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, window):
        self.collector.emit([len(window.tuples)])


def test_streams_may_be_declared_as_in_storm():
    bolt = by_time(Declares().with_tumbling_window("10ms")).with_late_tuple_stream("late")
    items = [("a", 1, 15), PAUSE, PAUSE, ("a", 2, 5)]
    found, result = shown(items, bolt)
    assert (found, len(result.collected("late"))) == ([[1]], 1)


@pytest.mark.parametrize(
    ("bolt", "config", "said"),
    [
        (Shown(), None, ["it has no window: write window"]),
        (Shown().with_window(0), None, ["window.length: it is 0, but must be a number of tuples"]),
        (Shown().with_window("0"), None, ["window.length: it is '0', but must be a number"]),
        (Shown().with_window(2, -1).with_lag("soon"), None, ["window.slide", "lag"]),
        (Shown(), {"window": {"length": 0, "slide": "-1s"}, "key": 3}, ["length", "slide", "key"]),
        (Shown().with_window("30d", "1ms"), None, ["would be in 2,592,000,000 windows of 30d"]),
        (
            Shown().with_window(2).with_lag("1s").with_key("usr"),
            {"lateTupleStream": "late"},
            [
                "lag needs timestampField",
                "lateTupleStream needs timestampField",
                "key: its input has no field 'usr'. It has: user, n, at",
            ],
        ),
        (Shown().with_window(2).with_timestamp_field("t"), None, ["timestampField: its input has"]),
    ],
)
def test_mistakes_are_all_found_before_anything_runs(bolt, config, said):
    with pytest.raises(ValidationFailed) as raised:
        shown([("a", 1, 0)], bolt, config)
    for text in said:
        assert text in str(raised.value)


async def later(self, window):
    """Is async."""


@pytest.mark.parametrize(
    ("name", "method", "said"),
    [
        ("on_timer", lambda self, key, at: None, "can't have a method on_timer"),
        ("end_batch", lambda self: None, "can't have a method end_batch"),
        ("execute", lambda self, window, collector: None, "must be def execute"),
        ("execute", later, "can't be async"),
    ],
)
def test_methods_that_a_windowed_bolt_can_not_have(name, method, said):
    with pytest.raises(TypeError, match=said):
        type("Wrong", (WindowedBolt,), {name: method})
    assert type("Right", (BasicBolt,), {name: method})


# ---- DuckDB says the same

EXTRAS = [(), (), (), (PAUSE,), (PAUSE, PAUSE), (ABORT,)]
EXAMPLES = settings.default.max_examples // 4
EVENTS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(-30, 60)), max_size=12)
ENDS = "SELECT unnest(generate_series(-105, 105, 7)) e"
CASES = {
    "durations": (
        ("20ms", "7ms"),
        f"""SELECT who, list(n ORDER BY t, n) FROM events, ({ENDS})
            WHERE e - 20 < t AND t <= e GROUP BY who, e""",
    ),
    "counts": (
        (3, 2),
        """SELECT who, found FROM (
            SELECT who, row_number() OVER w p, list(n) OVER (w ROWS 2 PRECEDING) found FROM events
            WINDOW w AS (PARTITION BY who ORDER BY t, n)) WHERE p % 2 = 0""",
    ),
    "duration of counts": (
        ("20ms", 2),
        """SELECT a.who, list(b.n ORDER BY b.t, b.n) FROM (
            SELECT *, row_number() OVER (PARTITION BY who ORDER BY t, n) p FROM events) a
            JOIN events b ON a.who = b.who AND a.t - 20 < b.t AND b.t <= a.t
            WHERE p % 2 = 0 GROUP BY a.who, p""",
    ),
    "count of durations": (
        (3, "7ms"),
        f"""SELECT who, list(n ORDER BY t, n) FROM (
            SELECT *, row_number() OVER (PARTITION BY e ORDER BY t DESC, n DESC) p
            FROM events, ({ENDS})
            WHERE t <= e AND e - 7 < (SELECT max(t) FROM events)) WHERE p <= 3 GROUP BY who, e""",
    ),
}


@pytest.mark.parametrize("kind", CASES)
@given(events=EVENTS, is_near=st.booleans(), extra=st.data())
@settings(max_examples=EXAMPLES)
def test_windows_are_those_of_sql(kind, events, is_near, extra):
    """In any order within the lag, with crashes, in batches of any size, on several workers."""
    window, query = CASES[kind]
    is_keyed = kind != "count of durations"  # which goes on as long as any key does
    items = []
    events = [(who if is_keyed else "a", "", at) for who, at in events]
    if is_near:  # then windows end before the last event has come
        events = within(8, events, extra.draw)
    for number, (who, _, at) in enumerate(events):
        items += [(who, number, at), *extra.draw(st.sampled_from(EXTRAS))]
    lag = 8 if is_near else 100
    own = extra.draw(st.integers(0, lag))
    bolt = by_time(Shown().with_window(*window).with_key("user"), f"{own}ms")
    found, result = shown(items, bolt, tasks=2, key=["user"], lag=f"{lag - own}ms", workers=2)
    assert result.errors == []
    rows = [(who, number, at) for number, (who, _, at) in enumerate(events)]
    wanted = sorted(by_sql(query, events=("who TEXT, n BIGINT, t BIGINT", rows)))
    assert sorted((row[0][0], row[1]) for row in found) == wanted


class FailsOnce(BasicBolt):
    """Fails each window once."""

    outputs = ("all",)

    def execute(self, tup, collector):
        if self.state.get(str(tup["all"])) is None:
            self.state[str(tup["all"])] = True
            raise FailedException("not yet")
        collector.emit([tup["all"]])


class Anchored(Shown):
    """As Storm's authors do: the tuples of a window are in no tree here, as they are acked."""

    def execute(self, window):
        numbers = [tup["n"] for tup in window.tuples]
        self.collector.emit([(), numbers, (), (), None, None], anchors=window.tuples)


@pytest.mark.parametrize("cls", [Shown, Anchored])
@pytest.mark.parametrize("is_timed", [False, True])
def test_a_window_that_the_bolt_behind_it_fails_comes_again(cls, is_timed):
    bolt = by_time(cls().with_tumbling_window("10s")) if is_timed else cls().with_tumbling_window(2)
    items = [("a", 1, 1), ("a", 2, 2), PAUSE, ("a", 3, 11_000), ("a", 4, 12_000)]
    builder = TopologyBuilder()
    source = builder.set_spout("source", ListSpout(items, fields=FIELDS))
    source.set_event_time("at", unit="ms")
    builder.set_bolt("windowed", bolt).global_grouping("source")
    builder.set_bolt("fails", FailsOnce).shuffle_grouping("windowed")
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("fails")
    result = run(builder)
    assert sorted(row[0] for row in result.collected("sink")) == [[1, 2], [3, 4]]
    assert (result.trees["failed"], result.trees["acked"]) == (2, 4 + 2)
