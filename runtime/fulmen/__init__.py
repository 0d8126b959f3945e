"""Storm-style topologies on Apache Spark: spouts, bolts, groupings and acked tuple trees.

What authors import. A fresh `import fulmen` loads no Spark. docs/development.md has a picture of
all rooms.
"""

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
