"""What is known of a key whose value is on disk, and of the segments that it may be in. Pure."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from fulmen.engine.state.entries.segment_blocks import BlockContent

NOWHERE = 0
"""The segment of a key of which nothing is known but that it is in some segments."""
_RECORD = struct.Struct("<IIH")


class EntryRecord(NamedTuple):
    """What is known of a key.

    Attributes:
        segment: The number of the segment with its newest value.
        size: What it takes there, in comparison.
        stale: How many other segments have it.
        data: The value, pickled; empty: it was deleted.
    """

    segment: int
    size: int
    stale: int
    data: bytes

    def pack(self) -> bytes:
        """Turn it into bytes."""
        return _RECORD.pack(self.segment, self.size, self.stale) + self.data

    @staticmethod
    def read(data: bytes) -> EntryRecord:
        """Read what `pack` gave."""
        segment, size, stale = _RECORD.unpack_from(data)
        return EntryRecord(segment, size, stale, data[_RECORD.size :])


@dataclass(eq=False, slots=True)
class DiskSegment:
    """One journal of the checkpoint.

    Attributes:
        number: Its number in the store.
        journal: Its name.
        bytes: Its size.
        alone: It is for one large value.
        whole: The sizes of all its keys, in comparison.
        live: How many of its keys no later segment has.
        left: The sizes of these.
        tag: The tag of the commit that has written it.
    """

    number: int
    journal: str
    bytes: int
    alone: bool = False
    whole: int = 0
    live: int = 0
    left: int = 0
    tag: str = ""

    @property
    def live_bytes(self) -> float:
        """The size of what no later segment has."""
        return self.bytes * self.left / max(1, self.whole)


class SegmentSource(Protocol):
    """The segments of a keyed state in the checkpoint."""

    journals: Sequence[str]

    def tag_of(self, journal: str) -> str:
        """The tag of the commit that has written it."""
        ...

    def tag_at(self, number: int) -> str | None:
        """The tag of a commit; None: that is not known any more."""
        ...

    def read(self, journals: Sequence[str]) -> Iterator[tuple[str, int, Iterator[BlockContent]]]:
        """Each of these journals, its size and what is in it, with pickled values."""
        ...


def age_of(journal: str) -> tuple[int, int]:
    """The number of the commit that has written a segment, and its place in that."""
    _, number, place, *_ = journal.split(".")
    return int(number), int(place)
