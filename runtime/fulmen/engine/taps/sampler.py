"""Takes some of the tuples that one stage emits on one worker in one batch, for the taps.

There is none where no tap is open. Where there is one, what it does is limited: it looks at no more
than some tuples of a batch, and makes JSON of fewer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from fulmen.api.declarer import Stream
from fulmen.engine.acking.root_ids import root_ids
from fulmen.engine.protocol.figures.taps import Tapped, TappedTuple, TapRequest
from fulmen.engine.protocol.placed_topology import RESERVED, PlacedTopology
from fulmen.engine.taps.condition import conditions_of
from fulmen.engine.taps.values import TO_COMPARE, Mask
from fulmen.engine.tuples.tuple_rows import TupleRows
from fulmen.errors import PASSED_ON

LOOKS = 1000
"""Tuples of a batch that a condition is asked about, of each stage on each worker."""


class Roots(Protocol):
    """Which trees each of some emitted tuples is part of."""

    def of(self, i: int) -> tuple[int, ...]:
        """The root ids of emit number `i`, as of trees that are not traced."""

    def among(self, roots: Sequence[int]) -> Sequence[int]:
        """The numbers of emits that are part of one of these trees."""


class TreeSource(Protocol):
    """A task that begins trees."""

    origin: int
    sequence: int


class TapSampler:
    """Samples the emits of one batch for taps.

    Attributes:
        tapped: It, so far.
    """

    def __init__(self, requests: Sequence[TapRequest], placed: PlacedTopology) -> None:
        self.tapped = Tapped()
        self._taps = [_Tap(request, placed.streams, self.tapped) for request in requests]

    @staticmethod
    def of(requests: Sequence[TapRequest], placed: PlacedTopology) -> TapSampler | None:
        """Make one for these taps; None: there are none."""
        return TapSampler(requests, placed) if requests else None

    def end(self, spouts: Iterable[TreeSource]) -> Tapped:
        """End the batch, and give the tuples for the taps.

        Args:
            spouts: The tasks that may have been asked which tree they begin next.
        """
        if any(tap.request.asks_next for tap in self._taps):
            self.tapped.next_roots = [
                int(root_ids(spout.origin, spout.sequence, 1)[0]) for spout in spouts
            ]
        return self.tapped

    def take(
        self, task: int, component: str, stream: str, emitted: TupleRows, roots: Roots
    ) -> None:
        """Take some of what a task has emitted on a stream."""
        for tap in self._taps:
            if tap.request.component in ("", component) and tap.request.stream in ("", stream):
                tap.take(task, component, stream, emitted, roots)


class _Tap:
    def __init__(
        self,
        request: TapRequest,
        streams: Mapping[str, Mapping[str, Stream]],
        tapped: Tapped,
    ) -> None:
        self.request = request
        self._streams = streams
        self._tapped = tapped
        self._mask = Mask(request.mask)
        self._conditions = conditions_of(request.where)
        self._room, self._looks = request.most, LOOKS

    def take(
        self, task: int, component: str, stream: str, emitted: TupleRows, roots: Roots
    ) -> None:
        """Take as many as there is room for."""
        wanted = self.request.roots
        numbers: Sequence[int] = roots.among(wanted) if wanted else range(len(emitted))
        looked_at = 0
        for i in numbers:
            if self._room <= 0 or self._looks <= 0:
                break
            looked_at += 1
            try:
                self._look(task, component, stream, emitted[i], roots.of(i))
            except PASSED_ON:
                raise
            except BaseException:  # noqa: BLE001 (no batch fails because somebody looks at it)
                self._tapped.others[self.request.number] += 1
        if rest := len(numbers) - looked_at:
            self._tapped.others[self.request.number] += rest

    def _look(
        self, task: int, component: str, stream: str, values: Sequence[Any], roots: tuple[int, ...]
    ) -> None:
        def names(of: str) -> Sequence[str]:
            return fields_of(self._streams[component], of)

        row = self._mask.tuple(stream, names(stream), values, names)
        if self._conditions:
            self._looks -= 1
            asked = {one.path[0] for one in self._conditions} & row.keys()
            compared = {name: self._mask.field(name, row[name], TO_COMPARE) for name in asked}
            if not all(one.is_met(compared) for one in self._conditions):
                return
        self._room -= 1
        data = self._mask.dumps(row)
        self._tapped.tuples.append(TappedTuple(self.request.number, task, stream, roots, data))


def fields_of(streams: Mapping[str, Stream], stream: str) -> Sequence[str]:
    """The fields of a stream of a component; none if it has no such stream."""
    if stream in RESERVED:
        return RESERVED[stream]
    return streams[stream].fields if stream in streams else ()
