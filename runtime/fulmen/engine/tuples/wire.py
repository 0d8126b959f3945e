"""Rows between stages: bytes to Spark. The first one says what a row is, the rest is ours.

Tuples travel in Arrow as far as possible, at most `ROW_BYTES` a row (unless one tuple alone is
larger). How Python objects become columns is in engine/tuples/encoded_rows.py.
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

from fulmen.engine.tuples.chunk import Columns, Lineage, Positions, Tasks
from fulmen.engine.tuples.encoded_rows import EncodedRows, encode, from_bytes, to_bytes
from fulmen.engine.tuples.salvage import Reasons

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
        rows: The values, if they are Python objects.
        batch: The values, if they are Arrow.
        encoded: The values, if they are Python objects on their way out.
        unreadable: Which values could not be unpickled, and why: column -> position -> reason.
        parents: Root -> the place in a trace that the message came with, of those that did.
    """

    subscription: int
    targets: Tasks
    sources: Tasks
    lineage: Lineage | None
    rows: Sequence[Sequence[Any]] | None = None
    batch: pa.RecordBatch | None = None
    encoded: EncodedRows | None = None
    unreadable: Mapping[int, Reasons] = field(default_factory=dict)
    parents: Mapping[int, Any] = field(default_factory=dict)


def pack_tuples(parcel: Parcel, row_tuples: int = ROW_TUPLES) -> Iterator[bytes]:
    """The rows that carry a parcel; more than one if it is large, or has more than `row_tuples`."""
    n = len(parcel.targets)
    if parcel.rows is not None:
        parcel = replace(parcel, rows=None, encoded=encode(parcel.rows))
    if n > row_tuples:
        for a in range(0, n, row_tuples):
            yield from pack_tuples(part(parcel, a, min(n, a + row_tuples)), row_tuples)
        return
    row = _pack(parcel)
    if len(row) > ROW_BYTES and parcel.batch is not None:
        parcel = replace(parcel, batch=with_small_dictionaries(parcel.batch))
        row = _pack(parcel)
    if len(row) <= ROW_BYTES or n == 1 or _repeats_much(parcel):
        yield row
        return
    parts = min(n, -(-len(row) // ROW_BYTES) + 1)  # halves of halves would be packed many times
    for k in range(parts):
        yield from pack_tuples(part(parcel, n * k // parts, n * (k + 1) // parts), row_tuples)


def with_small_dictionaries(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same values, without those of dictionaries that no row uses: each row carries them."""
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


def _repeats_much(parcel: Parcel) -> bool:
    """Whether dictionaries inside of lists and structs would be in every part: don't divide it."""
    if parcel.batch is None:
        return False
    types = [t for t in parcel.batch.schema.types if not pa.types.is_dictionary(t)]
    return any("dictionary<" in str(t) for t in types)


def part(parcel: Parcel, a: int, b: int) -> Parcel:
    """The tuples `a` to `b` of a parcel."""
    return Parcel(
        parcel.subscription,
        parcel.targets[a:b],
        parcel.sources[a:b],
        parcel.lineage.take(np.arange(a, b)) if parcel.lineage is not None else None,
        parcel.rows[a:b] if parcel.rows is not None else None,
        parcel.batch.slice(a, b - a) if parcel.batch is not None else None,
        parcel.encoded.part(a, b) if parcel.encoded is not None else None,
        parents=parcel.parents,
    )


def select(parcel: Parcel, index: Positions) -> Parcel:
    """The tuples at `index`."""
    rows, at = parcel.rows, index.tolist()
    taken: Sequence[Any] | None = None
    if isinstance(rows, Columns):
        taken = rows.take(at)
    elif rows is not None:
        taken = [rows[i] for i in at]
    return Parcel(
        parcel.subscription,
        parcel.targets[index],
        parcel.sources[index],
        parcel.lineage.take(index) if parcel.lineage is not None else None,
        taken,
        parcel.batch.take(index) if parcel.batch is not None else None,
        parcel.encoded.take(index) if parcel.encoded is not None else None,
        parents=parcel.parents,
    )


def _pack(parcel: Parcel) -> bytes:
    container: Any = None
    codes = ""
    others: list[bytes] = []
    if parcel.encoded is not None:
        container = parcel.encoded.container
        codes, others, arrow = to_bytes(parcel.encoded)
    else:
        assert parcel.batch is not None
        body = pa.BufferOutputStream()
        with pa.ipc.new_stream(body, parcel.batch.schema) as writer:
            writer.write_batch(parcel.batch)
        arrow = body.getvalue().to_pybytes()
    lineage = parcel.lineage
    sources = parcel.sources
    same = len(sources) > 0 and bool((sources == sources[0]).all())
    header = pickle.dumps(
        (
            parcel.subscription,
            len(parcel.targets),
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
    """What `pack_tuples` packed."""
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
    if container is None:
        with pa.ipc.open_stream(arrow) as reader:
            batch = reader.read_next_batch()
        return Parcel(number, task_ids, source_ids, lineage, batch=batch, parents=parents)
    rows, unreadable = from_bytes(codes, container, n, others, arrow)
    return Parcel(
        number, task_ids, source_ids, lineage, rows=rows, unreadable=unreadable, parents=parents
    )


def pack(kind: bytes, value: Any) -> bytes:
    """A row of another kind: acks, a summary for the driver, or why the batch is void."""
    return kind + pickle.dumps(value, 5)


def unpack(row: bytes) -> Any:
    """The value in a row that `pack` made."""
    return pickle.loads(memoryview(row)[1:])
