"""How the rows of a chunk are added at once, by aggregation: as lists, and by columns of Arrow.

An author's own, which may refuse any value, is not here: it gets each value by itself, also if its
class is derived from one of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import pyarrow as pa

from fulmen.api.times.arrow_times import Numbers
from fulmen.windows.aggregate.adding import by_columns, by_lists
from fulmen.windows.aggregate.adding.adder import Adder
from fulmen.windows.functions.aggregations import (
    Aggregation,
    Count,
    First,
    Last,
    Max,
    MaxBy,
    Mean,
    Min,
    MinBy,
    Sum,
)
from fulmen.windows.functions.collected import (
    ApproximateDistinct,
    Distinct,
    Listed,
    Quantile,
    Top,
    TopWithTies,
    Values,
)
from fulmen.windows.functions.greatest_rows import (
    MaxByOfSeveral,
    MaxByWithTies,
    MinByOfSeveral,
    MinByWithTies,
)


class AtOnce(NamedTuple):
    """How many rows are added to an aggregation at once.

    Attributes:
        lists: Adds the rows of some keys, of lists of values.
        columns: Makes the adder of a column; given that of a second field as well, if it has one.
            None: rows must be added one by one.
        usual: Which values it takes without a look at each; None: all.
    """

    lists: by_lists.Add
    columns: Callable[..., Adder | None]
    usual: by_lists.Usual | None = None


AT_ONCE: Mapping[type[Aggregation], AtOnce] = {
    Count: AtOnce(by_lists.counts, by_columns.Counts),
    Sum: AtOnce(by_lists.sums, by_columns.sums, by_lists.ARE_NUMBERS),
    Mean: AtOnce(by_lists.means, by_columns.sums, by_lists.ARE_NUMBERS),
    Min: AtOnce(by_lists.least, by_columns.extremes, by_lists.HASHABLE),
    Max: AtOnce(by_lists.greatest, by_columns.extremes, by_lists.HASHABLE),
    MinBy: AtOnce(by_lists.best_by(min), by_columns.pairs),
    MaxBy: AtOnce(by_lists.best_by(max), by_columns.pairs),
    **dict.fromkeys(
        (MaxByOfSeveral, MaxByWithTies, MinByOfSeveral, MinByWithTies),
        AtOnce(by_lists.one_by_one, lambda *_: None),
    ),
    First: AtOnce(by_lists.firsts, by_columns.Ends),
    Last: AtOnce(by_lists.lasts, by_columns.Ends),
    Listed: AtOnce(by_lists.lists, Adder),
    Distinct: AtOnce(by_lists.sets, by_columns.different, by_lists.HASHABLE),
    Values: AtOnce(by_lists.sets, by_columns.different, by_lists.HASHABLE),
    Top: AtOnce(by_lists.sets, by_columns.frequencies, by_lists.HASHABLE),
    TopWithTies: AtOnce(by_lists.sets, by_columns.frequencies, by_lists.HASHABLE),
    ApproximateDistinct: AtOnce(by_lists.sketches, by_columns.different, by_lists.HASHABLE),
    Quantile: AtOnce(by_lists.quantiles, by_columns.quantiles, by_lists.ARE_FLOATS),
}


def adder_for(
    aggregation: Aggregation, column: pa.Array | None, times: Numbers, *bys: pa.Array
) -> Adder | None:
    """The adder for a column's values; None: rows must be added one by one.

    Args:
        aggregation: What they are added to.
        column: The values of all rows; None: none are needed.
        times: The event times of the rows.
        bys: The values of the second field, of an aggregation that has one.
    """
    way = AT_ONCE.get(type(aggregation))
    if way is None:
        return None
    if column is not None and not bys:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_null(column.type) and way.columns is not by_columns.Counts:
            return Adder(aggregation, column, times)
    return way.columns(aggregation, column, times, *bys)
