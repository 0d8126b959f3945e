"""The messages of one task whose trees have not ended: a durable log of changes.

What ends before the commit of the batch in which it was added is in no commit.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from fulmen.checkpoint.rewriting import RewritePolicy
from fulmen.engine.state.messages.id_runs import joined_ids, runs_of
from fulmen.engine.state.messages.message_ids import MessageIds
from fulmen.engine.state.messages.result_rows import Parts, ResultRows
from fulmen.engine.state.pickling import IDS, dumps, made_of
from fulmen.engine.state.values.renamed_classes import loads
from fulmen.engine.tuples.chunk import Ranges
from fulmen.errors import NotReadable, repr_of, text_of

Run = list[Any] | range | ResultRows
Record = tuple[list[tuple[int, list[Any] | range | Parts]], Ranges | None]
"""Runs of messages, each with its first sequence number, and what has ended; None: nothing."""
_ENDED = object()
_NO_RANGES: Ranges = np.empty((0, 2), np.int64)


def _merged(ranges: Ranges) -> Ranges:
    """Ranges in ascending order; those that touch or overlap are one."""
    if len(ranges) < 2:
        return ranges
    ranges = ranges[np.argsort(ranges[:, 0], kind="stable")]
    ends = np.maximum.accumulate(ranges[:, 1])
    gaps = np.flatnonzero(ranges[1:, 0] > ends[:-1]) + 1
    firsts, lasts = np.concatenate(([0], gaps)), np.concatenate((gaps - 1, [len(ends) - 1]))
    return np.stack([ranges[firsts, 0], ends[lasts]], axis=1)


def _written(runs: Sequence[tuple[int, Run]], ended: Ranges | None) -> Record:
    return [(n, run.parts if isinstance(run, ResultRows) else run) for n, run in runs], ended


def _read(run: list[Any] | range | Parts) -> Run:
    return run if isinstance(run, list | range) else ResultRows.of(*run)


def _pickled(runs: list[tuple[int, Run]], ended: Ranges | None, ids: MessageIds) -> bytes:
    try:
        return dumps(_written(runs, ended), {}, {IDS: ids})
    except NotReadable:
        for _, msg_ids in runs:
            for msg_id in msg_ids:
                _check(msg_id)
        raise


def _check(msg_id: Any) -> None:
    try:
        dumps(msg_id, {})
    except NotReadable as e:
        raise NotReadable(f"message id {repr_of(msg_id)} can't be kept ({text_of(e)})") from e


class PendingMessages:
    """Message ids by sequence number.

    They are kept in segments, one for each list or range of emits: an ack costs next to nothing.

    Attributes:
        count: How many there are.
        ids: Those that are equal to themselves alone.
    """

    def __init__(self, ids: MessageIds | None = None) -> None:
        self.count = 0
        self.ids = MessageIds() if ids is None else ids
        self._segments: dict[int, Run] = {}
        self._left: dict[int, int] = {}
        self._added: list[int] = []
        self._ended: list[Ranges] = []
        self._policy = RewritePolicy()

    def add(self, first: int, msg_ids: Sequence[Any]) -> None:
        """Add emitted messages, with consecutive sequence numbers from `first`."""
        for run in runs_of(msg_ids):
            if n := len(run):
                kept = run if isinstance(run, range | ResultRows) else list(run)
                self._segments[first] = kept
                self._left[first] = n
                self._added.append(first)
                self.count += n
                first += n

    def end(
        self, ranges: Ranges, apart: Sequence[int] = ()
    ) -> tuple[Sequence[Any], list[tuple[int, Any]]]:
        """Forget the messages of these sequence numbers: their trees have ended.

        Args:
            ranges: Of sequence numbers.
            apart: More of them, ascending. With those, segments end as a whole as a rule.

        Returns:
            The message ids of the ranges; each number of the others with its message id.
        """
        if len(apart):
            numbers = np.array(apart, np.int64)
            ranges = np.concatenate([ranges, np.stack([numbers, numbers + 1], axis=1)])
        if not len(ranges):
            return [], []
        self._note_end(ranges := _merged(ranges))
        return self._take(ranges, apart)

    def _note_end(self, ranges: Ranges) -> None:
        """Have the next record say that these have ended, without those that no record has."""
        if self._added:
            ranges = np.minimum(ranges, self._added[0])
            ranges = ranges[ranges[:, 0] < ranges[:, 1]]
        if len(ranges):
            self._ended.append(ranges)

    def forget(self, ranges: Ranges) -> None:
        """Do as `end` does, for those who don't ask which messages these were."""
        if not len(ranges):
            return
        self._note_end(ranges := _merged(ranges))
        for start, places in self._places(ranges).items():
            segment = self._segments[start]
            n = sum(b - a for a, b in places)
            if self._left[start] != len(segment):
                n -= sum(list(segment[a:b]).count(_ENDED) for a, b in places)
            self._forget(start, places, n)

    def end_singly(self, sequences: Sequence[int]) -> list[tuple[int, Any]]:
        """End single sequence numbers, ascending: gives each with its message id."""
        return self.end(_NO_RANGES, sequences)[1]

    def find(self, sequences: Sequence[int]) -> Iterator[tuple[int, Any]]:
        """Messages among these ascending sequence numbers that have not ended, with their ids."""
        for start, some in self._by_segment(np.array(sequences, np.int64)):
            segment = self._segments[start]
            for sequence in some:
                if (msg_id := segment[sequence - start]) is not _ENDED:
                    yield sequence, msg_id

    def replace(self, sequence: int, msg_id: Any) -> None:
        """Have another message id for one that is pending, and that no commit has yet."""
        for start, some in self._by_segment(np.array([sequence], np.int64)):
            self._changeable(start)[some[0] - start] = msg_id

    def _changeable(self, start: int) -> list[Any]:
        """A segment as a list, in place of what it was."""
        segment = self._segments[start]
        if not isinstance(segment, list):
            segment = self._segments[start] = list(segment)
        return segment

    def _by_segment(self, numbers: npt.NDArray[np.int64]) -> Iterator[tuple[int, list[int]]]:
        """Group ascending numbers by segment: yield the start of each, and its numbers."""
        starts, sequences = sorted(self._segments), numbers.tolist()
        places = np.searchsorted(np.array(starts, np.int64), numbers, "right") - 1
        cuts = [0, *(np.flatnonzero(np.diff(places)) + 1).tolist(), len(sequences)]
        for a, b in pairwise(cuts if sequences else ()):
            if (place := int(places[a])) >= 0:
                start = starts[place]
                end = start + len(self._segments[start])
                some = sequences[a : bisect_left(sequences, end, a, b)]
                if some:
                    yield start, some

    def _take(
        self, ranges: Ranges, apart: Sequence[int] = ()
    ) -> tuple[Sequence[Any], list[tuple[int, Any]]]:
        taken: list[Sequence[Any]] = []
        singly: list[tuple[int, Any]] = []
        for start, places in self._places(ranges).items():
            segment, before = self._segments[start], len(singly)
            parts: list[Sequence[Any]] = []
            for a, b in places:
                low, high = bisect_left(apart, start + a), bisect_left(apart, start + b)
                for number in apart[low:high]:
                    parts.append(segment[a : (place := number - start)])
                    singly.append((number, segment[place]))
                    a = place + 1
                parts.append(segment[a:b])
            if self._left[start] != len(segment):
                some = chain.from_iterable(parts)
                parts = [[msg_id for msg_id in some if msg_id is not _ENDED]]
                singly[before:] = [one for one in singly[before:] if one[1] is not _ENDED]
            taken += parts
            self._forget(start, places, sum(map(len, parts)) + len(singly) - before)
        return joined_ids(taken), singly

    def _places(self, ranges: Ranges) -> dict[int, list[tuple[int, int]]]:
        """Segment -> the parts of it that are in ranges, which ascend; of those that are in any."""
        starts = sorted(self._segments)
        if len(ranges) == 1:  # as in most light batches: a third of the time
            [[first, end]] = ranges.tolist()
            at, until = max(bisect_right(starts, first) - 1, 0), bisect_left(starts, end)
            return self._parts([(first, end, at, until)], starts)
        known = np.array(starts, np.int64)
        begins, ends = ranges[:, 0], ranges[:, 1]
        firsts = np.maximum(np.searchsorted(known, begins, "right") - 1, 0)
        lasts = np.searchsorted(known, ends, "left")
        columns = (begins.tolist(), ends.tolist(), firsts.tolist(), lasts.tolist())
        return self._parts(zip(*columns, strict=True), starts)

    def _parts(
        self, spans: Iterable[tuple[int, int, int, int]], starts: Sequence[int]
    ) -> dict[int, list[tuple[int, int]]]:
        """The parts of ranges with the places in `starts` that they reach from and to."""
        parts: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for first, end, at, until in spans:
            for start in starts[at:until]:
                a, b = first - start, end - start
                if a < 0:  # comparing is quicker than max and min
                    a = 0
                if b > (length := len(self._segments[start])):
                    b = length
                if a < b:
                    parts[start].append((a, b))
        return parts

    def _forget(self, start: int, places: Sequence[tuple[int, int]], n: int) -> None:
        """Forget the messages at these places of a segment: `n` that had not ended yet."""
        self.count -= n
        self._left[start] -= n
        if self._left[start] == 0:
            del self._segments[start], self._left[start]
            return
        segment = self._changeable(start)
        for a, b in places:
            segment[a:b] = [_ENDED] * (b - a)

    def numbers(self) -> Iterator[int]:
        """The sequence numbers of those that have not ended."""
        for first, msg_ids in self.alive():
            yield from range(first, first + len(msg_ids))

    def msg_ids(self) -> Iterator[Any]:
        """The ids of those that have not ended."""
        for _, msg_ids in self.alive():
            yield from msg_ids

    def alive(self) -> list[tuple[int, Run]]:
        """Runs of messages that have not ended."""
        return self._alive(sorted(self._segments))

    def _alive(self, starts: Iterable[int]) -> list[tuple[int, Run]]:
        """Those of the segments with these starts."""
        runs: list[tuple[int, Run]] = []
        for start in starts:
            segment = self._segments[start]
            if self._left[start] == len(segment):
                runs.append((start, segment))
                continue
            run: list[Any] = []
            for i, msg_id in enumerate(segment):
                if msg_id is not _ENDED:
                    run.append(msg_id)
                elif run:
                    runs.append((start + i - len(run), run))
                    run = []
            if run:
                runs.append((start + len(segment) - len(run), run))
        return runs

    def record(self, number: int) -> tuple[bytes, int] | None:
        """The record for commit `number`; None if nothing changed.

        Returns:
            The record, and from which commit on records are still needed.
        """
        new = [first for first in self._added if first in self._segments]
        if not new and not self._ended:
            self._added = []
            return None
        added = sum(self._left[first] for first in new)
        if self._policy.rewrite(self.count, added + sum(map(len, self._ended))):
            runs = self.alive()
            self._segments = dict(runs)
            self._left = {start: len(run) for start, run in runs}
            data, keep_from = _pickled(runs, None, self.ids), number
        else:
            ended = np.concatenate([*self._ended, _NO_RANGES])
            data, keep_from = _pickled(self._alive(new), ended, self.ids), 0
        self._added, self._ended = [], []
        return data, keep_from

    @staticmethod
    def ids_in(record: Record) -> dict[int, Any]:
        """The message ids in a record, by sequence number."""
        runs, _ = record
        return {n: msg_id for first, run in runs for n, msg_id in enumerate(_read(run), first)}

    def replay(self, record: Record, kept: Mapping[int, Any] | None = None) -> None:
        """Add what a record says.

        Args:
            record: The record.
            kept: Those of `ids_in` that stay; None: all.
        """
        runs, ended = record
        for first, run in runs:
            msg_ids = _read(run)
            self.add(first, msg_ids)
            if kept is not None:
                gone = [n for n in range(first, first + len(msg_ids)) if n not in kept]
                self._forget(first, [(n - first, n - first + 1) for n in gone], len(gone))
        if ended is not None:
            self._take(_merged(ended))

    def everything(self) -> Record:
        """All that are pending, as one record."""
        return _written(self.alive(), None)

    @staticmethod
    def restore(records: Sequence[bytes], ids: MessageIds | None = None) -> PendingMessages:
        """Restore from these records, in their order."""
        pending = PendingMessages(ids)
        pending._policy = RewritePolicy(len(records))
        for data in records:
            with made_of({IDS: pending.ids}):
                pending.replay(loads(data))
        pending._added, pending._ended = [], []
        return pending
