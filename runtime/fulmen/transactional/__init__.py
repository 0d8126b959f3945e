"""Stores for committers, and sources, of transactional topologies.

    from fulmen.transactional import SqliteMap, plus

    class Counts(BatchBolt, Committer):
        def prepare(self, conf, context, collector, attempt):
            self.attempt, self.partials = attempt, Counter()
            self.counts = SqliteMap(conf["file"], "word_counts", context, value="integer")

        def execute(self, tup):
            self.partials[tup["word"]] += 1

        def finish_batch(self):
            self.counts.update(self.attempt, self.partials, plus)

Uses only `api`, `errors` and `services`; used by authors. `conformance` tests a store of one's own.
The clients of PostgreSQL and Redis are imported when a map of theirs is made.
"""

from fulmen.services.errors import StoreError, StoreRefused, StoreUnavailable
from fulmen.transactional.commits import together
from fulmen.transactional.errors import StaleAttempt
from fulmen.transactional.maps import TransactionalMap, plus
from fulmen.transactional.spouts.memory import MemoryTransactionalSpout
from fulmen.transactional.stores.postgres import PostgresMap
from fulmen.transactional.stores.redis import RedisMap
from fulmen.transactional.stores.sqlite import SqliteMap

__all__ = [
    "MemoryTransactionalSpout",
    "PostgresMap",
    "RedisMap",
    "SqliteMap",
    "StaleAttempt",
    "StoreError",
    "StoreRefused",
    "StoreUnavailable",
    "TransactionalMap",
    "plus",
    "together",
]
