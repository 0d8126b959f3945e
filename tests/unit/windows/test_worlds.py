"""Windows in random topologies: several sources, windows behind windows, more and fewer workers.

DuckDB says what comes out of it all: what is not late is in its windows, whatever happens.
"""

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from fulmen import TopologyBuilder
from fulmen.testing import ABORT, PAUSE, CollectBolt, ListSpout, Message, run
from fulmen.windows import Aggregate, WindowJoin
from support.windows.aggregates import EXAMPLES, SUMS, TUMBLING, plain
from support.windows.parted_sources import (
    FIELDS,
    SOURCES,
    SPRING,
    YEAR,
    Files,
    Partitions,
    set_sources,
)
from support.windows.sql_events import by_sql
from support.worlds.windowed_worlds import kind_of, query_of, worlds

MARKS = [(), (), (), (PAUSE,), (PAUSE,), (PAUSE,) * 4, (ABORT,)]
"""What may come behind an event: a batch ends, all is silent, a worker dies."""


@st.composite
def sources(draw):
    """Of each source: its lag, and items, each of a part, none more than the lag behind its part.

    The file may be of last year. There are midnights, of several zones, among their times.
    """
    found, far = {}, draw(st.sampled_from((0, YEAR)))
    since = draw(st.sampled_from((0, 0, SPRING)))
    event(f"the file is {far} ms behind")
    for source in SOURCES:
        lag = draw(st.sampled_from((0, 15, 60)))
        items, newest = [], {}
        for number in range(draw(st.integers(0, 8))):
            part = draw(st.sampled_from("xyz"))
            at = newest.get(part, -60) + draw(st.integers(-lag, 40))
            newest[part] = max(at, newest.get(part, at))
            row = [draw(st.sampled_from("abc")), draw(st.integers(-9, 9)), at]
            row[2] += since - (far if source == "file" else 0)
            items.append(Message(row, msg_id=(part, number)))
            items += draw(st.sampled_from(MARKS))
        found[source] = lag, items
    return found


def of_ten(found, **how):
    """Windows of all sources."""
    b = TopologyBuilder()
    set_sources(b, found, **how)
    bolt = b.set_bolt("ten", Aggregate).set_num_tasks(3).set_config(TEN)
    for source in found:
        bolt.fields_grouping(source, ["user"])
    b.set_bolt("out-ten", CollectBolt).shuffle_grouping("ten")
    b.set_bolt("late", CollectBolt).shuffle_grouping("ten", "late")
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


TEN = {"key": ["user"], "window": TUMBLING, "time": "at", "unit": "ms", "aggregates": SUMS}
TEN_SQL = """
    SELECT who, s, s + 10, count(*), sum(amount)::BIGINT
    FROM (SELECT *, floor(t / 10.0)::BIGINT * 10 s FROM events) GROUP BY who, s"""


@given(found=sources(), extra=st.data())
@settings(max_examples=max(EXAMPLES, 6))
def test_windows_and_joins_behind_each_other_in_any_topology_are_those_of_sql(found, extra):
    """With crashes, restarts and other workers; nothing is late behind another one."""
    tables = {
        source: ("who TEXT, n BIGINT, t BIGINT", [row[1:] for row in events_of({source: items})])
        for source, items in found.items()
    }
    parts = worlds(extra.draw, tables)
    b = TopologyBuilder()
    tasks = extra.draw(st.sampled_from((1, 2, 5)))
    set_sources(b, found, tasks, extra.draw(st.sampled_from((Files, Partitions))))
    late = b.set_bolt("late", CollectBolt)
    bolts = [part for part in parts if part.cls is not None]
    for part in bolts:
        event(f"{part.cls.__name__} behind {' and '.join(sorted(kind_of(p) for p in part.froms))}")
        bolt = b.set_bolt(part.name, part.cls).set_num_tasks(2).set_config(part.config)
        for of in part.froms:
            bolt.fields_grouping(of.name, [of.names[0]])
        b.set_bolt(f"out-{part.name}", CollectBolt).shuffle_grouping(part.name)
        late.shuffle_grouping(part.name, "late")
    result = lived(b, extra.draw)
    assert result.collected("late") == []
    for part in bolts:
        rows = [tuple(map(plain, r)) for r in part.final(result.collected(f"out-{part.name}"))]
        wanted = by_sql(query_of(parts, part), **tables)
        assert sorted(rows, key=str) == sorted(wanted, key=str), part


def test_what_an_exhausted_source_leaves_in_windows_is_in_time_for_a_join_with_another_one():
    """The other one goes on alone, beyond the end of a window that nothing else would end."""
    b = TopologyBuilder()
    file = [["a", 1, 10], PAUSE, PAUSE, ["a", 1, 50], PAUSE, PAUSE, PAUSE, ["a", 1, 60]]
    for name, items in (("live", [["a", 2, 5]]), ("file", file)):
        b.set_spout(name, ListSpout(items, fields=FIELDS)).set_event_time("at", unit="ms")
    b.set_bolt("ten", Aggregate).set_config(TEN).fields_grouping("live", ["user"])
    left = {"from": "ten", "time": "window_end", "fields": ["total"]}
    sides = {"left": left, "right": {"from": "file", "time": "at", "fields": ["at"]}}
    join = b.set_bolt("join", WindowJoin)
    join.set_config({"key": ["user"], "unit": "ms", "window": TUMBLING, **sides})
    join.fields_grouping("ten", ["user"]).fields_grouping("file", ["user"])
    b.set_bolt("out-join", CollectBolt).shuffle_grouping("join")
    b.set_bolt("late", CollectBolt).shuffle_grouping("join", "late")
    result = run(b)
    assert result.collected("late") == []
    assert rows_of(result, "join") == [(2, 10, 10, 20)]


@given(found=sources(), extra=st.data())
@settings(max_examples=max(EXAMPLES // 2, 4))
def test_what_is_not_late_is_in_its_window_if_parts_that_are_idle_hold_nothing(found, extra):
    """They come back below the watermark, which may go on with the clock meanwhile."""
    advance = extra.draw(st.booleans())
    how = {"kind": Partitions, "idle_timeout": "2s", "advance": advance}
    tasks = extra.draw(st.sampled_from((1, 2, 5)))
    result = lived(of_ten(found, tasks=tasks, **how), extra.draw, batch_seconds=1.0)
    events = [row[1:] for row in events_of(found)]
    late = [tuple(row[0].values()) for row in result.collected("late")]
    event(f"advance: {advance}; {'some' if late else 'none'} are late")
    for row in late:
        events.remove(row)
    wanted = by_sql(TEN_SQL, events=("who TEXT, amount BIGINT, t BIGINT", events))
    assert rows_of(result, "ten") == sorted(wanted)


class Live(Partitions):
    """Never says that nothing will come."""

    def is_exhausted(self):
        return False


@pytest.mark.parametrize(("advance", "windows"), [(False, []), (True, [("a", 0, 10, 1, 3)])])
def test_the_last_window_of_a_live_source_ends_if_event_time_goes_on(advance, windows):
    found = {"live": (15, [Message(["a", 3, 5], msg_id=("x", 0))])}
    how = {"kind": Live, "idle_timeout": "2s", "advance": advance}
    result = run(of_ten(found, **how), batch_seconds=1.0, batches=9)
    assert rows_of(result, "ten") == windows
