"""A transaction has a part of each source, and is committed or comes again as a whole."""

import pytest

from fulmen import TransactionalTopologyBuilder
from fulmen.engine.batches.ledger import ledger_of
from fulmen.engine.driver.driver import Stop
from fulmen.testing import TransactionFault, run
from support.runs.engine_runs import make_driver, new_store
from support.stores.outside_stores import STORES, fresh_store
from support.transactions.sources import ChangingRows, Numbers, Rows, RowsEmitter
from support.transactions.words import BatchCount, UpdateGlobalCount

LINES = [list("abcde"), list("fg")]


class EndingEmitter(RowsEmitter):
    def is_exhausted(self):
        return True


class EndlessRows(Rows):
    """Rows of which the emitters alone know the end."""

    def get_coordinator(self, conf, context):
        made = super().get_coordinator(conf, context)
        made.is_exhausted = lambda: False
        return made

    def get_emitter(self, conf, context):
        return EndingEmitter(self)


def merged(lines=None, **spec):
    """Counts the rows of two sources: lines in 3 transactions, numbers in 5. Its store, and it."""
    name = fresh_store()
    builder = TransactionalTopologyBuilder(
        "merged", "lines", lines or Rows(LINES, 2), 2, config={"store": name}, **spec
    )
    builder.set_spout("numbers", Numbers(10, 2), 2)
    counts = builder.set_bolt("partial-count", BatchCount, 3)
    counts.shuffle_grouping("lines").shuffle_grouping("numbers")
    builder.set_bolt("sum", UpdateGlobalCount).global_grouping("partial-count")
    return name, builder


SUMS = [(1, 6), (2, 4), (3, 3), (4, 2), (5, 2)]
"""Of each transaction: 2 + 2 lines and 2 numbers, and fewer as the lines come to their end."""


def committed(name):
    return [event[1:] for event in STORES[name].notes() if event[0] == "committed"]


@pytest.mark.parametrize("lines", [Rows(LINES, 2), EndlessRows(LINES, 2)])
def test_a_source_that_has_nothing_more_has_no_part_in_transactions(lines):
    name, builder = merged(lines, max_spout_pending=2)
    assert run(builder, workers=2).transactions.committed == [1, 2, 3, 4, 5]
    assert committed(name) == SUMS


@pytest.mark.parametrize("component", ["lines", "numbers", "sum"])
@pytest.mark.parametrize("kills", [False, True])
def test_all_parts_of_a_transaction_fail_and_come_again_together(component, kills):
    name, builder = merged(max_spout_pending=3)
    phase = "committing" if component == "sum" else "processing"
    fault = TransactionFault(2, component, phase, kills=kills, moment="after")
    result = run(builder, workers=2, failing=[fault])
    assert result.transactions.committed == [1, 2, 3, 4, 5]
    assert result.transactions.attempts[2] == 2
    assert sorted(set(committed(name))) == SUMS
    assert STORES[name].all() == {"global": (5, 17)}


def test_each_source_goes_on_from_the_checkpoint_where_it_was():
    store, (name, builder) = new_store(), merged(max_spout_pending=2)
    for batches in (3, 2):
        driver = make_driver(builder, store=store).start()
        for _ in range(batches):
            driver.step()
        driver.close()
    assert ledger_of(driver.log.manifest.transient).metadata[3].keys() == {"lines", "numbers"}
    driver = make_driver(builder, store=store).start()
    driver.run(Stop(when_drained=True))
    driver.close()
    assert sorted(set(committed(name)))[:5] == SUMS
    assert STORES[name].get("global")[1] == 17


def test_an_opaque_source_beside_another_may_change_its_part_alone():
    takes = {1: [2, 0]}
    name, builder = merged(ChangingRows([list("abc")], takes, 2))
    fault = TransactionFault(1, "partial-count", "processing", moment="after")
    assert run(builder, failing=[fault]).transactions.attempts[1] == 2
    assert committed(name) == [(1, 2), (2, 4), (3, 3), (4, 2), (5, 2)]


def test_a_transaction_that_is_given_up_tells_the_metadata_of_each_source():
    _, builder = merged(max_replays=0)
    result = run(builder, failing=[TransactionFault(2, "partial-count", times=None)])
    [given_up] = result.transactions.given_up
    assert given_up.metadata == {"lines": 2, "numbers": (2, 4)}
    assert result.transactions.committed == [1, 3, 4, 5]
