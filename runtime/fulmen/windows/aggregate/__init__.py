"""`Aggregate`, the bolt, and what it does with each type of window.

The bolt reads tuples; `fixed`, `sessions` and `counted` keep windows and emit them, with what
`kept` knows of aggregates. Uses what is above in `windows`.
"""

from fulmen.windows.aggregate.bolt import Aggregate

__all__ = ["Aggregate"]
