"""Rows between stages: bytes to Spark. The first one says what a row is, the rest is ours.

Tuples travel in Arrow as far as possible, at most `ROW_BYTES` a row (unless one tuple alone is
larger). How Python objects become columns is in engine/tuples/columns.py.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fulmen.engine.tuples.chunk import Lineage, Positions, Tasks
from fulmen.engine.tuples.columns import from_bytes, to_bytes
from fulmen.engine.tuples.salvage import Reasons
from fulmen.engine.tuples.tuple_rows import TupleRows

ROW_BYTES = 1 << 20
ROW_TUPLES = 1 << 15

TUPLES, ACKS, SUMMARY, VOID, FAILED, CALL = b"T", b"A", b"S", b"V", b"F", b"C"

_LENGTH = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Parcel:
    """Tuples of one subscription on their way to one worker.

    Attributes:
        subscription: Its number in the topology.
        targets: The receiving task of each tuple.
        sources: The task that emitted it.
        lineage: None: none of them is tracked.
        rows: The values.
        unreadable: Which values could not be unpickled, and why: column -> position -> reason.
        parents: Root -> the place in a trace that the message came with, of those that did.
    """

    subscription: int
    targets: Tasks
    sources: Tasks
    lineage: Lineage | None
    rows: TupleRows
    unreadable: Mapping[int, Reasons] = field(default_factory=dict)
    parents: Mapping[int, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.targets)

    def take(self, at: Positions | slice) -> Parcel:
        """Take some of the tuples, by their positions."""
        lineage = self.lineage
        if lineage is not None:
            lineage = lineage.take(np.arange(len(self))[at] if isinstance(at, slice) else at)
        return replace(
            self,
            targets=self.targets[at],
            sources=self.sources[at],
            lineage=lineage,
            rows=self.rows.take(at),
            unreadable={},
        )


def concat(parts: Sequence[Parcel]) -> Parcel:
    """The tuples of all parts, one after another: of one subscription, without parents."""
    first = parts[0]
    if len(parts) == 1:
        return first
    return Parcel(
        first.subscription,
        np.concatenate([part.targets for part in parts]),
        np.concatenate([part.sources for part in parts]),
        Lineage.concat([(part.lineage, len(part)) for part in parts]),
        TupleRows.concat([part.rows for part in parts]),
    )


def pack_tuples(parcel: Parcel, row_tuples: int = ROW_TUPLES) -> Iterator[bytes]:
    """The rows that carry a parcel; more than one if it is large, or has more than `row_tuples`."""
    n = len(parcel)
    parcel = replace(parcel, rows=parcel.rows.encoded())
    if n > row_tuples:
        for a in range(0, n, row_tuples):
            yield from pack_tuples(parcel.take(slice(a, min(n, a + row_tuples))), row_tuples)
        return
    row = _pack(parcel)
    arrow = parcel.rows.arrow
    if len(row) > ROW_BYTES and arrow is not None:
        parcel = replace(parcel, rows=TupleRows.of_arrow(with_small_dictionaries(arrow)))
        row = _pack(parcel)
    if len(row) <= ROW_BYTES or n == 1 or (arrow is not None and _repeats_much(arrow)):
        yield row
        return
    parts = min(n, -(-len(row) // ROW_BYTES) + 1)  # halves of halves would be packed many times
    for k in range(parts):
        some = parcel.take(slice(n * k // parts, n * (k + 1) // parts))
        yield from pack_tuples(some, row_tuples)


def with_small_dictionaries(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Drop values of dictionaries that no row uses: each row would carry them."""
    columns = [
        _with_small_dictionary(c) if pa.types.is_dictionary(c.type) else c for c in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _with_small_dictionary(column: pa.DictionaryArray) -> pa.DictionaryArray:
    used = column.indices.unique().drop_null().sort()
    if len(used) == len(column.dictionary):
        return column
    indices = pc.index_in(column.indices, used).cast(column.type.index_type)
    return pa.DictionaryArray.from_arrays(
        indices, column.dictionary.take(used), ordered=column.type.ordered
    )


def _repeats_much(batch: pa.RecordBatch) -> bool:
    """Whether dictionaries inside of lists and structs would be in every part: don't divide it."""
    types = [t for t in batch.schema.types if not pa.types.is_dictionary(t)]
    return any("dictionary<" in str(t) for t in types)


def _pack(parcel: Parcel) -> bytes:
    rows, lineage, sources = parcel.rows, parcel.lineage, parcel.sources
    if rows.arrow is None:
        container: Any = rows.container
        codes, others, arrow = to_bytes(rows.encoded().kept_columns or ())
    else:
        container, codes, others = None, "", []
        body = pa.BufferOutputStream()
        with pa.ipc.new_stream(body, rows.arrow.schema) as writer:
            writer.write_batch(rows.arrow)
        arrow = body.getvalue().to_pybytes()
    same = len(sources) > 0 and bool((sources == sources[0]).all())
    header = pickle.dumps(
        (
            parcel.subscription,
            len(parcel),
            parcel.targets.tobytes(),
            int(sources[0]) if same else sources.tobytes(),
            None if lineage is None else lineage.roots.tobytes(),
            None if lineage is None else lineage.edges.tobytes(),
            None if lineage is None or lineage.offsets is None else lineage.offsets.tobytes(),
            container,
            codes,
            others,
            parcel.parents,
        ),
        5,
    )
    return b"".join((TUPLES, _LENGTH.pack(len(header)), header, arrow))


def unpack_tuples(row: bytes) -> Parcel:
    """Read what `pack_tuples` packed."""
    (length,) = _LENGTH.unpack_from(row, 1)
    start = 1 + _LENGTH.size
    (number, n, targets, sources, roots, edges, offsets, container, codes, others, parents) = (
        pickle.loads(memoryview(row)[start : start + length])
    )
    lineage = None
    if roots is not None:
        lineage = Lineage(
            np.frombuffer(roots, np.uint64),
            np.frombuffer(edges, np.uint64),
            None if offsets is None else np.frombuffer(offsets, np.int64),
        )
    task_ids = np.frombuffer(targets, np.int32)
    source_ids = (
        np.full(n, sources, np.int32)
        if isinstance(sources, int)
        else np.frombuffer(sources, np.int32)
    )
    arrow = pa.py_buffer(row).slice(start + length)
    unreadable: Mapping[int, Reasons] = {}
    if container is None:
        with pa.ipc.open_stream(arrow) as reader:
            rows = TupleRows.of_arrow(reader.read_next_batch())
    else:
        columns, unreadable = from_bytes(codes, others, arrow)
        rows = TupleRows.of_columns(columns, container, n, is_encoded=True)
    return Parcel(number, task_ids, source_ids, lineage, rows, unreadable, parents)


def pack(kind: bytes, value: Any) -> bytes:
    """A row of another kind: acks, a summary for the driver, or why the batch is void."""
    return kind + pickle.dumps(value, 5)


def unpack(row: bytes) -> Any:
    """The value in a row that `pack` made."""
    return pickle.loads(memoryview(row)[1:])
