"""Topologies of an `Aggregate`, what they emit, and what DuckDB says of the same events."""

from datetime import UTC, datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st

from fulmen import TopologyBuilder
from fulmen.testing import ABORT, PAUSE, CollectBolt, ListSpout, run
from fulmen.windows import Aggregate
from fulmen.windows.spans import WHOLE
from support.windows.sql_events import by_sql

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIELDS = ["user", "amount", "at"]
COUNT = {"n": "count"}
SUMS = {"n": "count", "total": "sum(amount)"}
FILTERED = SUMS | {
    "big": "count filter (where amount > 2)",
    "low": "sum(amount) FILTER (WHERE amount < 0 and user <> 'b')",
}


def topology(
    items,
    window,
    *,
    lag="0",
    cls=Aggregate,
    aggregates=SUMS,
    key=("user",),
    is_grouped=True,
    replays=True,
    is_timed=True,
    tasks=2,
    **config,
):
    builder = TopologyBuilder()
    spout = builder.set_spout("source", ListSpout(items, fields=FIELDS, replays=replays))
    if is_timed:
        spout.set_event_time("at", unit="ms", lag=lag)
    config = {"time": "at", "unit": "ms", "aggregates": aggregates, **config}
    bolt = builder.set_bolt("windows", cls, tasks).set_config(
        {"key": list(key), "window": window, **config}
    )
    if key and is_grouped:
        bolt.fields_grouping("source", list(key))
    else:
        bolt.global_grouping("source")
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("windows")
    builder.set_bolt("late", CollectBolt).shuffle_grouping("windows", "late")
    return builder


def results(items, window, **options):
    """What was emitted, with times as milliseconds, and what was late."""
    runs = {name: options.pop(name) for name in ("workers", "batch_seconds") if name in options}
    result = run(topology(items, window, **options), **runs)
    assert result.errors == []
    found = [tuple(map(plain, row)) for row in result.collected("sink")]
    late = [(row[0]["at"], *map(plain, row[1:])) for row in result.collected("late")]
    return found, late


def plain(value):
    if isinstance(value, datetime):
        assert value.tzinfo is UTC
        return (value - EPOCH) // timedelta(milliseconds=1)
    return value


TUMBLING = {"type": "tumbling", "size": "10ms"}
SESSION = {"type": "session", "gap": "10ms"}

EXTRAS = [(), (), (), (), (PAUSE,), (PAUSE,), (PAUSE, PAUSE), (ABORT,)]
EXAMPLES = settings.default.max_examples // 4
EVENTS = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(-9, 9), st.integers(-100, 300)), max_size=14
)


def within(lag, events, draw):
    """The same events in another order: none comes after one that is more than `lag` later.

    Args:
        lag: In the unit of their times.
        events: With the time as the third of their values.
        draw: Of hypothesis.
    """
    keys = [event[2] + draw(st.integers(0, 8)) * lag // 8 for event in events]
    order = sorted(range(len(events)), key=keys.__getitem__)
    return [events[i] for i in order]


WINDOWS = {
    "tumbling": ({"type": "tumbling", "size": "20ms", "offset": "3ms"}, None),
    "sliding": ({"type": "sliding", "size": "30ms", "every": "7ms"}, None),
    "cumulative": ({"type": "cumulative", "size": "30ms", "every": "10ms", "offset": "3ms"}, None),
    "session": ({"type": "session", "gap": "15ms"}, None),
    "global": ({"type": "global"}, None),
    "calendar": ({"type": "calendar", "unit": "day", "timezone": "Asia/Kolkata"}, 3_600_000),
}
SQL = {
    "global": f"""
        SELECT who, {WHOLE[0]}::BIGINT, {WHOLE[1]}::BIGINT, count(*), sum(amount), <more>
        FROM events GROUP BY who""",
    "tumbling": """
        SELECT who, s, s + 20, count(*), sum(amount), <more> FROM (
            SELECT *, (floor((t - 3) / 20.0) * 20 + 3)::BIGINT s FROM events) GROUP BY ALL""",
    "sliding": """
        SELECT who, s, s + 30, count(*), sum(amount), <more> FROM events,
            (SELECT unnest(generate_series(-210, 350, 7)) s)
        WHERE s <= t AND t < s + 30 GROUP BY ALL""",
    "cumulative": """
        SELECT who, s, e, count(*), sum(amount), <more> FROM (
            SELECT *, (floor((t - 3) / 30.0) * 30 + 3)::BIGINT s FROM events),
            (SELECT unnest([10, 20, 30]) part), LATERAL (SELECT s + part e)
        WHERE t < e GROUP BY ALL""",
    "session": """
        SELECT who, min(t), max(t) + 15, count(*), sum(amount), <more> FROM (
            SELECT *, sum(begins) OVER (PARTITION BY who ORDER BY t, id) session FROM (
                SELECT *, CASE WHEN t - lag(t) OVER (PARTITION BY who ORDER BY t, id) <= 15
                    THEN 0 ELSE 1 END begins FROM events))
        GROUP BY who, session""",
    "calendar": """
        SELECT who, s, s + 86400000, count(*), sum(amount), <more> FROM (
            SELECT *, (floor((t + 19800000) / 86400000.0) * 86400000 - 19800000)::BIGINT s
            FROM events) GROUP BY ALL""",
}


def by_duckdb(kind, events):
    more = (
        "count(*) FILTER (WHERE amount > 2), sum(amount) FILTER (WHERE amount < 0 AND who <> 'b')"
    )
    query = SQL[kind].replace("<more>", more)
    rows = [(number, *event) for number, event in enumerate(events)]
    return sorted(by_sql(query, events=("id BIGINT, who TEXT, amount BIGINT, t BIGINT", rows)))
