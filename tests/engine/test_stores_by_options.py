"""`PersistentAggregate` in each of its stores: real servers, and what they take as a key."""

import zlib

import pytest

from fulmen import TransactionalTopologyBuilder
from fulmen.testing import TransactionFault, run
from fulmen.transactional import MemoryTransactionalSpout, PostgresMap, RedisMap, SqliteMap
from fulmen.transactional.conformance import context_of
from fulmen.windows import PersistentAggregate

KINDS = {"postgres": PostgresMap, "redis": RedisMap, "sqlite": SqliteMap}


ROWS = [("a", 1), (None, 5), ("b", 2), ("a", 3), ("b\0", 5), ("a", 4), (6, 5), ("c", 7)]
"""Two transactions of four. Three have no text as a key."""


@pytest.mark.parametrize("kind", KINDS)
def test_each_store_has_what_transactions_bring_but_for_keys_that_it_can_not_take(
    kind, tmp_path, postgres, redis_server, request
):
    at = {"postgres": postgres.dsn, "redis": redis_server.url, "sqlite": str(tmp_path / "kept.db")}
    name = f"by_options_{zlib.crc32(request.node.name.encode()):x}"
    sales = MemoryTransactionalSpout({0: ROWS}, ["shop", "cents"], 4)
    builder = TransactionalTopologyBuilder("by-options", "sales", sales)
    bolt = builder.set_bolt("kept", PersistentAggregate).set_config({
        "store": kind, "at": at[kind], "map": name, "key": ["shop"],
        "aggregates": {"n": "count", "cents": "sum(cents)"},
    })  # fmt: skip
    bolt.global_grouping("sales")
    failing = [TransactionFault(txid, "kept", "committing", moment="after") for txid in (1, 2)]
    result = run(builder, failing=failing)
    assert result.transactions.committed == [1, 2]
    kept = KINDS[kind](at[kind], name, context_of(), rule="transactional", value="json")
    assert kept.get_many("abc") == {
        "a": {"n": 3, "cents": 8}, "b": {"n": 1, "cents": 2}, "c": {"n": 1, "cents": 7},
    }  # fmt: skip
