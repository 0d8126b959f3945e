"""Storm-style topologies on Apache Spark: spouts, bolts, stream groupings and acked tuple trees, in Python."""

from fulmen.api import (
    ArrowBolt,
    ArrowSpout,
    BasicBolt,
    Bolt,
    CustomStreamGrouping,
    FailedException,
    OutputFieldsDeclarer,
    ReportedFailedException,
    Spout,
    Stream,
    TopologyContext,
    Tuple,
)

__all__ = [
    "ArrowBolt",
    "ArrowSpout",
    "BasicBolt",
    "Bolt",
    "CustomStreamGrouping",
    "FailedException",
    "OutputFieldsDeclarer",
    "ReportedFailedException",
    "Spout",
    "Stream",
    "TopologyContext",
    "Tuple",
]
