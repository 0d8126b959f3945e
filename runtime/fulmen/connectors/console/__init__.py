"""Spouts and sinks to try things out with, without any server: clock, generator, standard streams.

Uses `formats`, and rich for tables. Topologies name the classes: `class:
fulmen.connectors.console.GeneratorSpout`.
"""

from fulmen.connectors.console.generated import ClockSpout, GeneratorSpout
from fulmen.connectors.console.sinks import StdoutSink, TableSink
from fulmen.connectors.console.stdin import StdinSpout

__all__ = ["ClockSpout", "GeneratorSpout", "StdinSpout", "StdoutSink", "TableSink"]
