"""Storm's windowed bolts: a method is called with the tuples of each window.

`queues` decides which tuples are in which window, and is pure. Uses `windows.inputs`,
`windows.options` and `windows.disk`.
"""

from fulmen.windows.windowed.bolt import WindowedBolt
from fulmen.windows.windowed.options import WindowedOptions
from fulmen.windows.windowed.task_windows import TupleWindow

__all__ = ["TupleWindow", "WindowedBolt", "WindowedOptions"]
