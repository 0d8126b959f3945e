"""Which timer of a task is next, where its timers are on disk.

A place in the queue says when, and whose timer it is. Places are in the store with the entries that
they are about, and the first few of them in memory as well: all that are before `bound`.
"""

from __future__ import annotations

import heapq
import struct
from functools import lru_cache

from fulmen.engine.keyed.stores.key_bytes import bytes_of, key_of, prefix_of
from fulmen.engine.state.entries.disk_entries import DiskEntries
from fulmen.engine.state.values.renamed_classes import loads

_AT_HAND = 10_000
"""So many places of a kind are read at once. Twice as many may be in memory."""
_KINDS: dict[type, int] = {int: 0, float: 1}
_DOUBLE, _BITS = struct.Struct(">d"), struct.Struct(">Q")
_ALL, _SIGN = (1 << 64) - 1, 1 << 63


class DiskQueue:
    """The timers of event time (ints) and those of the batch clock (floats), in their order."""

    def __init__(self, entries: DiskEntries) -> None:
        """`entries` keep their places by `place_of`."""
        self._entries = entries
        self._heaps: dict[type, list[bytes]] = {kind: [] for kind in _KINDS}
        self._bounds = {kind: _range_of(kind)[0] for kind in _KINDS}

    def push(self, at: int | float, key: object) -> None:
        """Add a timer."""
        place, kind = _place(at, bytes_of(key)), type(at)
        self._entries.put_place(place, is_there=True)
        if place >= self._bounds[kind]:
            return
        heap = self._heaps[kind]
        heapq.heappush(heap, place)
        if len(heap) > 2 * _AT_HAND:
            heap.sort()
            self._bounds[kind] = heap[_AT_HAND]
            del heap[_AT_HAND:]

    def first(self, kind: type) -> tuple[int | float, object] | None:
        """The time and the key of the first timer of a kind."""
        heap, bound, end = self._heaps[kind], self._bounds[kind], _range_of(kind)[1]
        if not heap and bound < end:
            heap += self._entries.places(bound, end, _AT_HAND)
            self._entries.get_many([key_of(place)[2] for place in heap])  # each is asked for next
            self._bounds[kind] = end if len(heap) < _AT_HAND else heap[-1] + b"\x00"
        if not heap:
            return None
        _, number, key = key_of(heap[0])
        return (number if kind is int else _float_of(number)), key

    def pop(self, kind: type) -> None:
        """Take the first timer of a kind away."""
        self._entries.put_place(heapq.heappop(self._heaps[kind]), is_there=False)

    def tidy(self) -> None:
        """Places of timers that were moved or cancelled stay on disk until their time."""


def place_of(key: bytes, value: bytes) -> bytes:
    """The place of a timer, by the bytes of its entry."""
    return _place(loads(value), key)


def _place(at: int | float, key: bytes) -> bytes:
    """As the bytes of a tuple of the kind, the time as a number, and the key."""
    return _begin(at) + key + b"\x00"


@lru_cache(maxsize=1000, typed=True)
def _begin(at: int | float) -> bytes:
    number = at if isinstance(at, int) else _number_of(at)
    return prefix_of((_KINDS[type(at)], number))


@lru_cache(maxsize=len(_KINDS))
def _range_of(kind: type) -> tuple[bytes, bytes]:
    return prefix_of((_KINDS[kind],)), prefix_of((_KINDS[kind] + 1,))


def _number_of(at: float) -> int:
    """A number that is in the order of floats."""
    [bits] = _BITS.unpack(_DOUBLE.pack(at))
    number: int = bits ^ _ALL if bits & _SIGN else bits | _SIGN
    return number


def _float_of(number: int) -> float:
    bits = number ^ _SIGN if number & _SIGN else number ^ _ALL
    at: float = _DOUBLE.unpack(_BITS.pack(bits))[0]
    return at
