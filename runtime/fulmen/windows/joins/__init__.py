"""Joins of two streams by a key: in windows, within an interval, with a table, of two tables.

`join` has what all joins share. Uses `windows.inputs`, `windows.options` and `windows.spans`.
"""

from fulmen.windows.joins.interval_join import IntervalJoin
from fulmen.windows.joins.lookup_join import LookupJoin
from fulmen.windows.joins.regular_join import RegularJoin
from fulmen.windows.joins.table_join import TableJoin
from fulmen.windows.joins.temporal_join import TemporalJoin
from fulmen.windows.joins.window_join import WindowJoin

__all__ = ["IntervalJoin", "LookupJoin", "RegularJoin", "TableJoin", "TemporalJoin", "WindowJoin"]
