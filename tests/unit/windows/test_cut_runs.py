"""The same events, cut into runs over one checkpoint: what comes out does not depend on the cuts.

DuckDB says what comes out of all events, and what would if no more came than a run has read.
"""

from collections import Counter
from unittest import mock

from hypothesis import event, given, settings
from hypothesis import strategies as st

from fulmen import TopologyBuilder
from fulmen.api.components.sinks import Sink
from fulmen.engine.driver.checkpoints.committer import CommitWriter
from fulmen.engine.worker.in_process import Crash
from fulmen.testing import PAUSE, CollectBolt, Message, run
from fulmen.windows import Aggregate
from support.lives.chaos import Chaos, DriverDied
from support.runs.engine_runs import new_store
from support.windows.aggregates import EXAMPLES, plain
from support.windows.parted_sources import SOURCES, SPRING, YEAR, Files, Partitions, set_sources
from support.windows.sql_events import by_sql
from support.worlds.windowed_worlds import kind_of, query_of, worlds

GIVEN = {}
"""Name of a part -> how often each row was written."""


class Written(Sink):
    """Counts what it is given: each row is one more."""

    appends = True

    def prepare(self, conf, context):
        self._rows = GIVEN.setdefault(context.sources[0][0], Counter())

    transient = ("_rows",)

    def write(self, rows, mark):
        self._rows.update(tuple(map(plain, row)) for row in rows)


TABLES = {}
"""Name of a part -> its table: key -> row. A key that has nulls replaces none, as in SQL."""


class Table(Sink):
    """Replaces rows by their keys."""

    def prepare(self, conf, context):
        self.key_fields, name = conf["fields"], context.sources[0][0]
        self._table = TABLES.setdefault(name, {})

    key_fields, transient = (), ("_table", "key_fields")

    def encode(self, rows):
        at = [rows.fields.index(name) for name in self.key_fields]
        return [(tuple(row[i] for i in at), tuple(map(plain, row))) for row in rows]

    def deletion(self, item):
        return item[0], None

    def write(self, rows, mark):
        for key, row in rows:
            if row is None:
                self._table.pop(key, None)
            else:
                self._table[key] = [*(self._table.get(key, ()) if None in key else ()), row]


def key_of(part):
    """The key of a part's table: a session that begins earlier has another one."""
    return [*part.outputs] if part.cls is not Aggregate else [part.outputs[0], "window_start"]


@st.composite
def cut_sources(draw):
    """Of each source: its lag, its items, and how many of them each run has.

    The first run has something of each part: of a part that is not there yet nobody knows.
    """
    found, far = {}, draw(st.sampled_from((0, YEAR)))
    since, parts = draw(st.sampled_from((0, SPRING))), draw(st.sampled_from(("x", "xyz")))
    runs = draw(st.integers(2, 4))
    for source in SOURCES:
        lag = draw(st.sampled_from((0, 15, 60)))
        items, newest, first = [], {}, 0
        for number in range(draw(st.integers(0, 8))):
            part = draw(st.sampled_from(parts))
            at = newest.get(part, -60) + draw(st.integers(-lag, 40))
            if part not in newest:
                first = len(items) + 1
            newest[part] = max(at, newest.get(part, at))
            row = [draw(st.sampled_from("abc")), draw(st.integers(-9, 9)), at]
            row[2] += since - (far if source == "file" else 0)
            items.append(Message(row, msg_id=(part, number)))
            items += draw(st.sampled_from([(), (), (PAUSE,)]))
        cuts = [draw(st.integers(first, len(items))) for _ in range(runs - 1)]
        found[source] = lag, items, [*sorted(cuts), len(items)]
    return found, Files if parts == "x" else Partitions


def tables_of(found, number):
    """What DuckDB has of the first runs."""
    columns = "who TEXT, n BIGINT, t BIGINT"
    return {
        source: (columns, [i.values for i in items[: cuts[number]] if isinstance(i, Message)])
        for source, (_, items, cuts) in found.items()
    }


def topology(found, kind, parts, number, tasks, sink):
    """The topology of a run, whose sources end where it does."""
    b = TopologyBuilder()
    some = {source: (lag, items[: cuts[number]]) for source, (lag, items, cuts) in found.items()}
    set_sources(b, some, tasks, kind)
    late = b.set_bolt("late", CollectBolt)
    for part in parts:
        bolt = b.set_bolt(part.name, part.cls).set_num_tasks(2).set_config(part.config)
        for of in part.froms:
            bolt.fields_grouping(of.name, [of.names[0]])
        b.set_bolt(f"out-{part.name}", CollectBolt).shuffle_grouping(part.name)
        b.set_bolt(f"sink-{part.name}", sink).global_grouping(part.name)
        table = b.set_bolt(f"table-{part.name}", Table).set_num_tasks(tasks)
        table.set_config({"fields": key_of(part)}).fields_grouping(part.name, [part.outputs[0]])
        late.shuffle_grouping(part.name, "late")
    return b


def follows_from_the_rows(part):
    """Whether a part's rows of some events are what SQL says of these, early results included."""
    waits = (part.config or {}).get("emit") == "final"  # it has none
    return not (part.last_of or waits) and all(map(follows_from_the_rows, part.froms))


def killed_and_repeated(b, store, fault, **how):
    """The result of a run that was killed, and began again, as often as a fault says."""
    while True:
        try:
            with mock.patch.object(CommitWriter, "collect", CommitWriter._collect_quietly):
                return run(b, checkpoint=store, fault=fault, **how)
        except (DriverDied, Crash):
            event("a run was killed")


@given(found=cut_sources(), extra=st.data())
@settings(max_examples=max(EXAMPLES, 6))
def test_windows_and_joins_behind_each_other_are_the_same_however_events_are_cut_into_runs(
    found, extra
):
    """Early results are what SQL says of what was read, once; the last run ends it for good.

    A table with keys has no other rows after each run.
    """
    found, kind = found
    runs = len(found["live"][2])
    everything = tables_of(found, runs - 1)
    parts = worlds(extra.draw, everything)
    bolts, tasks = [part for part in parts if part.cls], extra.draw(st.sampled_from((1, 2, 5)))
    for part in bolts:
        event(f"{part.cls.__name__} behind {' and '.join(sorted(map(kind_of, part.froms)))}")
    store, valid = new_store(), {part.name: Counter() for part in bolts}
    chaos = Chaos(extra.draw(st.integers(0, 10**6)), extra.draw(st.sampled_from((0, 0, 3))), 0.03)
    # By a fourth one a tuple might be blamed.
    is_calm = not chaos.left
    GIVEN.clear()
    TABLES.clear()
    for number in range(runs):
        b = topology(found, kind, bolts, number, tasks, Written)
        ends, workers = number == runs - 1, extra.draw(st.integers(1, 3))
        given_before = {name: Counter(rows) for name, rows in GIVEN.items()}
        result = killed_and_repeated(b, store, chaos.fault, end_of_input=ends, workers=workers)
        assert result.errors == []
        is_same = number and tables_of(found, number) == tables_of(found, number - 1)
        for part in filter(follows_from_the_rows, bolts):
            if is_calm and is_same:
                assert GIVEN.get(part.name) == given_before.get(part.name), "given once"
            now = Counter(by_sql(query_of(parts, part), **tables_of(found, number)))
            valid[part.name] |= now
            rows = Counter()
            for row, n in GIVEN.get(part.name, Counter()).items():
                of = dict(zip(part.outputs, row, strict=True))
                rows[tuple(of[name] for name in part.names)] += n
            assert not valid[part.name] - rows, "all that would come was given"
            assert rows.keys() == valid[part.name].keys(), "nothing else was given"
            there = [row for some in TABLES.get(part.name, {}).values() for row in some]
            of = [part.outputs.index(name) for name in part.names]
            assert {tuple(row[i] for i in of) for row in there} == now.keys(), (
                "the table",
                part.name,
                there,
                now,
                number,
            )
    assert result.collected("late") == []
    for part in bolts:
        rows = [tuple(map(plain, r)) for r in part.final(result.collected(f"out-{part.name}"))]
        assert sorted(rows, key=str) == sorted(by_sql(query_of(parts, part), **everything), key=str)
