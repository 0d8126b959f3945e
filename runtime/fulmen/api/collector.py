"""Collectors, with which a component emits, acks and fails: the promises, which the engine keeps.

A collector appends to lists and no more: ids are drawn, tasks chosen and acks summed up for a whole
chunk of tuples afterwards. It may be used in the callbacks of its own task only, on the thread that
calls them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from fulmen.api.declarer import DEFAULT_STREAM
from fulmen.api.tuples import Tuple

Values = Sequence[Any]
Anchors = Tuple | Sequence[Tuple]
MessageId = Hashable


class ErrorCollector(ABC):
    """The base of all collectors."""

    @abstractmethod
    def report_error(self, error: BaseException | str) -> None:
        """Show an error in the report, the status and the metrics. The topology continues."""


class SpoutOutputCollector(ErrorCollector):
    """Given to `Spout.open`. Usable in next_tuple, ack, fail, activate and deactivate."""

    @abstractmethod
    def emit(
        self,
        values: Values,
        stream: str = DEFAULT_STREAM,
        msg_id: MessageId | None = None,
        need_task_ids: bool = False,
    ) -> list[int] | None:
        """Send one tuple to every bolt that subscribes to `stream`. Never blocks.

        Args:
            values: One value per declared field, in that order. They are not copied: don't change
                them afterwards.
            stream: A stream that this component declares, and not a direct one.
            msg_id: What `ack` or `fail` is called with when the tuple's tree has ended. None: it is
                not tracked. Hashable and picklable; it is written to the checkpoint while the tree
                is pending.
            need_task_ids: Choose the tasks now (slower) instead of with the rest of the chunk.

        Returns:
            With `need_task_ids`, the task ids it goes to, ascending; empty if nothing subscribes.

        Raises:
            StreamError: `stream` is not declared, is direct, or has another number of fields.
            CollectorError: Not in a callback.
        """

    @abstractmethod
    def emit_many(
        self,
        rows: Iterable[Values],
        stream: str = DEFAULT_STREAM,
        msg_ids: Iterable[MessageId | None] | None = None,
    ) -> None:
        """Send a tuple for each row, in their order: what `emit` does, for a fraction of its time.

        A spout that gets many messages at once emits up to `room` of them in a call of next_tuple.

        Args:
            rows: The values of each tuple, as for `emit`.
            stream: The stream of all of them.
            msg_ids: A message id for each row, or None for one that is not tracked. None: no row
                is.

        Raises:
            StreamError: As for `emit`, or there are not as many message ids as rows. The rows
                before the wrong one are sent.
            CollectorError: Not in a callback.
        """

    @property
    @abstractmethod
    def room(self) -> int:
        """How many tuples this call of next_tuple should emit at most: at least 1.

        It follows from what a batch may have. A spout that emits more makes larger batches.
        """

    @abstractmethod
    def emit_direct(
        self,
        task: int,
        values: Values,
        stream: str = DEFAULT_STREAM,
        msg_id: MessageId | None = None,
    ) -> None:
        """Send one tuple to one task of a bolt that subscribes with direct grouping.

        A task that does not subscribe receives nothing, as in Storm.

        Args:
            task: Id of the receiving task.
            values: The values, as for `emit`.
            stream: A stream that this component declares as direct.
            msg_id: The message id, as for `emit`.

        Raises:
            StreamError: `stream` is not declared or not direct, or has another number of fields.
            CollectorError: Not in a callback.
        """


class OutputCollector(ErrorCollector):
    """Given to `Bolt.prepare`. Usable in execute and drain.

    Every tuple that the bolt receives must be acked or failed, now or later.
    """

    @abstractmethod
    def emit(
        self,
        values: Values,
        stream: str = DEFAULT_STREAM,
        anchors: Anchors = (),
        need_task_ids: bool = False,
    ) -> list[int] | None:
        """Send one tuple to every bolt that subscribes to `stream`. Never blocks.

        Args:
            values: As for `SpoutOutputCollector.emit`, as are `stream` and `need_task_ids`.
            stream: The stream.
            anchors: Inputs (one, or several) whose trees the new tuple joins. Without any it is not
                tracked.
            need_task_ids: Whether to choose the tasks now, and to return their ids.

        Raises:
            StreamError: As there, or an anchor is no tuple that was received.
            CollectorError: Not in `execute` or `drain`.
        """

    @abstractmethod
    def emit_direct(
        self, task: int, values: Values, stream: str = DEFAULT_STREAM, anchors: Anchors = ()
    ) -> None:
        """Send one tuple to one task of a bolt that subscribes with direct grouping.

        As `SpoutOutputCollector.emit_direct`, with anchors as for `emit`.

        Raises:
            StreamError: As there, or an anchor is no tuple that was received.
            CollectorError: Not in `execute` or `drain`.
        """

    @abstractmethod
    def ack(self, tup: Tuple) -> None:
        """Ack the tuple: it has been processed. A second ack or fail of it changes nothing.

        Raises:
            CollectorError: Not in `execute` or `drain`.
        """

    @abstractmethod
    def fail(self, tup: Tuple, reason: str | BaseException | None = None) -> None:
        """Fail the tuple's trees now, without waiting for the timeout.

        Args:
            tup: The tuple. A second ack or fail of it changes nothing.
            reason: What the spout gets, at most 500 characters, or the exception. Default: "failed
                by the bolt".

        Raises:
            CollectorError: Not in `execute` or `drain`.
        """

    @abstractmethod
    def reset_timeout(self, tup: Tuple) -> None:
        """Start the message timeout of the tuple's trees anew.

        Raises:
            CollectorError: Not in `execute` or `drain`.
        """


class BasicOutputCollector(ErrorCollector):
    """Given to `BasicBolt.execute` and `drain`.

    What `execute` emits is anchored to the input, which is acked afterwards.
    """

    @abstractmethod
    def emit(
        self, values: Values, stream: str = DEFAULT_STREAM, need_task_ids: bool = False
    ) -> list[int] | None:
        """Send one tuple, anchored to the input. Otherwise like `OutputCollector.emit`."""

    @abstractmethod
    def emit_direct(self, task: int, values: Values, stream: str = DEFAULT_STREAM) -> None:
        """Send one tuple, anchored to the input. Otherwise like `OutputCollector.emit_direct`."""
