"""The rows that an interval join keeps: in memory, or on disk.

`kept` is what both are. Uses `joins.side_rows`, `joins.row_log`, `windows.clock` and
`windows.disk`.
"""

from fulmen.windows.joins.intervals.kept import HAS_ENDED, KEY, LAST, ROW, KeptRows, Reach, Waiting
from fulmen.windows.joins.intervals.memory import RowsInMemory
from fulmen.windows.joins.intervals.on_disk import RowsOnDisk

__all__ = [
    "HAS_ENDED",
    "KEY",
    "LAST",
    "ROW",
    "KeptRows",
    "Reach",
    "RowsInMemory",
    "RowsOnDisk",
    "Waiting",
]
