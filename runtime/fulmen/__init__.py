"""Storm-style topologies on Apache Spark: spouts, bolts, groupings and acked tuple trees.

What authors import. A fresh `import fulmen` loads no Spark. docs/development.md has a picture of
all rooms.
"""

from fulmen.api import (
    ArrowBolt,
    ArrowSpout,
    BasicBolt,
    BatchBolt,
    Bolt,
    Committer,
    CustomStreamGrouping,
    FailedException,
    Mark,
    OpaquePartitionedTransactionalSpout,
    OutputFieldsDeclarer,
    PartitionedTransactionalSpout,
    ReportedFailedException,
    Rows,
    ServiceUnavailable,
    Sink,
    Spout,
    Stream,
    TopologyContext,
    TransactionalSpout,
    TransactionAttempt,
    Tuple,
)
from fulmen.topology.builder import TopologyBuilder
from fulmen.topology.transactional_builder import TransactionalTopologyBuilder

__all__ = [
    "ArrowBolt",
    "ArrowSpout",
    "BasicBolt",
    "BatchBolt",
    "Bolt",
    "Committer",
    "CustomStreamGrouping",
    "FailedException",
    "Mark",
    "OpaquePartitionedTransactionalSpout",
    "OutputFieldsDeclarer",
    "PartitionedTransactionalSpout",
    "ReportedFailedException",
    "Rows",
    "ServiceUnavailable",
    "Sink",
    "Spout",
    "Stream",
    "TopologyBuilder",
    "TopologyContext",
    "TransactionAttempt",
    "TransactionalSpout",
    "TransactionalTopologyBuilder",
    "Tuple",
]
