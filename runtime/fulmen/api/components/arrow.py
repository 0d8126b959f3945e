"""Spouts and bolts that emit and receive Arrow record batches: many rows in one call."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fulmen.api.collector import ErrorCollector
from fulmen.api.components.bolts import AnyBolt
from fulmen.api.components.spout import Spout
from fulmen.api.context import TopologyContext

if TYPE_CHECKING:  # neither the operator nor most topologies need it
    import pyarrow as pa


class ArrowSpout(Spout):
    """A spout whose `next_tuple` emits Arrow record batches, with one message id for each row.

    `collector.emit(batch, msg_ids=...)`: the batch's columns are the stream's fields, in any order.
    `msg_ids` is a column of as many ids (an Arrow array, a NumPy array, a range or a list), or None
    for rows that are not tracked. `ack_batch` and `fail` are told how they ended.
    """


class ArrowBolt(AnyBolt):
    """A bolt that receives Arrow record batches. Anchors and acks for you, as a BasicBolt does."""

    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        """Called as `Bolt.prepare`, without a collector: `execute` is given one."""

    @abstractmethod
    def execute(self, batch: pa.RecordBatch, collector: ArrowOutputCollector) -> None:
        """Process the rows that one task received, of one stream of one component.

        `collector.source` is that (component, stream). All rows are acked when this returns, except
        those given to `collector.fail(rows, reason)`. An exception fails all of them.

        A column has one type. A row of a sender that is no Arrow component may have a value of
        another type than most rows: it fails, and is not in the batch.
        """

    def tick(self, collector: ArrowOutputCollector) -> None:
        """Called when a tick is due (spec: `tickSeconds`)."""

    def end_batch(self, collector: ArrowOutputCollector) -> None:
        """Called as `BasicBolt.end_batch`."""

    def on_timer(self, key: Any, at: float, collector: ArrowOutputCollector) -> None:
        """Called as `BasicBolt.on_timer`."""

    def drain(self, collector: ArrowOutputCollector) -> None:
        """Called as `BasicBolt.drain`."""

    def cleanup(self) -> None:
        """Called before the instance is dropped, if there is time. An exception is reported."""


class ArrowSpoutCollector(ErrorCollector):
    """Given to `ArrowSpout.open`."""

    @abstractmethod
    def emit(self, batch: pa.RecordBatch, stream: str = "default", msg_ids: Any = None) -> None:
        """Send each row of `batch` as a tuple.

        Args:
            batch: Its columns are the stream's fields, by name.
            stream: A stream that this component declares, and not a direct one.
            msg_ids: As many message ids as rows, or None: the rows are not tracked.

        Raises:
            StreamError: `stream` is not declared or is direct, the columns are not its fields, or
                there are not as many message ids as rows.
            CollectorError: Not in a callback.
        """


class ArrowOutputCollector(ErrorCollector):
    """Given to `ArrowBolt.execute`, `tick`, `end_batch` and `drain`."""

    source: tuple[str, str]
    """The (component, stream) of the current rows."""

    @abstractmethod
    def emit(self, batch: pa.RecordBatch, stream: str = "default", rows: Any = None) -> None:
        """Send each row of `batch` as a tuple.

        Args:
            batch: Its columns are the stream's fields, by name.
            stream: A stream that this component declares, and not a direct one.
            rows: For each emitted row, the number of the input row that it is anchored to (an Arrow
                or NumPy array of integers). None: emitted row i is anchored to input row i, and
                there must be as many.

        Raises:
            StreamError: `stream` is not declared or is direct, the columns are not its fields, or
                `rows` does not fit.
            CollectorError: Not in `execute`, `tick` or `drain`.
        """

    @abstractmethod
    def fail(self, rows: Any, reason: str | BaseException | None = None) -> None:
        """Fail the input rows with these numbers; the others are acked.

        Args:
            rows: One number, or an Arrow array, a NumPy array, a range, a list or anything else of
                numbers, from 0. If a row is failed twice, the first reason counts.
            reason: What the spout gets, at most 500 characters, or the exception. Default: "failed
                by the bolt".

        Raises:
            StreamError: There is no row of such a number, or `rows` is a mask instead of numbers.
            CollectorError: Not in `execute`, `tick` or `drain`.
        """
