"""Spouts and bolts: the classes that authors derive from.

One instance is made for each task, in the worker process that hosts it. All fields of an instance
that can be pickled are durable: they are written to the checkpoint with every batch that changes
them, and are back after any process or pod was lost. What can't be pickled (connections, models,
locks) is made in `open` or `prepare`, which is called whenever the instance is made anew. A field
that `open` or `prepare` sets to what it set it to the first time (`self.counts = {}`) keeps its
restored value; one that it sets to something else (from a changed config) takes that. So does a
field of an object given to `TopologyBuilder`, if the object now has another value there.

Beside these are the forms of spouts and bolts that are given many rows in one call: `arrow`,
`many`, `chunks`, `sinks`. Uses `collector`, `context`, `declarer`, `tuples`. Used by authors
through `fulmen`, by all that Fulmen brings, by `topology` and by the engine.
"""

from fulmen.api.components.bolts import AnyBolt, BasicBolt, Bolt, KeyPart, StatefulBolt
from fulmen.api.components.component import Component, Outputs, overrides
from fulmen.api.components.failures import FailedException, ReportedFailedException
from fulmen.api.components.spout import Spout

__all__ = [
    "AnyBolt",
    "BasicBolt",
    "Bolt",
    "Component",
    "FailedException",
    "KeyPart",
    "Outputs",
    "ReportedFailedException",
    "Spout",
    "StatefulBolt",
    "overrides",
]
