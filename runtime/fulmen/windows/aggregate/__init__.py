"""`Aggregate`, the bolt that counts, sums and more in windows.

The bolt reads tuples. A windower of `kinds` decides by a clock which windows they are in, and keeps
what `adding` makes of them. `partial` aggregates where tuples are emitted. Uses what is above in
`windows`.
"""

from fulmen.windows.aggregate.bolt import Aggregate

__all__ = ["Aggregate"]
