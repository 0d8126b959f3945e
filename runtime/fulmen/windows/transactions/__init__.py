"""Bolts of transactional topologies that need only options: aggregates, windows, deduplication.

They are BatchBolts: they emit for a transaction when all of it is there. What they keep between
transactions is in `self.state`, which changes with the transactions' commits.
"""

from fulmen.windows.transactions.aggregate import TransactionAggregate
from fulmen.windows.transactions.deduplicate import TransactionDeduplicate
from fulmen.windows.transactions.persistent import PersistentAggregate

__all__ = ["PersistentAggregate", "TransactionAggregate", "TransactionDeduplicate"]
