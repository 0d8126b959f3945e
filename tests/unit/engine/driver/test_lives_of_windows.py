"""Windows, joins, timers, letters and a sink's rows through a life of crashes and other numbers."""

import itertools
import pickle
import sqlite3
from collections import Counter
from datetime import UTC, datetime, timedelta

from hypothesis import example, given, settings
from hypothesis import strategies as st

from fulmen import BasicBolt, TopologyBuilder
from fulmen.connectors.sqlite import SqliteSink
from fulmen.engine.driver.driver import Stop
from fulmen.engine.state.committed_state import read_state, read_timers
from fulmen.engine.state.letters.kept_letters import read_letters
from fulmen.engine.worker.in_process import Crash
from fulmen.testing import CollectBolt, ListSpout, run
from fulmen.windows import WindowJoin
from fulmen.windows.aggregate.bolt import Aggregate
from fulmen.windows.deduplicate import Deduplicate
from support.runs.engine_runs import make_driver, new_store

START = datetime(2026, 1, 1, tzinfo=UTC)
WINDOW = 20
KEYS = [f"k{i}" for i in range(9)]
FIELDS = ["key", "n", "at"]


class Timed(BasicBolt):
    """Keeps the last number of a key, for very long, with a timer; refuses some numbers."""

    state_ttl = "1000d"
    transient = ("context",)

    def prepare(self, conf, context):
        self.context = context

    def execute(self, tup, collector):
        key, n, _ = tup.values
        if n % 7 == 3:
            raise ValueError(f"number {n} is refused")
        self.state[key] = n
        self.context.timers.set_after(("wake", key), 1e7)

    def on_timer(self, key, at, collector):
        raise AssertionError("none is due")


class Life:
    """A topology, and what it is to have."""

    def __init__(self, path):
        self.path, self.store = path, new_store()
        self.rows, self.tasks = [], 2

    def topology(self, tasks):
        builder = TopologyBuilder("life", max_replays=0, max_spout_pending=9)
        source = builder.set_spout("source", ListSpout(self.rows, fields=FIELDS))
        source.set_event_time("at")
        builder.set_bolt("timed", Timed, tasks).fields_grouping("source", ["key"])
        window = {"type": "tumbling", "size": f"{WINDOW}s"}
        windows = builder.set_bolt("windows", Aggregate, tasks).fields_grouping("source", ["key"])
        windows.set_config(
            {"key": ["key"], "window": window, "aggregates": {"n": "count()"}, "emit": "final"}
        )
        unique = builder.set_bolt("unique", Deduplicate, tasks).fields_grouping("source", ["key"])
        unique.set_config({"id": ["key"], "time": "at", "horizon": "1000d", "fields": FIELDS})
        join = builder.set_bolt("join", WindowJoin, tasks).fields_grouping("source", ["key"])
        join.fields_grouping("unique", ["key"]).set_config(
            {
                "key": ["key"],
                "left": {"from": "source", "fields": ["key", "n"]},
                "right": {"from": "unique", "fields": {"first": "n"}, "time": "at"},
                "window": window,
                "type": "left",
            }
        )
        builder.set_bolt("pairs", CollectBolt).global_grouping("join")
        sink = builder.set_bolt("sink", SqliteSink, tasks).fields_grouping("windows", ["key"])
        sink.set_config(
            {
                "path": self.path,
                "table": "counts",
                "create": {"key": "TEXT", "n": "INTEGER"},
                "columns": {"key": "key", "n": "n"},
                "guarantee": "exactly-once",
            }
        )
        return builder.build().with_each(lambda one: {"num_tasks": one.tasks})

    def bring(self, keys):
        for key in keys:
            n = len(self.rows)
            self.rows = [*self.rows, [key, n, START + timedelta(seconds=n)]]

    # What happens

    def feed(self, keys, tasks):
        """Go on after a restart, with so many tasks."""
        self.bring(keys)
        run(self.topology(tasks), checkpoint=self.store, end_of_input=False)

    def crash(self, keys, tasks, at):
        self.bring(keys)
        calls = itertools.count()

        def fault(*_):
            if next(calls) == at:
                raise Crash

        run(self.topology(tasks), checkpoint=self.store, end_of_input=False, fault=fault)

    def live(self, keys, tasks, then, dies):
        """Change the number of tasks while it runs; with `dies`, lose the driver after a step."""
        self.bring(keys)
        driver = make_driver(self.topology(tasks), store=self.store).start()
        stop = Stop(topology=self.topology(then), more_may_come=True)
        for step in itertools.count():
            if step == dies:  # as by kill -9: nothing is closed, and another one goes on
                break
            driver.follow(stop)
            driver.step()
            if stop.topology is None:
                driver.run(Stop(when_drained=True, more_may_come=True))
                driver.close()
                break

    # What is there

    def check(self):
        accepted = {key: n for key, n, _ in self.rows if n % 7 != 3}
        by_task = read_state(self.store, "timed").tasks
        found = [item for of_one in by_task.values() for item in of_one.items()]
        assert sorted(found) == sorted(accepted.items())
        timers = Counter(
            key for of in read_timers(self.store, "timed").tasks.values() for key in of
        )
        wanted = [(what, key) for key in accepted for what in ("wake", "__state_ttl")]
        assert timers == Counter(wanted)
        letters = read_letters(self.store).letters
        assert sorted(pickle.loads(one.letter.data)[0][1] for one in letters) == [
            n for _, n, _ in self.rows if n % 7 == 3
        ]

    def end(self):
        self.rows = [*self.rows, ["k0", len(self.rows) + 1, START + timedelta(days=1)]]
        result = run(self.topology(3), checkpoint=self.store, end_of_input=True)
        windows = Counter(
            (key, (at - START) // timedelta(seconds=WINDOW)) for key, _, at in self.rows
        )
        with sqlite3.connect(self.path) as db:
            there = db.execute("SELECT key, n FROM counts").fetchall()
        wanted = Counter((key, n) for (key, _), n in windows.items())
        assert (Counter(there) - wanted, wanted - Counter(there)) == ({}, {})
        first = {}
        for key, n, at in self.rows:
            first.setdefault(key, (n, (at - START) // timedelta(seconds=WINDOW)))
        pairs = Counter(tuple(row[:3]) for row in result.collected("pairs"))
        wanted = Counter()
        for key, n, at in self.rows:
            number, window = first[key]
            is_there = window == (at - START) // timedelta(seconds=WINDOW)
            wanted[key, n, number if is_there else None] += 1
        assert pairs == wanted


SOME = st.lists(st.sampled_from(KEYS), min_size=1, max_size=12)
N = st.integers(1, 4)
STEPS = st.one_of(
    st.tuples(st.just("feed"), SOME, N),
    st.tuples(st.just("crash"), SOME, N, st.integers(0, 20)),
    st.tuples(st.just("live"), SOME, N, N, st.integers(0, 9)),
)


@settings(max_examples=2, deadline=None)
@given(st.lists(STEPS, min_size=2, max_size=4))
@example([("feed", KEYS, 1), ("live", KEYS * 2, 1, 3, 99), ("crash", KEYS, 2, 5)])
@example([("live", KEYS * 3, 2, 4, 3), ("live", KEYS, 4, 1, 5)])
def test_everything_is_as_if_nothing_had_happened(tmp_path_factory, steps):
    life = Life(str(tmp_path_factory.mktemp("life") / "counts.db"))
    life.feed(KEYS, 2)
    for name, *arguments in steps:
        getattr(life, name)(*arguments)
    life.feed(["k0"], 2)
    life.check()
    life.end()
