"""Sinks in a transactional topology: each row of a committed transaction once, in their order."""

import json
import sqlite3
from contextlib import closing

import pytest

from fulmen import BasicBolt, BatchBolt, Committer, TransactionalTopologyBuilder
from fulmen.connectors.files import FileSink
from fulmen.connectors.sqlite import SqliteSink
from fulmen.engine.driver.driver import Stop
from fulmen.testing import TransactionFault, run
from support.runs.engine_runs import make_driver
from support.stores.outside_stores import fresh_store
from support.transactions.sources import ChangingRows, Numbers, Rows

ROWS = tuple(range(10))


class Beside(BatchBolt, Committer):
    """A committer of a later stage than the sink's."""

    def execute(self, tup):
        pass

    def finish_batch(self):
        pass


class Again(BasicBolt):
    outputs = ("tx", "row")

    def execute(self, tup, collector):
        collector.emit(list(tup.values))


@pytest.fixture
def database(tmp_path):
    return str(tmp_path / "rows.db")


def table_of(database, **config):
    return {"path": database, "table": "t", "create": {"row": "INTEGER"}, **config}


def topology(source, config, tasks=1, sink=SqliteSink, name="source", **spec):
    spec = {"max_spout_pending": 2, "config": {"store": fresh_store()}, **spec}
    builder = TransactionalTopologyBuilder("t", name, source, **spec)
    builder.set_bolt("sink", sink, tasks).shuffle_grouping(name).set_config(config)
    builder.set_bolt("again", Again).shuffle_grouping(name)
    builder.set_bolt("beside", Beside).global_grouping("again")
    return builder


def rows_of(database, table="t"):
    with closing(sqlite3.connect(database)) as db:
        return [row for (row,) in db.execute(f'SELECT "row" FROM "{table}" ORDER BY rowid')]


def test_each_row_is_there_once_though_numbers_of_tasks_change_while_it_runs(database):
    rows = [range(i, 180, 3) for i in range(3)]

    def with_tasks(n):
        made = topology(Rows(rows, 2), table_of(database)).build()
        return made.with_each(lambda one: {"num_tasks": n})

    driver = make_driver(with_tasks(1)).start()
    for tasks in (3, 2):
        for _ in range(5):
            driver.step()
        stop = Stop(topology=with_tasks(tasks))
        while stop.topology is not None:
            driver.follow(stop)
            driver.step()
        assert stop.refused == ""
        assert len(driver.plan.tasks("sink")) == len(driver.plan.tasks("source")) == tasks
    assert len(rows_of(database)) < 180
    driver.run(Stop(when_drained=True))
    driver.close()
    assert sorted(rows_of(database)) == [*range(180)]


@pytest.mark.parametrize("kills", [False, True])
@pytest.mark.parametrize("component", ["sink", "beside"])
def test_a_transaction_that_fails_in_its_commit_phase_has_its_rows_once(database, component, kills):
    fault = TransactionFault(2, component, "committing", kills=kills, moment="after", times=2)
    result = run(topology(Numbers(10, 3), table_of(database)), workers=2, failing=[fault])
    assert result.transactions.committed == [1, 2, 3, 4]
    assert result.transactions.attempts[2] > 2
    assert rows_of(database) == [*ROWS]


def test_rows_of_an_attempt_that_failed_are_never_there_though_the_next_one_has_others(database):
    source = ChangingRows((ROWS,), {1: [4, 2, 3], 2: [3, 1]}, 2)
    faults = [
        TransactionFault(1, "beside", "committing", times=2),
        TransactionFault(2, "sink", "committing"),
        TransactionFault(3, "source", "processing"),
    ]
    result = run(topology(source, table_of(database), tasks=2), workers=2, failing=faults)
    assert result.transactions.attempts[1] == 3
    assert sorted(rows_of(database)) == [*ROWS]


def test_a_transaction_that_is_given_up_has_no_rows(database):
    fault = TransactionFault(2, "beside", "committing", times=2)
    builder = topology(Numbers(9, 3), table_of(database), max_replays=1)
    result = run(builder, workers=2, failing=[fault])
    assert [one.txid for one in result.transactions.given_up] == [2]
    assert rows_of(database) == [0, 1, 2, 6, 7, 8]


def test_what_is_committed_and_not_written_is_written_by_the_next_run(database):
    builder = topology(Numbers(9, 3), table_of(database), max_spout_pending=1)
    first = run(builder, batches=2)
    assert (first.transactions.committed, rows_of(database)) == ([1], [])
    run(builder, checkpoint=first)
    assert rows_of(database) == [*range(9)]


def test_what_is_not_committed_of_another_source_before_is_never_written(database):
    fault = TransactionFault(2, "beside", "committing", times=None)
    before = topology(Numbers(9, 3), table_of(database), max_spout_pending=1)
    first = run(before, workers=2, failing=[fault], batches=4)
    assert (first.transactions.committed, first.transactions.attempts[2]) == ([1], 1)
    run(topology(Numbers(2, 3), table_of(database), name="other"), workers=2, checkpoint=first)
    assert rows_of(database) == [0, 1, 2, 0, 1]


def with_errors(database, config, source=None):
    builder = topology(source or Numbers(10, 3), config)
    errors = builder.set_bolt("errors", SqliteSink).shuffle_grouping("sink", "errors")
    errors.set_config({"path": database, "table": "e", "create": {"row": "TEXT", "reason": "TEXT"}})
    return builder


@pytest.mark.parametrize("guarantee", [None, "at-least-once"])
def test_rows_that_the_store_refuses_go_to_the_sink_behind_errors_once(database, guarantee):
    with closing(sqlite3.connect(database)) as db, db:
        db.execute("CREATE TABLE t (row CHECK (row NOT IN (4, 7)))")
    config = {"path": database, "table": "t"} | ({"guarantee": guarantee} if guarantee else {})
    faults = [
        TransactionFault(2, "errors", "committing"),
        TransactionFault(3, "beside", "committing"),
    ]
    run(with_errors(database, config), workers=2, failing=faults)
    assert sorted({*rows_of(database)}) == [0, 1, 2, 3, 5, 6, 8, 9]
    assert [json.loads(row) for row in rows_of(database, "e")] == [{"row": 4}, {"row": 7}]


TOO_LARGE = 1 << 70


def test_a_row_that_can_not_be_written_down_goes_to_the_sink_behind_errors_too(database):
    builder = with_errors(database, table_of(database), Rows(((0, TOO_LARGE, 2, 3),)))
    run(builder, workers=2, failing=[TransactionFault(1, "beside", "committing")])
    assert rows_of(database) == [0, 2, 3]
    assert [json.loads(row) for row in rows_of(database, "e")] == [{"row": TOO_LARGE}]


def test_without_a_bolt_behind_errors_its_transaction_fails_and_says_why(database):
    builder = topology(Rows(((0, TOO_LARGE, 2, 3),)), table_of(database), max_replays=1)
    result = run(builder, workers=2)
    (given_up,) = result.transactions.given_up
    assert given_up.reason == (
        f"1 refused, the first {{'row': {TOO_LARGE}}}: column 'row': {TOO_LARGE} has more than 64"
        " bits. Emit it as text. They would be lost, as no bolt reads the stream 'errors': give it"
        " a sink"
    )
    assert rows_of(database) == [2, 3]


def test_each_sink_gets_all_fields_but_the_attempt(tmp_path):
    config = {"path": str(tmp_path), "format": {"type": "json"}}
    run(topology(Numbers(5, 3), config, sink=FileSink))
    files = sorted(tmp_path.glob("[!.]*"))
    assert [file.read_text() for file in files] == [
        '{"row":0}\n{"row":1}\n{"row":2}\n',
        '{"row":3}\n{"row":4}\n',
    ]
