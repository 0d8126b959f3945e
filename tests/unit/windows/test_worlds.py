"""Windows in random topologies: several sources, windows behind windows, more and fewer workers.

DuckDB says what comes out of it all: what is not late is in its windows, whatever happens.
"""

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from fulmen import TopologyBuilder
from fulmen.testing import ABORT, PAUSE, CollectBolt, ListSpout, Message, run
from fulmen.windows import Aggregate
from support.aggregates import EXAMPLES, TUMBLING, plain
from support.sql_events import by_sql

FIELDS = ["user", "amount", "at"]
YEAR = 365 * 86_400_000
SOURCES = ("live", "file")
MARKS = [(), (), (), (PAUSE,), (PAUSE,), (PAUSE,) * 4, (ABORT,)]
"""What may come behind an event: a batch ends, all is silent, a worker dies."""


class Files(ListSpout):
    """What is in parts of a source, each of which one task reads: some tasks may have none."""

    def open(self, conf, context, collector):
        super().open(conf, context, collector)
        n, part, mine = len(context.tasks(context.component)), "x", []
        for i, item in enumerate(self._items):
            part = item.msg_id[0] if isinstance(item, Message) else part
            if "xyz".index(part) % n == context.task_index:
                mine.append(i)
        self._mine, self._place = mine, {self._msg_id(i): i for i in mine}

    def part_of(self, msg_id):
        return msg_id[0]

    def unread_parts(self):
        left = [self._items[i] for i in self._mine[self._at :]]
        return sorted({item.msg_id[0] for item in left if isinstance(item, Message)})


class Partitions(Files):
    """The same, of parts without an end."""

    parts_end = False


@st.composite
def sources(draw):
    """Of each source: its lag, and items, each of a part, none more than the lag behind its part.

    The file may be of last year.
    """
    found, far = {}, draw(st.sampled_from((0, YEAR)))
    event(f"the file is {far} ms behind")
    for source in SOURCES:
        lag = draw(st.sampled_from((0, 15, 60)))
        items, newest = [], {}
        for number in range(draw(st.integers(0, 8))):
            part = draw(st.sampled_from("xyz"))
            at = newest.get(part, -60) + draw(st.integers(-lag, 40))
            newest[part] = max(at, newest.get(part, at))
            row = [draw(st.sampled_from("abc")), draw(st.integers(-9, 9)), at]
            row[2] -= far if source == "file" else 0
            items.append(Message(row, msg_id=(part, number)))
            items += draw(st.sampled_from(MARKS))
        found[source] = lag, items
    return found


def builder(found, bolts, *, tasks=1, kind=Files, **event_time):
    """The sources, and windows behind each other: name -> (what it receives, its config)."""
    b = TopologyBuilder()
    for source, (lag, items) in found.items():
        spout = b.set_spout(source, kind(items, fields=FIELDS), tasks)
        spout.set_event_time("at", unit="ms", lag=f"{lag}ms", **event_time)
    late = b.set_bolt("late", CollectBolt)
    for name, (froms, config) in bolts.items():
        bolt = b.set_bolt(name, Aggregate).set_num_tasks(3).set_config(config)
        for source in froms:
            bolt.fields_grouping(source, config["key"])
        b.set_bolt(f"out-{name}", CollectBolt).shuffle_grouping(name)
        late.shuffle_grouping(name, "late")
    return b


def lived(b, draw, **how):
    """The result of a topology, which is stopped anywhere, and goes on with other workers."""
    result = None
    for batches in [*draw(st.lists(st.integers(1, 6), max_size=2)), None]:
        workers = draw(st.integers(1, 3))
        event(f"{'at last' if batches is None else 'at first'} with {workers} workers")
        result = run(b, checkpoint=result, workers=workers, batches=batches, **how)
        assert result.errors == []
    return result


def rows_of(result, name):
    return sorted(tuple(map(plain, row)) for row in result.collected(f"out-{name}"))


def events_of(found):
    return [
        (source, *item.values)
        for source, (_, items) in found.items()
        for item in items
        if isinstance(item, Message)
    ]


TIMES = {"time": "at", "unit": "ms"}
CASCADE = {
    "ten": (SOURCES, {"key": ["user"], "window": TUMBLING, **TIMES}),
    "thirty": (["ten"], {"key": ["user"], "window": {"type": "tumbling", "size": "30ms"}}),
    "all": (["thirty"], {"key": ["n"], "window": {"type": "tumbling", "size": "60ms"}}),
}
GIVES = {
    "ten": {"n": "count", "total": "sum(amount)"},
    "thirty": {"n": "count", "total": "sum(total)"},
    "all": {"users": "count", "total": "sum(total)"},
}
CASCADE_SQL = """
WITH ten AS (
    SELECT who, floor(t / 10.0) * 10 s, count(*) n, sum(amount) total FROM events GROUP BY ALL),
thirty AS (
    SELECT who, floor(s / 30.0) * 30 s, count(*) n, sum(total) total FROM ten GROUP BY ALL),
over AS (
    SELECT n, floor(s / 60.0) * 60 s, count(*) users, sum(total) total FROM thirty GROUP BY ALL)
SELECT NAME, s::BIGINT, s::BIGINT + SIZE, N, total::BIGINT FROM FROM_
"""


def by_duckdb(name, events):
    names = {"ten": ("who", "10", "n"), "thirty": ("who", "30", "n"), "all": ("n", "60", "users")}
    key, size, number = names[name]
    query = CASCADE_SQL.replace("FROM_", "over" if name == "all" else name)
    query = query.replace("NAME", key).replace("SIZE", size).replace("N,", f"{number},")
    columns = "source TEXT, who TEXT, amount BIGINT, t BIGINT"
    return sorted(by_sql(query, events=(columns, events)))


def cascade():
    """Three windows in a row, each of what the one before it has emitted."""
    found = {}
    for name, (froms, config) in CASCADE.items():
        more = {} if name == "ten" else {"time": "window_start"}
        found[name] = froms, {**config, **more, "aggregates": GIVES[name]}
    return found


@given(found=sources(), extra=st.data())
@settings(max_examples=max(EXAMPLES // 2, 4))
def test_windows_of_windows_of_windows_are_those_of_sql(found, extra):
    """Of two sources with lags of their own, with more tasks than parts, whatever is lost."""
    tasks, kind = (
        extra.draw(st.sampled_from((1, 2, 5))),
        extra.draw(st.sampled_from((Files, Partitions))),
    )
    result = lived(builder(found, cascade(), tasks=tasks, kind=kind), extra.draw)
    events = events_of(found)
    assert result.collected("late") == []
    for name in CASCADE:
        assert rows_of(result, name) == by_duckdb(name, events)


@given(found=sources(), extra=st.data())
@settings(max_examples=max(EXAMPLES // 2, 4))
def test_what_is_not_late_is_in_its_window_if_parts_that_are_idle_hold_nothing(found, extra):
    """They come back below the watermark, which may go on with the clock meanwhile."""
    advance = extra.draw(st.booleans())
    how = {"kind": Partitions, "idle_timeout": "2s", "advance": advance}
    tasks = extra.draw(st.sampled_from((1, 2, 5)))
    bolts = {"ten": cascade()["ten"]}
    result = lived(builder(found, bolts, tasks=tasks, **how), extra.draw, batch_seconds=1.0)
    events = [row[1:] for row in events_of(found)]
    late = [tuple(row[0].values()) for row in result.collected("late")]
    event(f"advance: {advance}; {'some' if late else 'none'} are late")
    for row in late:
        events.remove(row)
    assert rows_of(result, "ten") == by_duckdb("ten", [("", *row) for row in events])


class Live(Partitions):
    """Never says that nothing will come."""

    def is_exhausted(self):
        return False


@pytest.mark.parametrize(("advance", "windows"), [(False, []), (True, [("a", 0, 10, 1, 3)])])
def test_the_last_window_of_a_live_source_ends_if_event_time_goes_on(advance, windows):
    found = {"live": (15, [Message(["a", 3, 5], msg_id=("x", 0))])}
    bolts = {"ten": (["live"], {**CASCADE["ten"][1], "aggregates": GIVES["ten"]})}
    how = {"kind": Live, "idle_timeout": "2s", "advance": advance}
    result = run(builder(found, bolts, **how), batch_seconds=1.0, batches=9)
    assert rows_of(result, "ten") == windows
