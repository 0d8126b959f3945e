"""Storm-style topologies on Apache Spark: spouts, bolts, groupings and acked tuple trees."""

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
from fulmen.topology.builder import TopologyBuilder

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
    "TopologyBuilder",
    "TopologyContext",
    "Tuple",
]
