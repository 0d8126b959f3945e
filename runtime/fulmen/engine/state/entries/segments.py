"""Which segments of a keyed state the checkpoint holds, and which of them are written anew. Pure.

A segment is what one commit has written: keys with their values, and keys that were deleted. It is
never changed, only dropped as a whole. So that the checkpoint stays in proportion to the state,
some segments are dropped with each commit, and what is still needed of them is written with what
has changed:

- One of which nothing is needed any more.
- Eight small ones of about the same size, which become one. So there are few.
- Those of which least is needed, while all together are larger than `MOST_WASTE` times what is
  needed. A batch writes in proportion to what it changed, since only changes make waste. When keys
  have moved to other tasks there is much of it at once: then it goes bit by bit.

A large value is in a segment of its own: it is written when it changes, and never again.

A key that was deleted must stay known for as long as an older segment holds a value of it. That is
why the copies of each key that nobody needs any more are counted.

Rejected: writing all keys anew, a few with each commit (the log is several times the state, and
each restart begins again); a segment for each hash of keys (a commit would write to all of them).
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, compress, filterfalse, repeat
from operator import is_, is_not, not_
from typing import Any, Final, NamedTuple, Protocol, TypeVar

FULL_BYTES = 1 << 20
"""A segment of this size or more is not merged with others of its size."""
MOST_WASTE = 1.6
FREE_BYTES = 16 << 10
"""So much more may be there in any case."""
REWRITTEN_BYTES = 512 << 10
"""So much of what is still needed is written anew with a commit, about, to be rid of waste."""
REWRITTEN_TIMES = 4
"""Or so many times what has changed. More than what changes makes: there is always less waste."""
ALONE_BYTES = 64 << 10
"""A value of this size or more has a segment of its own."""
_OF_A_SIZE = 8
GONE: Final = object()
"""In place of the value of a key that was deleted."""


class Droppable(Protocol):
    """What is known of a segment, from which it follows whether it is dropped."""

    @property
    def bytes(self) -> int:
        """Its size."""
        ...

    @property
    def alone(self) -> bool:
        """Whether it is for one large value."""
        ...

    @property
    def live(self) -> int:
        """How many of its keys no later segment has."""
        ...

    @property
    def live_bytes(self) -> float:
        """The size of these."""
        ...


S = TypeVar("S", bound=Droppable)


@dataclass(eq=False, slots=True)
class Segment:
    """One journal of the checkpoint.

    Attributes:
        journal: Its name.
        bytes: Its size.
        alone: It is for one large value.
        parts: What is in it.
    """

    journal: str
    bytes: int
    alone: bool = False
    parts: list[SegmentPart] = field(default_factory=list)

    @property
    def live(self) -> int:
        """How many of its keys no later segment has."""
        return sum(part.live for part in self.parts)

    @property
    def live_bytes(self) -> float:
        """The size of these."""
        return sum(part.live * part.mean for part in self.parts)


@dataclass(eq=False, slots=True)
class SegmentPart:
    """Keys of a segment that take about the same.

    Attributes:
        keys: They, deleted ones as well.
        mean: What one of them takes on average.
        live: How many of them no later segment has.
    """

    keys: Sequence[Hashable]
    mean: float
    live: int = 0


class SegmentUpdate(NamedTuple):
    """The part of keyed state that a commit has to write.

    Attributes:
        values: Keys and values.
        deleted: Keys that older segments have, and the state has not.
        dropped: Journals that nobody needs any more.
    """

    values: dict[Any, Any]
    deleted: list[Any]
    dropped: list[str]


class Segments:
    """The segments of one keyed state.

    Attributes:
        bytes: The size of all segments.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._segments: dict[str, Segment] = {}
        self._places: dict[Any, SegmentPart] = {}  # of keys: in the newest segment that has them
        self._stale: Counter[Any] = Counter()  # how many older segments have them as well

    def add(
        self,
        journal: str,
        size: int,
        parts: Iterable[tuple[float, Sequence[Any]]],
        others: float = 0.0,
    ) -> None:
        """Add a segment that was written of what `turn` gave.

        Args:
            journal: Its journal.
            size: The size in bytes.
            parts: Keys, and about how many bytes one of them takes in comparison.
            others: The same of all keys in it that belong to other tasks: they are waste here.
        """
        by_weight: dict[float, list[Sequence[Any]]] = {}
        for weight, keys in parts:
            by_weight.setdefault(weight, []).append(keys)
        alike = {
            weight: lists[0] if len(lists) == 1 else [*chain.from_iterable(lists)]
            for weight, lists in by_weight.items()
        }
        number = sum(map(len, alike.values()))
        whole = sum((weight * len(keys) for weight, keys in alike.items()), others) or 1.0
        alone = size >= ALONE_BYTES and number == 1
        self.bytes += size
        segment = self._segments[journal] = Segment(journal, size, alone)
        for weight, keys in alike.items():
            part = SegmentPart(keys, weight * size / whole, len(keys))
            segment.parts.append(part)
            self._places.update(zip(keys, repeat(part)))

    def restore(
        self, journal: str, size: int, parts: Sequence[tuple[float, Sequence[Any]]], others: float
    ) -> None:
        """Add a segment that was read, as `add`. They must come in the order of their commits."""
        for _, keys in parts:
            self._supersede(keys)
        self.add(journal, size, parts, others)

    def _supersede(self, keys: Collection[Any]) -> None:
        """Forget where the newest of these keys are: they are in older segments by now."""
        places = self._places
        if not places:
            return
        before = list(map(places.pop, keys, repeat(None)))
        if not any(before):
            return
        for part, number in Counter(before).items():
            if part is not None:
                part.live -= number
        self._stale.update(compress(keys, before))

    def turn(self, changed: dict[Any, Any], state: Mapping[Any, Any]) -> SegmentUpdate:
        """Take the changes for the next commit.

        Args:
            changed: The keys that were assigned since the last one, with their values, and those
                that were deleted, with `GONE`. It is used up.
            state: What is kept now.
        """
        if len(self._places) + len(changed) != len(state):  # else no segment has any of them
            self._supersede(changed)
        dropped = list(victims(self._segments.values(), len(changed)))
        for segment in dropped:
            del self._segments[segment.journal]
            self.bytes -= segment.bytes
        if dropped and not self._segments:  # all is written anew: nothing of before matters
            self._places, self._stale = {}, Counter()
            return SegmentUpdate(dict(state), [], [segment.journal for segment in dropped])
        gone = [key for key, value in changed.items() if value is GONE]
        _forget(changed, gone)
        for segment in dropped:
            for part in segment.parts:
                _sort(self._taken_from(part, state), state, changed, gone)
        deleted = [key for key in gone if key in self._stale]
        return SegmentUpdate(changed, deleted, [segment.journal for segment in dropped])

    def _taken_from(self, part: SegmentPart, state: Mapping[Any, Any]) -> Sequence[Any]:
        """Forget a part of a segment; gives the keys that no later one has."""
        places, stale, keys = self._places, self._stale, part.keys
        is_newest = list(map(is_, map(places.get, keys), repeat(part)))
        newest = list(compress(keys, is_newest))
        others = list(compress(keys, map(not_, is_newest)))
        _forget(places, newest)
        left = list(map((1).__lt__, map(stale.__getitem__, others)))
        stale.subtract(compress(others, left))
        ended = list(compress(others, map(not_, left)))
        _forget(stale, ended)
        # What is deleted where it never was need not be known any more.
        self._supersede(list(filterfalse(state.__contains__, ended)))
        return newest


def victims(segments: Iterable[S], changed: int, full_bytes: int = FULL_BYTES) -> Iterator[S]:
    """Those of all segments of a keyed state that are dropped with a commit.

    Args:
        segments: All of them.
        changed: How many keys have changed.
        full_bytes: One of this size or more is not merged with others of its size.
    """
    total, needed, keys = 0, 0.0, changed
    rest: list[S] = []
    small: dict[int, list[S]] = defaultdict(list)
    for segment in segments:
        if not segment.live:
            yield segment
            continue
        total += segment.bytes
        needed += segment.live_bytes
        keys += segment.live
        if not segment.alone:
            of_size = rest if segment.bytes >= full_bytes else small[_size_class(segment)]
            of_size.append(segment)
    for alike in small.values():
        if len(alike) >= _OF_A_SIZE:
            total -= sum(segment.bytes - int(segment.live_bytes) for segment in alike)
            yield from alike
        else:
            rest += alike
    most = MOST_WASTE * needed + FREE_BYTES
    if total > most:
        room = max(REWRITTEN_BYTES, REWRITTEN_TIMES * changed * needed / keys)
        for segment in sorted(rest, key=lambda s: s.live_bytes / s.bytes):
            if total <= most or room <= 0:
                return
            room -= segment.live_bytes
            total -= segment.bytes - int(segment.live_bytes)
            yield segment


def _sort(
    keys: Collection[Any], state: Mapping[Any, Any], values: dict[Any, Any], gone: list[Any]
) -> None:
    """Add keys with their values to `values`, and those that the state has not to `gone`."""
    current = list(map(state.get, keys, repeat(GONE)))
    is_here = list(map(is_not, current, repeat(GONE)))
    if all(is_here):
        values.update(zip(keys, current, strict=True))
        return
    values.update(compress(zip(keys, current, strict=True), is_here))
    gone += compress(keys, map(not_, is_here))


def _forget(known: dict[Any, Any], keys: Iterable[Any]) -> None:
    """Delete keys; Python runs once, and not for each."""
    deque(map(known.pop, keys, repeat(None)), maxlen=0)


def _size_class(segment: Droppable) -> int:
    return segment.bytes.bit_length() // 3
