"""The classes and functions for authors of topologies.

Spouts, bolts, tuples, collectors, groupings and the context, without anything behind them. Uses
only `errors`; used by authors through `fulmen`, by `topology`, and by the engine, which calls it.
"""

from fulmen.api.collector import BasicOutputCollector, OutputCollector, SpoutOutputCollector
from fulmen.api.components import (
    BasicBolt,
    Bolt,
    Component,
    FailedException,
    ReportedFailedException,
    Spout,
)
from fulmen.api.components.arrow import (
    ArrowBolt,
    ArrowOutputCollector,
    ArrowSpout,
    ArrowSpoutCollector,
)
from fulmen.api.components.kept import Kept
from fulmen.api.components.many import ManyBolt, ManyCollector, Tuples
from fulmen.api.components.sinks import ERRORS_STREAM, Mark, Rows, ServiceUnavailable, Sink
from fulmen.api.context import TopologyContext
from fulmen.api.custom_grouping import CustomStreamGrouping
from fulmen.api.declarer import OutputFieldsDeclarer, Stream, output_streams
from fulmen.api.json_null import JSON_NULL
from fulmen.api.marks import StoreMismatch
from fulmen.api.signals import Counter, Gauge, Histogram
from fulmen.api.transactional_spouts import (
    OpaquePartitionedTransactionalSpout,
    PartitionCoordinator,
    PartitionedTransactionalSpout,
    TransactionalSource,
    TransactionalSpout,
    TransactionCoordinator,
)
from fulmen.api.transactions import BatchBolt, BatchOutputCollector, Committer, TransactionAttempt
from fulmen.api.tuples import Tuple

__all__ = [
    "ERRORS_STREAM",
    "JSON_NULL",
    "ArrowBolt",
    "ArrowOutputCollector",
    "ArrowSpout",
    "ArrowSpoutCollector",
    "BasicBolt",
    "BasicOutputCollector",
    "BatchBolt",
    "BatchOutputCollector",
    "Bolt",
    "Committer",
    "Component",
    "Counter",
    "CustomStreamGrouping",
    "FailedException",
    "Gauge",
    "Histogram",
    "Kept",
    "ManyBolt",
    "ManyCollector",
    "Mark",
    "OpaquePartitionedTransactionalSpout",
    "OutputCollector",
    "OutputFieldsDeclarer",
    "PartitionCoordinator",
    "PartitionedTransactionalSpout",
    "ReportedFailedException",
    "Rows",
    "ServiceUnavailable",
    "Sink",
    "Spout",
    "SpoutOutputCollector",
    "StoreMismatch",
    "Stream",
    "TopologyContext",
    "TransactionAttempt",
    "TransactionCoordinator",
    "TransactionalSource",
    "TransactionalSpout",
    "Tuple",
    "Tuples",
    "output_streams",
]
