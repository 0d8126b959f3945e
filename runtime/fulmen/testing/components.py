"""A source and a sink for tests: what comes in is a list, and so is what comes out."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from typing import Any, ClassVar

from fulmen.api import (
    BasicBolt,
    BasicOutputCollector,
    BatchOutputCollector,
    OutputFieldsDeclarer,
    Spout,
    SpoutOutputCollector,
    Stream,
    TopologyContext,
    TransactionalSpout,
    TransactionAttempt,
    Tuple,
)
from fulmen.api.declarer import declare
from fulmen.api.times.event_time import milliseconds
from fulmen.interruptions import Interruption
from fulmen.transactional import MemoryTransactionalSpout


class Marker(Enum):
    """An entry of a `ListSpout`'s list that is no value."""

    PAUSE = "pause"
    ABORT = "abort"
    EOF = "eof"


PAUSE = Marker.PAUSE
"""The batch gets no more than what comes before this."""
ABORT = Marker.ABORT
"""All workers die, once: the batch is run again from the last commit, and then goes on after it."""
EOF = Marker.EOF
"""The source ends here; another run on the same checkpoint goes on after it."""


class Killed(Interruption):
    """Stands for the death of the process: nothing of the engine's or an author's catches it.

    Attributes:
        worker: The one that is lost; None: all.
        is_own: Whether it is the doing of the component whose method is called.
    """

    def __init__(self, reason: str = "", worker: int | None = None, is_own: bool = True) -> None:
        super().__init__(reason)
        self.worker = worker
        self.is_own = is_own


@dataclass(frozen=True)
class Message:
    """An item for a `ListSpout` that is more than its values.

    Attributes:
        values: One value per field of the stream.
        stream: A stream that the spout was made with.
        msg_id: None: the item's place in the list.
        tracked: Whether it has a message id at all.
        task: The task that receives it, on a direct stream.
    """

    values: Sequence[Any]
    stream: str = "default"
    msg_id: Hashable | None = None
    tracked: bool = True
    task: int | None = None


class Later:
    """An item for a `ListSpout`: as `PAUSE`, and so much time passes before the next batch.

    `[["ann", 5], Later("10m"), ["bob", 7]]`: bob comes ten minutes after ann.

    Attributes:
        seconds: How much.
    """

    def __init__(self, duration: str) -> None:
        """Make one; `duration` is such as `10m`."""
        self.seconds = milliseconds(duration) / 1000


Item = Any
"""A list or tuple of values, one value alone, a `Message`, a `Later`, or a marker."""


class Runs:
    """Runs of this process, told apart: which of them a marker has stopped already.

    Attributes:
        number: The number of the run.
        aborted: Component and place of each `ABORT` that was met.
        later: The seconds that are to pass after the batch at hand.
    """

    number: ClassVar[int] = 0
    aborted: ClassVar[set[tuple[str, int]]] = set()
    later: ClassVar[float] = 0.0

    @classmethod
    def begin(cls) -> None:
        """Begin a new run."""
        cls.number += 1
        cls.aborted.clear()


class ListSpout(Spout):
    """Emits the items of a list, each with its place in the list as message id.

    What fails is emitted again, before the rest of the list. With several tasks, task i of n has
    the items i, i + n, i + 2n and so on, and a marker concerns the task that meets it.
    """

    transient: ClassVar[Sequence[str]] = ("_items", "_streams", "_replays", "_tracked")

    def __init__(
        self,
        items: Sequence[Item] = (),
        fields: Sequence[str] = ("value",),
        *,
        streams: Mapping[str, Sequence[str] | Stream] | None = None,
        tracked: bool = True,
        replays: bool = True,
    ) -> None:
        """Make a source.

        Args:
            items: What to emit. One value that is no list or tuple is a tuple of that value.
            fields: The fields of the stream `default`.
            streams: All streams, if there are others than `default`.
            tracked: Whether the items have message ids.
            replays: Whether what fails is emitted again.
        """
        self._items = tuple(items)
        self._streams = dict(streams) if streams is not None else {"default": tuple(fields)}
        self._tracked = tracked
        self._replays = replays
        self._at = 0  # in this task's share of the list
        self._again: list[int] = []
        self._ended_in = 0  # the run that EOF has stopped
        self._heard = 0

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        """Declare the streams that the spout was made with."""
        declare(self._streams, declarer)

    def open(
        self, conf: Mapping[str, Any], context: TopologyContext, collector: SpoutOutputCollector
    ) -> None:
        """Find this task's share of the list."""
        self._collector = collector
        self._context = context
        tasks = len(context.tasks(context.component))
        self._mine = range(context.task_index, len(self._items), tasks)
        self._place = {self._msg_id(i): i for i in self._mine}

    def next_tuple(self) -> bool:
        """Emit what failed, or the next item."""
        if self._again:
            self._emit(self._again.pop(0))
            return True
        if self._at == len(self._mine):
            return False
        place = self._mine[self._at]
        item = self._items[place]
        if item is EOF:
            if self._ended_in in (0, Runs.number):
                self._ended_in = Runs.number
                return False
            self._ended_in = 0
        self._at += 1
        if item is ABORT:
            self._abort(place)
        if item is EOF or item is ABORT:
            return self.next_tuple()
        if isinstance(item, Later):
            Runs.later += item.seconds
            return False
        if item is PAUSE:
            return False
        self._emit(place)
        return True

    def ack(self, msg_id: Hashable) -> None:
        """Remember it: `Result.acked` tells."""
        self._remember("acked", msg_id)

    def fail(self, msg_id: Hashable, reason: str) -> None:
        """Remember it, and emit the item again: `Result.failed` tells."""
        self._remember("failed", (msg_id, reason))
        if self._replays:
            self._again.append(self._place[msg_id])

    def is_exhausted(self) -> bool:
        """Whether the list has come to its end, and nothing is to be emitted again."""
        at_end = self._at == len(self._mine) or 0 < self._ended_in == Runs.number
        return at_end and not self._again

    def _remember(self, what: str, value: Any) -> None:
        self.state[what, self._heard] = value
        self._heard += 1

    def _abort(self, place: int) -> None:
        key = (self._context.component, place)
        if key not in Runs.aborted:
            Runs.aborted.add(key)
            raise Killed(f"ABORT at item {place}", is_own=False)

    def _msg_id(self, place: int) -> Hashable:
        item = self._items[place]
        return item.msg_id if isinstance(item, Message) and item.msg_id is not None else place

    def _emit(self, place: int) -> None:
        item = self._items[place]
        if not isinstance(item, Message):
            item = Message(item if isinstance(item, list | tuple) else [item])
        msg_id = self._msg_id(place) if self._tracked and item.tracked else None
        if item.task is None:
            self._collector.emit(item.values, item.stream, msg_id)
        else:
            self._collector.emit_direct(item.task, item.values, item.stream, msg_id)


class ListTransactions(MemoryTransactionalSpout):
    """Emits the items of a list in transactions: `PAUSE` between two items ends one."""

    def __init__(self, items: Sequence[Item] = (), fields: Sequence[str] = ("value",)) -> None:
        """Make a source.

        Args:
            items: What to emit. One value that is no list or tuple is a tuple of that value.
            fields: The fields behind the attempt, `tx`.
        """
        parts = [[*part] for is_pause, part in groupby(items, lambda i: i is PAUSE) if not is_pause]
        super().__init__({0: parts}, fields, 1)

    def get_emitter(
        self,
        conf: Mapping[str, Any],
        context: TopologyContext,
    ) -> TransactionalSpout.Emitter:
        """Make an emitter: that of the first task has all."""
        return _ListEmitter([] if context.task_index else self.data[0])


class _ListEmitter(TransactionalSpout.Emitter):
    def __init__(self, parts: Sequence[Sequence[Item]]) -> None:
        self._parts = parts

    def emit_batch(
        self,
        attempt: TransactionAttempt,
        metadata: Sequence[tuple[int, int]],
        collector: BatchOutputCollector,
    ) -> None:
        """Emit the items of a transaction."""
        for part in self._parts[slice(*metadata[0])]:
            for item in part:
                collector.emit([attempt, *(item if isinstance(item, list | tuple) else [item])])


class CollectBolt(BasicBolt):
    """Keeps the values of every tuple that it receives: `Result.collected` tells them."""

    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        """Keep it."""
        self.state[len(self.state)] = tup.values
