"""`Aggregate`, the bolt, and what it does with each type of window.

The bolt reads tuples. A windower (`fixed`, `sessions`, `counted`) decides by a clock which windows
they are in, and keeps what `aggregates` makes of them; `panes` emits it. Uses what is above in
`windows`.
"""

from fulmen.windows.aggregate.bolt import Aggregate

__all__ = ["Aggregate"]
