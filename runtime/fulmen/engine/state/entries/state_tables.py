"""Rows of keyed state that are kept and committed by columns, with no object for each of them.

A table has the entries whose keys are a pair of the same first value and a key: a window, say, and
its users. It is in the checkpoint as other entries are: segments of it are journals beside those of
the rest, and whoever reads them finds keys and values. So it is no matter to the checkpoint whether
entries are in a table; after a restart they are in none.

A segment of a table has no other table's rows, and no row is deleted but with its table. So nothing
need be known of what was deleted: the table's segments are dropped. Which of its segments are
written anew decides `segments.victims`, as for all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise, repeat
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fulmen.engine.state.entries.measures import hashes_of
from fulmen.engine.state.entries.segment_blocks import (
    SEGMENT_BYTES,
    BlockParts,
    Group,
    block_count,
    blocks_of,
    pickled_block,
    segment_of,
)
from fulmen.engine.state.entries.segments import victims
from fulmen.engine.state.entries.value_columns import (
    Column,
    constant_column,
    float_column,
    optional_column,
    text_column,
    tuple_column,
    whole_column,
)

Rows = npt.NDArray[np.intp]
Update = tuple[bytes | None, int]
_FIRST = 256
"""A table begins with room for so many rows."""
_ROW_BYTES = 16
"""What a row takes, about, without its texts."""
_NOWHERE = -1


@dataclass(eq=False, slots=True)
class _Segment:
    """A journal of a table. Attributes as of `segments.Droppable`; `rows`: which are in it."""

    journal: str
    bytes: int
    rows: Rows
    live: int
    alone: bool = False

    @property
    def live_bytes(self) -> float:
        """The size of what no later segment has."""
        return self.bytes * self.live / len(self.rows)


class StateTable:
    """The rows of one table. A row has a place, which it keeps.

    Attributes:
        values: The columns: arrays of whole numbers or floats, with room for more rows.
        there: Which rows have a value, for each column.
        bytes: The size of its segments.
    """

    def __init__(self, prefix: Any, kinds: Sequence[type]) -> None:
        """`prefix`: what all keys begin with. `kinds`: NumPy's, of each column."""
        self._prefix = prefix
        self.values: list[Any] = [np.zeros(_FIRST, kind) for kind in kinds]
        self.there = [np.zeros(_FIRST, np.bool_) for _ in kinds]
        self.bytes = 0
        self._places: dict[Any, int] = {}
        self._texts: pa.Array | None = None  # of the keys, as far as they are known
        self._numbers = np.zeros(0, np.int64)
        self._hashes = np.zeros(0, np.int64)
        self._newest = np.full(_FIRST, _NOWHERE, np.int64)  # the segment of each row
        self._changed = np.zeros(_FIRST, np.bool_)
        self._segments: dict[int, _Segment] = {}
        self._last = _NOWHERE

    def __len__(self) -> int:
        return len(self._places)

    @property
    def keys(self) -> Sequence[Any]:
        """The keys of its rows, in the order of their places."""
        return list(self._places)

    @property
    def journals(self) -> list[str]:
        """The journals that it has in the checkpoint."""
        return [segment.journal for segment in self._segments.values()]

    def places(self, keys: Sequence[Any]) -> Rows:
        """The places of the rows of these keys, which are all texts, or all whole numbers.

        Those that it does not have yet are added. The rows count as changed.
        """
        known = self._places
        found = list(map(known.get, keys, repeat(_NOWHERE)))
        places = np.fromiter(found, np.intp, len(found))
        new = np.flatnonzero(places == _NOWHERE)
        if len(new):
            first = len(known)
            places[new] = np.arange(first, first + len(new))
            added = map(keys.__getitem__, new.tolist())
            known.update(zip(added, range(first, first + len(new)), strict=True))
            self._make_room(len(known))
        self._changed[places] = True
        return places

    def _make_room(self, n: int) -> None:
        if n > len(self._newest):
            more = max(n, 2 * len(self._newest)) - len(self._newest)
            self.values = [_longer(one, more) for one in self.values]
            self.there = [_longer(one, more) for one in self.there]
            self._changed = _longer(self._changed, more)
            self._newest = np.append(self._newest, np.full(more, _NOWHERE, np.int64))

    def updates(self, name: str, number: int, first: int) -> dict[str, Update]:
        """The records for a commit; empty if nothing changed.

        Args:
            name: How journals of the state begin.
            number: The number of the commit.
            first: The number of the first of its segments in that commit.
        """
        changed = np.flatnonzero(self._changed)
        if not len(changed):
            return {}
        self._supersede(changed)
        rows, records = [changed], dict[str, Update]()
        numbers = {id(segment): n for n, segment in self._segments.items()}
        for segment in list(victims(self._segments.values(), len(changed))):
            n = numbers[id(segment)]
            del self._segments[n]
            self.bytes -= segment.bytes
            rows.append(segment.rows[self._newest[segment.rows] == n])
            records[segment.journal] = None, number
        for i, (some, data) in enumerate(self._pieces(np.sort(np.concatenate(rows)))):
            journal = f"{name}.{number}.{first + i}"
            self._last += 1
            self._segments[self._last] = _Segment(journal, len(data), some, len(some))
            self._newest[some] = self._last
            self.bytes += len(data)
            records[journal] = data, 0
        self._changed[:] = False
        return records

    def _supersede(self, rows: Rows) -> None:
        """Note that the newest values of these rows are in none of its segments."""
        numbers, counts = np.unique(self._newest[rows], return_counts=True)
        for one, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            if one != _NOWHERE:
                self._segments[one].live -= count
        self._newest[rows] = _NOWHERE

    # How rows become bytes

    def _pieces(self, rows: Rows) -> Iterator[tuple[Rows, bytes]]:
        """Segments with these rows."""
        self._learn_keys()
        size = _ROW_BYTES * len(self.values) + self._mean_text()
        at_once = max(1, int(SEGMENT_BYTES / size))
        for start in range(0, len(rows), at_once):
            some = rows[start : start + at_once]
            count = block_count(int(len(some) * size))
            if count == 1:
                yield some, segment_of([self._block(some, size)])
                continue
            self._learn_hashes()
            blocks = blocks_of(self._hashes[some], count)
            order = np.argsort(blocks, kind="stable")
            ends = np.searchsorted(blocks[order], np.arange(count + 1)).tolist()
            by_block = some[order]
            yield some, segment_of([self._block(by_block[a:b], size) for a, b in pairwise(ends)])

    def _learn_keys(self) -> None:
        known = len(self._numbers) if self._texts is None else len(self._texts)
        new = list(islice(self._places, known, None))
        if not new:
            return
        if type(new[0]) is str:
            more = pa.array(new, pa.large_string())
            self._texts = more if self._texts is None else pa.concat_arrays([self._texts, more])
        else:
            self._numbers = np.append(self._numbers, np.array(new, np.int64))

    def _learn_hashes(self) -> None:
        new = islice(self._places, len(self._hashes), None)
        keys = list(zip(repeat(self._prefix), new, strict=False))
        self._hashes = np.append(self._hashes, hashes_of(keys))

    def _mean_text(self) -> float:
        return 0.0 if self._texts is None else self._texts.nbytes / len(self._texts)

    def _block(self, rows: Rows, weight: float) -> bytes:
        if not len(rows):
            return b""
        prefix = constant_column(self._prefix)
        keys = tuple_column([prefix, self._keys_at(rows)])
        columns = [_column(*one, rows) for one in zip(self.values, self.there, strict=True)]
        are_plain = len(columns) == 1 and self.there[0][rows].all()
        values = columns[0] if are_plain else tuple_column([*columns, constant_column(None)])
        return pickled_block(BlockParts([Group(weight, len(rows), keys, values)], [], []), {})

    def _keys_at(self, rows: Rows) -> Column:
        if self._texts is None:
            return whole_column(self._numbers[rows])
        texts = self._texts.take(pa.array(rows))
        lengths = pc.utf8_length(texts).to_numpy(zero_copy_only=False).astype(np.int64)
        ends = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset :][: len(texts) + 1]
        data = texts.buffers()[2]
        return text_column(lengths, b"" if data is None else data[ends[0] : ends[-1]].to_pybytes())


def _longer(column: Any, more: int) -> Any:
    return np.append(column, np.zeros(more, column.dtype))


def _column(values: Any, there: Any, rows: Rows) -> Column:
    """The column of some rows, with None for those that have no value."""
    some, has = values[rows], there[rows]
    are_all = has.all()
    if not are_all:
        some = some[has]
    column = float_column(some) if some.dtype == np.float64 else whole_column(some)
    return column if are_all else optional_column(has.astype(np.uint8).tobytes(), column)
