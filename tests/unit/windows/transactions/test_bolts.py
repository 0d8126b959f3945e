"""Bolts of transactional topologies that need only options, whatever fails meanwhile."""

import random
import sqlite3

import pytest

from fulmen import BatchBolt, Committer, TransactionalTopologyBuilder
from fulmen.engine.keyed.hashing.column_hash import column_hash
from fulmen.engine.keyed.hashing.positions import positions, task_index
from fulmen.errors import ValidationFailed
from fulmen.testing import TransactionFault, run
from fulmen.transactional import MemoryTransactionalSpout
from fulmen.windows import PersistentAggregate, TransactionAggregate, TransactionDeduplicate
from support.suite.seeds import several
from support.transactions.sources import ChangingRows

SOLD = {}


class Sales(MemoryTransactionalSpout):
    """Of three partitions, so that tuples of a transaction come in any order."""

    fields = ("shop", "cents", "at")
    take_amount = 3

    def __init__(self, rows=()):
        self.data = {i: [list(row) for row in rows[i::3]] for i in range(3)}


class Collect(BatchBolt, Committer):
    """Notes what it gets with the attempt that is committed last."""

    def prepare(self, conf, context, collector, attempt):
        self.notes = SOLD.setdefault(conf["name"], {})
        self.attempt, self.rows = attempt, []

    def execute(self, tup):
        self.rows.append((tup.stream, *tup.values[1:]))

    def finish_batch(self):
        self.notes[self.attempt.txid] = self.rows


ROWS = [(f"s{i % 2}", i, f"1970-01-01T00:00:{i:02}") for i in range(27)]
"""Three transactions of nine."""


def collected(name, cls, config, *, key="shop", rows=ROWS, streams=("default",), seed=None, **spec):
    """What a bolt emits in each transaction; failures are those of a seed."""
    builder = TransactionalTopologyBuilder(
        name, "sales", Sales(rows), 3, config={"name": name}, **spec
    )
    builder.set_bolt("x", cls, 2).set_config(config).fields_grouping("sales", [key])
    collect = builder.set_bolt("last", Collect)
    for stream in streams:
        collect.global_grouping("x", stream)
    SOLD.pop(name, None)
    result = run(builder, workers=2, failing=() if seed is None else faults(seed))
    assert result.transactions.committed == [1, 2, 3]
    return {txid: sorted(rows, key=repr) for txid, rows in SOLD[name].items()}


def faults(seed):
    """Something goes wrong in each transaction: before, at and behind the bolt."""
    choose = random.Random(seed)
    places = [("sales", "processing"), ("x", "processing"), ("last", "committing")]
    return [
        TransactionFault(
            txid,
            *choose.choice(places),
            kills=choose.random() < 0.3,
            moment=choose.choice(("before", "after")),
            times=choose.randint(1, 2),
        )
        for txid in (1, 2, 3)
        for _ in range(2)
    ]


AGGREGATES = {"n": "count", "cents": "sum(cents)"}
WINDOWS = {
    "one transaction": ({"key": ["shop"], "aggregates": AGGREGATES}, {
        1: [("default", "s0", 5, 20), ("default", "s1", 4, 16)],
        2: [("default", "s0", 4, 52), ("default", "s1", 5, 65)],
        3: [("default", "s0", 5, 110), ("default", "s1", 4, 88)],
    }),
    "two transactions": (
        {"key": ["shop"], "aggregates": AGGREGATES, "window": {"type": "transactions", "size": 2}},
        {1: [], 2: [("default", "s0", 9, 72), ("default", "s1", 9, 81)], 3: []},
    ),
    "six tuples": (
        {"key": ["shop"], "aggregates": AGGREGATES, "window": {"type": "count", "size": 6}},
        {
            1: [],
            2: [("default", "s0", 6, 30), ("default", "s1", 6, 40)],
            3: [("default", "s0", 6, 102), ("default", "s1", 6, 104)],
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize(("config", "expected"), WINDOWS.values(), ids=WINDOWS.keys())
def test_windows_of_transactions_are_exact_whatever_fails(config, expected):
    name = config.get("window", {}).get("type", "none")
    assert collected(name, TransactionAggregate, config) == expected
    for seed in several(2):
        assert collected(name, TransactionAggregate, config, seed=seed) == expected, seed


def moved(cls, config, runs, streams=("default",)):
    """What a bolt emits whose number of tasks changes: `runs` are numbers of rows, and of tasks."""
    result = None
    SOLD.pop("moved", None)
    for rows, tasks in runs:
        builder = TransactionalTopologyBuilder(
            "moved", "sales", Sales(rows), 3, config={"name": "moved"}
        )
        bolt = builder.set_bolt("x", cls).set_num_tasks(tasks).set_config(config)
        bolt.fields_grouping("sales", ["shop"])
        last = builder.set_bolt("last", Collect)
        for stream in streams:
            last.global_grouping("x", stream)
        result = run(builder, checkpoint=result)
    return {txid: sorted(rows, key=repr) for txid, rows in SOLD["moved"].items()}


TIMED = {"key": ["shop"], "time": "at", "aggregates": {"n": "count"},
         "window": {"type": "sliding", "size": "10s", "every": "5s"}}  # fmt: skip
SHOPS = [(f"s{i % 7}", i, f"1970-01-01T00:00:{i:02}") for i in range(27)]
END = [(f"s{i % 7}", 0, "1971-01-01T00:00:00") for i in range(9)]
MOVED = {
    **{name: (TransactionAggregate, WINDOWS[name][0]) for name in [*WINDOWS][1:]},
    "time": (TransactionAggregate, TIMED),
    "ids": (TransactionDeduplicate, {"id": ["shop"], "fields": ["shop"], "transactions": 2}),
}


@pytest.mark.parametrize(("cls", "config"), MOVED.values(), ids=MOVED.keys())
def test_what_transactions_have_left_moves_to_other_numbers_of_tasks(cls, config):
    rows = [*SHOPS, *END]
    steady = moved(cls, config, [(rows, 1)])
    parts = [rows[:9], rows[:18], rows[:27], rows]
    found = moved(cls, config, zip(parts, (2, 5, 1, 3), strict=True))
    if "time" in config:  # windows end with what their task has seen
        found, steady = (
            sorted((row for rows in one.values() for row in rows), key=repr)
            for one in (found, steady)
        )
        assert len(steady) > 30
    assert found == steady


def test_what_one_task_has_ended_is_late_in_the_one_that_takes_over():
    tasks = task_index(positions([column_hash(["s0", "s1", "s2"])]), 2).tolist()
    ahead, behind = f"s{tasks.index(0)}", f"s{tasks.index(1)}"
    rows = [(ahead, 0, "1970-01-01T00:00:01"), (ahead, 0, "1970-01-01T00:00:25"),
            (behind, 0, "1970-01-01T00:00:03")]  # fmt: skip
    more = [(shop, 1, "1970-01-01T00:00:04") for shop in (ahead, behind)]
    config = {**TIMED, "window": {"type": "tumbling", "size": "10s"}}
    found = moved(
        TransactionAggregate, config, [(rows, 2), ([*rows, *more], 1)], ("default", "late")
    )
    assert [(row[0], row[1], row[-1]) for row in found[1]] == [("default", ahead, 1)]
    assert [(row[0], row[1], row[-1]) for row in found[2][:1]] == [("default", behind, 1)]
    assert sorted(row[1]["shop"] for row in found[2][1:]) == sorted((ahead, behind))


def test_windows_of_time_end_with_what_transactions_bring():
    config = {"time": "at", "aggregates": {"n": "count"},
              "window": {"type": "tumbling", "size": "10s"}}  # fmt: skip
    rows = [*ROWS[:26], ("s0", 99, "1970-01-01T00:00:01")]
    for seed in (None, *several(1)):
        found = collected("time", TransactionAggregate, config, key="shop", rows=rows, seed=seed,
                          streams=("default", "late"))  # fmt: skip
        assert found[1] == []
        counts = [(row[1].second, row[2].second, row[3]) for row in found[2]]
        assert counts == [(0, 10, 5), (0, 10, 5)], "of each task"
        assert [row[0] for row in found[3]] == ["default", "default", "late"]
        assert found[3][-1][1] == {"shop": "s0", "cents": 99, "at": "1970-01-01T00:00:01"}


def test_ids_of_the_last_transactions_are_passed_on_once():
    rows = [(n % 5, n, "") for n in range(27)]
    config = {"id": ["shop"], "fields": ["shop"], "transactions": 2}
    for seed in (None, *several(2)):
        found = collected("once", TransactionDeduplicate, config, rows=rows, seed=seed)
        ids = [("default", n) for n in range(5)]
        assert found == {1: ids, 2: [], 3: ids}


def totals(folder, seed, rule):
    """A chain: each transaction by shop, all of a transaction, and both in a store."""
    builder = TransactionalTopologyBuilder(
        "chain", "sales", Sales(ROWS), 3, max_spout_pending=3, config={"name": "chain"}
    )
    per_shop = {"key": ["shop"], "aggregates": AGGREGATES}
    by_shop = builder.set_bolt("shops", TransactionAggregate, 2).set_config(per_shop)
    by_shop.fields_grouping("sales", ["shop"])
    at = {"store": "sqlite", "at": str(folder / f"{seed}.db"), "rule": rule}
    kept = {**at, "map": "shops", "key": ["shop"],
            "aggregates": {"n": "sum(n)", "most": "max(cents)"}}  # fmt: skip
    in_store = builder.set_bolt("kept", PersistentAggregate, 2).set_config(kept)
    in_store.fields_grouping("shops", ["shop"])
    builder.set_bolt("news", Collect).global_grouping("kept")
    total = {**at, "map": "total", "aggregates": {"cents": "sum(cents)"}, "valueType": "integer"}
    builder.set_bolt("total", PersistentAggregate).set_config(total).global_grouping("shops")
    places = [("shops", "processing"), ("kept", "committing"), ("total", "committing")]
    choose = random.Random(seed)
    failing = [
        TransactionFault(txid, *choose.choice(places), kills=choose.random() < 0.3,
                         moment=choose.choice(("before", "after")))
        for txid in (1, 2, 3)
    ]  # fmt: skip
    assert run(builder, workers=2, failing=failing).transactions.committed == [1, 2, 3]
    with sqlite3.connect(at["at"]) as db:
        return [dict(db.execute(f"SELECT key, value FROM {name}")) for name in ("shops", "total")]


@pytest.mark.parametrize("rule", ["transactional", "opaque"])
def test_group_by_aggregate_and_persistent_aggregate_need_only_options(tmp_path, rule):
    for seed in several(2):
        shops, total = totals(tmp_path, seed, rule)
        assert shops == {"s0": '{"n":14,"most":110}', "s1": '{"n":13,"most":88}'}
        assert total == {"[]": sum(range(27))}
        assert sorted(SOLD["chain"][3]) == [("default", "s0", 14, 110), ("default", "s1", 13, 88)]


WRONG = {
    (None, 1, ""): "a key: None is of type NoneType, but the column of type 'text' takes a str",
    (7, 1, ""): "a key: 7 is of type int, but the column of type 'text' takes a str",
    ("a\0b", 1, ""): "a key: 'a\\x00b' contains the character NUL",
    ("x" * 3000, 1, ""): "has 3,000 bytes: a key has at most 2,600",
    (float("nan"), 1, ""): "its key is (nan,), which is not equal to itself",
    ("s0", "much", ""): "its field 'cents': 'much' is no number",
}
"""Rows, and what is wrong with each."""


def test_rows_that_can_not_be_aggregated_are_told_of_and_the_others_count(tmp_path):
    config = {"store": "sqlite", "at": str(tmp_path / "kept.db"), "map": "cents", "key": ["shop"],
              "aggregates": {"cents": "sum(cents)"}}  # fmt: skip
    for seed in (None, *several(1)):
        (tmp_path / "kept.db").unlink(missing_ok=True)
        found = collected("errors", PersistentAggregate, config, rows=[*ROWS[6:], *WRONG],
                          streams=("errors",), seed=seed)  # fmt: skip
        told = [(repr((*row.values(),)), why) for rows in found.values() for _, row, why in rows]
        expected = [(repr(row), reason) for row, reason in WRONG.items()]
        for (row, reason), (its, why) in zip(sorted(told), sorted(expected), strict=True):
            assert row == its
            assert why in reason
        with sqlite3.connect(config["at"]) as db:
            kept = dict(db.execute("SELECT key, value FROM cents"))
        assert kept == {f"s{n}": str(sum(i for i in range(6, 27) if i % 2 == n)) for n in (0, 1)}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"aggregates": {"m": "mean(cents)"}},
         "aggregates.m: 'mean(cents)' can't be added to what the store has. It may be count, sum,"
         " min, max; others are for each transaction, with TransactionAggregate"),
        ({"aggregates": AGGREGATES, "valueType": "integer"},
         "valueType must be json, as there are several aggregates"),
        ({"aggregates": {"n": "count"}, "key": ["shop", "at"], "keyType": "text"},
         "keyType must be json, as key is not one field"),
        ({"aggregates": {"n": "sum(euros)"}},
         "aggregates.n: its input has no field 'euros'. It has: tx, shop, cents, at"),
    ],
)  # fmt: skip
def test_what_a_store_can_not_keep_is_told_before_it_runs(config, message):
    builder = TransactionalTopologyBuilder("x", "sales", Sales(ROWS))
    config = {"store": "sqlite", "at": "x.db", "map": "x", **config}
    builder.set_bolt("x", PersistentAggregate).set_config(config).global_grouping("sales")
    with pytest.raises(ValidationFailed) as raised:
        run(builder)
    assert message in str(raised.value)


def test_windows_of_the_last_tuples_are_not_for_transactions():
    builder = TransactionalTopologyBuilder("x", "sales", Sales(ROWS))
    window = {"type": "count", "size": 6, "every": 1}
    config = {"aggregates": {"n": "count"}, "window": window}
    builder.set_bolt("x", TransactionAggregate).set_config(config).global_grouping("sales")
    with pytest.raises(ValidationFailed, match=r"window\.every is for windows of Aggregate"):
        run(builder)


def test_a_condition_of_an_aggregate_is_not_for_transactions():
    builder = TransactionalTopologyBuilder("x", "sales", Sales(ROWS))
    config = {"aggregates": {"n": "count filter (where cents > 1)"}}
    builder.set_bolt("x", TransactionAggregate).set_config(config).global_grouping("sales")
    with pytest.raises(ValidationFailed, match="a filter is for windows of Aggregate"):
        run(builder)


def test_windows_need_one_transaction_after_the_other():
    config = {"aggregates": {"n": "count"}, "window": {"type": "count", "size": 6}}
    builder = TransactionalTopologyBuilder("x", "sales", Sales(ROWS), max_spout_pending=2)
    builder.set_bolt("x", TransactionAggregate).set_config(config).global_grouping("sales")
    with pytest.raises(ValidationFailed) as raised:
        run(builder)
    assert "bolt 'x': it keeps what later transactions see" in str(raised.value)


def test_maps_of_two_bolts_and_rules_that_are_not_the_sources_are_told():
    builder = TransactionalTopologyBuilder("x", "lines", ChangingRows())
    config = {"store": "sqlite", "at": "x.db", "map": "n", "aggregates": {"n": "count"}}
    for name, rule in (("one", "opaque"), ("two", "transactional")):
        bolt = builder.set_bolt(name, PersistentAggregate).set_config({**config, "rule": rule})
        bolt.global_grouping("lines")
    with pytest.raises(ValidationFailed) as raised:
        run(builder)
    told = str(raised.value)
    assert "bolt 'two': bolt 'one' writes to map 'n' as well" in told
    assert "bolt 'two': rule is transactional, but a source is opaque" in told
