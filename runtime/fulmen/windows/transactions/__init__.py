"""Bolts of transactional topologies that need only options: aggregates, windows, deduplication.

They are BatchBolts, which emit for the transaction at hand when all of it is there. What they keep
from one to the next is in `self.state`, which changes with the transactions' commits.
"""

from fulmen.windows.transactions.aggregate import TransactionAggregate
from fulmen.windows.transactions.deduplicate import TransactionDeduplicate
from fulmen.windows.transactions.persistent import PersistentAggregate

__all__ = ["PersistentAggregate", "TransactionAggregate", "TransactionDeduplicate"]
