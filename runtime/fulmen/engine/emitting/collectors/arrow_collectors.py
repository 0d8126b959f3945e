"""The collectors of ArrowSpout and ArrowBolt: record batches to append, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from operator import index
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from typing_extensions import override

from fulmen.api.components.arrow import ArrowOutputCollector, ArrowSpoutCollector
from fulmen.api.declarer import DEFAULT_STREAM
from fulmen.engine.emitting.collectors.bolt_collectors import reason_text
from fulmen.engine.emitting.collectors.emit_buffer import Buffer
from fulmen.engine.emitting.collectors.emitter import CollectorOwner, OwnedCollector, outside
from fulmen.engine.emitting.collectors.spout_collector import unhashable
from fulmen.errors import CollectorError, StreamError


class ArrowEmits(OwnedCollector, ArrowSpoutCollector):
    """The collector of an ArrowSpout: record batches with a column of message ids.

    Attributes:
        emits: (stream, batch, message ids) since they were last taken.
    """

    def __init__(
        self,
        owner: CollectorOwner,
        check_open: Callable[[], None],
        acks_at_once: Callable[[list[Any]], None] | None,
    ) -> None:
        """See SpoutCollector for `check_open` and `acks_at_once`."""
        super().__init__(owner)
        self._check_open = check_open
        self._acks_at_once = acks_at_once
        self.emits: list[tuple[str, pa.RecordBatch, Any]] = []

    @override
    def emit(
        self, batch: pa.RecordBatch, stream: str = DEFAULT_STREAM, msg_ids: Any = None
    ) -> None:
        self._check_open()
        batch = conform(self, batch, stream)
        if msg_ids is not None and len(msg_ids) != batch.num_rows:
            raise StreamError(f"{self.who}: {len(msg_ids)} message ids for {batch.num_rows} rows")
        self._check_hashable(msg_ids)
        self.emits.append((stream, batch, msg_ids))
        if self._acks_at_once is not None and msg_ids is not None:
            tracked = [msg_id for msg_id in listed(msg_ids) if msg_id is not None]
            if tracked:
                self._acks_at_once(tracked)

    def _check_hashable(self, msg_ids: Any) -> None:
        if isinstance(msg_ids, pa.Array | pa.ChunkedArray):
            if not pa.types.is_nested(msg_ids.type):
                return
        elif (isinstance(msg_ids, np.ndarray) and msg_ids.dtype != object) or msg_ids is None:
            return
        for msg_id in listed(msg_ids):
            try:
                hash(msg_id)
            except TypeError:
                raise unhashable(self.who, msg_id) from None


class ArrowCollector(OwnedCollector, ArrowOutputCollector):
    """The collector of an ArrowBolt: emits are kept with the rows that they are anchored to.

    Attributes:
        rows: How many rows the bolt has received; 0 in a tick.
        emits: (stream, batch, for each of its rows the input row that it is anchored to).
        failures: Input row -> reason.
        runs: None. Other collectors have buffers of rows here.
    """

    def __init__(self, owner: CollectorOwner) -> None:
        super().__init__(owner)
        self._open = False
        self.source = ("", "")
        self.rows = 0
        self.emits: list[tuple[str, pa.RecordBatch, npt.NDArray[np.int64]]] = []
        self.failures: dict[int, str] = {}
        self.runs: list[Buffer] = []

    def open(self) -> None:
        """Allow the author's code to emit."""
        self._open = True
        self.emits, self.failures = [], {}

    def close(self) -> None:
        """Forbid the author's code to emit."""
        self._open = False

    def release(self) -> None:
        """Let go of what was emitted, once it is sent."""
        self.emits = []

    @override
    def emit(self, batch: pa.RecordBatch, stream: str = DEFAULT_STREAM, rows: Any = None) -> None:
        who = self.who
        self._check_open()
        batch = conform(self, batch, stream)
        if rows is None:
            if self.rows and batch.num_rows != self.rows:
                raise StreamError(
                    f"{who}: emit of {batch.num_rows} rows for {self.rows} input rows without"
                    " `rows`. Give `rows`: for each emitted row, the number of the input row that"
                    " it is anchored to"
                )
            at = np.arange(batch.num_rows)
        else:
            at = row_numbers(who, rows)
        if len(at) != batch.num_rows or (
            len(at) and self.rows and (at.min() < 0 or at.max() >= self.rows)
        ):
            raise StreamError(
                f"{who}: `rows` must give one number from 0 to {self.rows - 1} for each of"
                f" {batch.num_rows} rows"
            )
        self.emits.append((stream, batch, at))

    @override
    def fail(self, rows: Any, reason: str | BaseException | None = None) -> None:
        self._check_open()
        given = rows if isinstance(rows, Iterable) else [rows]
        numbers = row_numbers(self.who, given).tolist()
        wrong = [row for row in numbers if not 0 <= row < self.rows]
        if wrong:
            raise StreamError(
                f"{self.who}: fail of row {wrong[0]}, but there are {self.rows} input rows,"
                " numbered from 0"
            )
        for row in numbers:
            self.failures.setdefault(row, reason_text(reason))

    def _check_open(self) -> None:
        if not self._open:
            raise CollectorError(outside(self.who))


def row_numbers(who: str, rows: Any) -> npt.NDArray[np.int64]:
    """Numbers of input rows, as an author gave them.

    Raises:
        StreamError: They are no whole numbers: a mask, or some are missing.
    """
    if isinstance(rows, pa.ChunkedArray):
        rows = rows.combine_chunks()
    if isinstance(rows, pa.Array):
        at: npt.NDArray[Any] = rows.to_numpy(zero_copy_only=False)  # of floats, if some are null
    else:
        at = np.asarray(rows if isinstance(rows, np.ndarray) else list(rows))
    if at.dtype.kind == "O" and not any(isinstance(row, bool) for row in at):
        with suppress(TypeError):  # Arrow's scalars are numbers too
            at = np.asarray([index(row) for row in at])
    if len(at) and at.dtype.kind not in "iu":
        raise StreamError(
            f"{who}: rows are given as {at.dtype}, but must be the numbers of rows, from 0. For"
            " a mask, these are np.flatnonzero(mask)"
        )
    return at.astype(np.int64)


@cache
def _can_be_sent(kind: pa.DataType) -> bool:
    """Whether Arrow can choose single rows of such a column, which each grouping takes."""
    try:
        pa.nulls(1, kind).take(pa.array([0]))
    except pa.ArrowNotImplementedError:
        return False
    return True


def conform(collector: OwnedCollector, batch: pa.RecordBatch, stream: str) -> pa.RecordBatch:
    """The batch with the stream's fields in their order.

    Raises:
        StreamError: The stream is not declared or is direct, or the columns are not its fields.
    """
    who = collector.who
    if not isinstance(batch, pa.RecordBatch):
        raise StreamError(
            f"{who}: emit of a {type(batch).__name__}, but it must be a pyarrow.RecordBatch."
            " A table can be divided into them: table.to_batches()"
        )
    routes = collector.routes_of(stream)
    if routes.direct:
        raise StreamError(
            f"{who}: emit of a batch on stream {stream!r}, which is direct: only tuples that"
            " are emitted one by one, with emit_direct(task, ...), can name their task"
        )
    for column in batch.schema:
        if not _can_be_sent(column.type):
            raise StreamError(
                f"{who}: column {column.name!r} is of the type {column.type}, of which Arrow"
                " can't choose single rows. Cast it to another one, such as string"
            )
    if tuple(batch.schema.names) == routes.fields:
        return batch
    if sorted(batch.schema.names) != sorted(routes.fields):
        raise StreamError(
            f"{who}: a batch with the columns {batch.schema.names} on stream {stream!r},"
            f" which has the fields {list(routes.fields)}"
        )
    return batch.select(list(routes.fields))


def listed(column: Any) -> list[Any]:
    """A column of message ids or row numbers as a list of Python objects."""
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return cast(list[Any], column.to_pylist())
    if isinstance(column, np.ndarray):
        return cast(list[Any], column.tolist())
    return list(cast(Iterable[Any], column))
