"""Joins what is so much earlier or later."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import Any

from typing_extensions import override

from fulmen.api.collector import BasicOutputCollector
from fulmen.api.context import TopologyContext
from fulmen.windows.joins.join import LEFT, RIGHT, Join, Key, Row
from fulmen.windows.joins.options import IntervalJoinOptions, signed_milliseconds

Places = tuple[list[tuple[int, int]], list[tuple[int, int]]]
"""Of a key: time and number of each row, by their times, of the left and of the right side."""


class IntervalJoin(Join):
    """Emits each pair with equal keys and `left + lower <= right <= left + upper`, at once.

    A row is forgotten when no match of it can come any more. With `type` left, right or full, one
    that has had none is emitted then.
    """

    # State: (key, side, n) -> time, row and whether it has had a match. Memory: where rows are.

    config_model = IntervalJoinOptions
    transient = (*Join.transient, "_within", "_places", "_next")

    @override
    def prepare(self, conf: Any, context: TopologyContext) -> None:
        super().prepare(conf, context)
        options: IntervalJoinOptions = context.options
        lower, upper = signed_milliseconds(options.lower), signed_milliseconds(options.upper)
        self._within = (lower, upper), (-upper, -lower)
        self._places: dict[Key, Places] | None = None
        self._next = 0

    def _restored(self) -> dict[Key, Places]:
        if self._places is None:
            self._places = {}
            for (key, side, number), (time, _, _) in self.state.items():
                insort(self._places.setdefault(key, ([], []))[side], (time, number))
                self._next = max(self._next, number + 1)
        return self._places

    @override
    def add(
        self, side: int, key: Key, time: int, row: Row, collector: BasicOutputCollector
    ) -> bool:
        if self.is_late(time):
            return False
        places = self._restored().setdefault(key, ([], []))
        first, last = (time + shift for shift in self._within[side])
        others = places[1 - side]
        begin = bisect_left(others, first, key=_time)
        matches = others[begin : bisect_right(others, last, key=_time)]
        for _, number in matches:
            place = (key, 1 - side, number)
            other_time, other, was_matched = self.state[place]
            self.matched(side, row, other, collector)
            if not was_matched and self._outer[1 - side]:
                self.state[place] = (other_time, other, True)
        if self.is_late(last):  # no match of it can come
            if not matches:
                self.unmatched(side, row, collector)
            self._forget_if_empty(key)
            return True
        place = (key, side, self._next)
        self.state[place] = (time, row, bool(matches))
        insort(places[side], (time, self._next))
        self._context.timers.set(place, last + 1)
        self._next += 1
        return True

    @override
    def on_timer(self, key: Any, at: float, collector: BasicOutputCollector) -> None:
        of_key, side, number = key
        rows = self._restored()[of_key][side]
        time, row, was_matched = self.state.pop(key)
        del rows[bisect_left(rows, (time, number))]
        self._forget_if_empty(of_key)
        if not was_matched:
            self.unmatched(side, row, collector)

    def _forget_if_empty(self, key: Key) -> None:
        places = self._restored()
        if not places[key][LEFT] and not places[key][RIGHT]:
            del places[key]


def _time(place: tuple[int, int]) -> int:
    return place[0]
