"""Joins two tables as they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.context import TopologyContext
from fulmen.windows.inputs import check_key
from fulmen.windows.joins.join import Join
from fulmen.windows.joins.known_rows import Id, KnownRows
from fulmen.windows.joins.options import JoinOptions, TableJoinOptions
from fulmen.windows.joins.side_rows import Emits, Key, Row

Newest = tuple[int, Row]
"""The time of a row, and the row."""


class TableJoin(Join):
    """Emits the newest rows of both sides of a key, whenever one of them has changed.

    Of each side and key that is the row that has come last; of a side with `id`, the last one of
    each id, as many auctions have one seller. With `time` it is the one with the latest time; one
    that is older than what is there changes nothing. With `type` left, right or full, a row is
    emitted without the other side for as long as that has none. Rows are kept for good; a derived
    class with `state_ttl` forgets rows that have not changed for so long.
    """

    # State: (side, key, id) -> the newest row. Memory: the ids of each key of a side with `id`; if
    # the state is on disk, of keys that a batch has asked for.

    config_model = TableJoinOptions
    emits_results = False  # a row that comes again is emitted again as it is then
    transient = (*Join.transient, "_id_at", "_ids")

    @override
    def needs_times(self, options: JoinOptions) -> bool:
        return False

    @override
    def prepare(self, conf: Any, context: TopologyContext) -> None:
        super().prepare(conf, context)
        options: TableJoinOptions = context.options
        self._id_at = [
            [[*side.outputs.values()].index(field) for field in side.id]
            for side in (options.left, options.right)
        ]
        self._ids = KnownRows(self.state, [side for side, at in enumerate(self._id_at) if at])

    @override
    def end_batch(self, collector: BasicOutputCollector) -> None:
        super().end_batch(collector)
        self._ids.end_batch()

    @override
    def add(self, side: int, key: Key, time: int, row: Row, joined: Emits) -> bool:
        one = tuple(row[i] for i in self._id_at[side])
        check_key(one, "id")
        before: Newest | None = self.state.get((side, key, one))
        if before is not None and before[0] > time:
            return True
        if self._id_at[side]:
            self._ids.of(side, key)[one] = None
        self.state[side, key, one] = (time, row)
        others = list(self._rows(1 - side, key))
        for other in others:
            self.matched(side, row, other, joined)
        if not others:
            self.unmatched(side, key, row, joined)
        return True

    def _rows(self, side: int, key: Key) -> Iterator[Row]:
        """The rows of a key: `state_ttl` may have forgotten some of those that were known."""
        ids: Iterable[Id] = [()]
        if self._id_at[side]:
            ids = list(self._ids.of(side, key))
        for one in ids:
            newest: Newest | None = self.state.get((side, key, one))
            if newest is not None:
                yield newest[1]
            elif one:
                self._ids.forget(side, key, one)
