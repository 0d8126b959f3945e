"""Other numbers of tasks in transactional topologies: each row counts once in maps and state."""

import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

from fulmen import BasicBolt, BatchBolt, Committer, TransactionalTopologyBuilder
from fulmen.engine.state.committed_state import read_state
from fulmen.services.pools import close_all
from fulmen.transactional import SqliteMap, plus
from fulmen.transactional.conformance import context_of
from fulmen.windows import TransactionDeduplicate
from support.suite import seeds
from support.worlds.troubled_parts import SPOUTS, trouble
from support.worlds.troubled_world import World

WORLDS = settings.default.max_examples // 6
NAMES = ("pass", "count", "read", "once", "first")


class Pass(BasicBolt):
    """Counts rows in its state, and passes them on."""

    outputs = ("tx", "row")

    def prepare(self, conf, context):
        self.conf = conf

    def execute(self, tup, collector):
        trouble(self.conf).may("execute of pass")
        self.state[tup[1]] = self.state.get(tup[1], 0) + 1
        collector.emit(list(tup.values))


class Count(BatchBolt, Committer):
    """Counts rows in a map, and in its state."""

    outputs = ("tx", "row", "count")

    def prepare(self, conf, context, collector, attempt):
        self.outside, self.collector, self.attempt = trouble(conf), collector, attempt
        self.outside.may("prepare")
        self.map, self.partials = made(conf, "counts", context), Counter()

    def execute(self, tup):
        self.outside.may("execute")
        self.partials[tup[1]] += 1

    def finish_batch(self):
        for row, n in self.partials.items():
            self.state[row] = self.state.get(row, 0) + n
        for row, count in self.map.update(self.attempt, self.partials, plus).items():
            self.collector.emit([self.attempt, row, count])
        self.outside.may("finish_batch")


class Read(Count):
    """Behind it: what it is told is in the map, and it puts it into another one."""

    def prepare(self, conf, context, collector, attempt):
        super().prepare(conf, context, collector, attempt)
        self.counts, self.map, self.told = self.map, made(conf, "reads", context), {}

    def execute(self, tup):
        self.outside.may("execute")
        self.told[tup[1]] = tup[2]

    def finish_batch(self):
        assert self.counts.get_many(self.told, after=self.attempt) == self.told
        self.map.put(self.attempt, self.told)
        self.outside.may("finish_batch")


def made(conf, name, context):
    rule = "opaque" if conf["opaque"] else "transactional"
    return SqliteMap(conf["file"], name, context, rule=rule, value="integer")


class CountFirst(Count):
    """Counts rows of which only the first should come."""

    def prepare(self, conf, context, collector, attempt):
        super().prepare(conf, context, collector, attempt)
        self.map = made(conf, "firsts", context)


class Rescaled(World):
    """One whose numbers of tasks change with each driver, and while one runs."""

    def __init__(self, seed, kind, folder):
        super().__init__(seed, kind)
        self.file, self.is_opaque = str(Path(folder, "x.db")), kind == "opaque"

    def topology(self):
        choose = self.choose
        conf = {"store": self.name, "opaque": self.is_opaque, "file": self.file}
        builder = TransactionalTopologyBuilder(
            "t",
            "rows",
            SPOUTS[self.kind](self.partitions),
            config=conf,
            workers=choose.randint(1, 3),
        )
        builder.set_bolt("pass", Pass).fields_grouping("rows", ["row"])
        builder.set_bolt("count", Count).fields_grouping("pass", ["row"])
        builder.set_bolt("read", Read).fields_grouping("count", ["row"])
        once = builder.set_bolt("once", TransactionDeduplicate).fields_grouping("pass", ["row"])
        once.set_config({"id": ["row"], "fields": ["row"], "transactions": 10_000})
        builder.set_bolt("first", CountFirst).fields_grouping("once", ["row"])
        tasks = {name: choose.randint(1, 5) for name in ("rows", *NAMES)}
        return builder.build().with_each(lambda one: {"num_tasks": tasks[one.name]})

    def check(self, driver, committed):
        rows = Counter(row for rows in self.partitions for row in rows)
        conf = {"opaque": self.is_opaque, "file": self.file}
        maps = {"counts": "count", "reads": "read", "firsts": "first"}
        found = {
            name: made(conf, name, context_of(0, component, "t")).get_many("abcdefgh")
            for name, component in maps.items()
        }
        assert found == {"counts": rows, "reads": rows, "firsts": dict.fromkeys(rows, 1)}
        for component in NAMES[:2]:
            by_task = read_state(self.store, component).tasks
            assert sum(map(Counter, by_task.values()), Counter()) == rows, component


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.matrix(share=2 / 7, name="transactions in worlds at random", cell="other tasks")
@pytest.mark.parametrize("kind", SPOUTS)
def test_each_row_is_counted_once_whatever_the_numbers_of_tasks(kind):
    for seed in seeds.several(WORLDS):
        with seeds.generator(seed), tempfile.TemporaryDirectory() as folder:
            Rescaled(seed, kind, folder).simulate()
            close_all()
