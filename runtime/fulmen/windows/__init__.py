"""What is known of a stream by windows of event time: counts, sums and more by key.

Uses api, connectors (what options have in common) and errors; used by topologies alone.
"""

from fulmen.windows.aggregate import Aggregate
from fulmen.windows.aggregations import Aggregation

__all__ = ["Aggregate", "Aggregation"]
