"""Bolts on event time: windows, joins, deduplication, state that expires.

Uses api, connectors (what options have in common), transactional (maps) and errors; used by
topologies alone.
"""

from fulmen.windows.aggregate import Aggregate
from fulmen.windows.deduplicate import Deduplicate
from fulmen.windows.expiring import ExpiringState
from fulmen.windows.functions.aggregations import Aggregation
from fulmen.windows.joins import (
    IntervalJoin,
    LookupJoin,
    RegularJoin,
    TableJoin,
    TemporalJoin,
    WindowJoin,
)
from fulmen.windows.running import RunningAggregate
from fulmen.windows.transactions import (
    PersistentAggregate,
    TransactionAggregate,
    TransactionDeduplicate,
)
from fulmen.windows.windowed import TupleWindow, WindowedBolt, WindowedOptions

__all__ = [
    "Aggregate",
    "Aggregation",
    "Deduplicate",
    "ExpiringState",
    "IntervalJoin",
    "LookupJoin",
    "PersistentAggregate",
    "RegularJoin",
    "RunningAggregate",
    "TableJoin",
    "TemporalJoin",
    "TransactionAggregate",
    "TransactionDeduplicate",
    "TupleWindow",
    "WindowJoin",
    "WindowedBolt",
    "WindowedOptions",
]
