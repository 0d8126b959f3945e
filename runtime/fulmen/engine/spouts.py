"""A spout task in one batch: first how its trees ended, then its turn to emit."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa

from fulmen.api.components import ArrowSpout, ArrowSpoutCollector, Spout
from fulmen.api.declarer import DEAD_LETTERS, DEFAULT_STREAM
from fulmen.engine.ackers import root_ids
from fulmen.engine.chunk import EMPTY_IDS, Ids, Lineage, RowsView
from fulmen.engine.collectors import Buffer, SpoutCollector
from fulmen.engine.instances import ComponentFailed, Slots, TaskBase, Update, takes_reason
from fulmen.engine.outbox import Outbox
from fulmen.engine.pending import PendingMessages
from fulmen.engine.protocol import Deliveries
from fulmen.errors import GroupingError, StreamError

SLICE = 4096
"""Tuples that are emitted before those after them in the stage run: bounds memory, and keeps caches warm."""
CRASHED = "crashed worker"
_FAILURES = 100_000
_CHECK_SECONDS = 0.005


class ArrowEmits(ArrowSpoutCollector):
    """The collector of an ArrowSpout: record batches with a column of message ids."""

    def __init__(self, task: SpoutTask) -> None:
        self._task = task
        self.emits: list[tuple[str, pa.RecordBatch, Any]] = []

    def emit(
        self, batch: pa.RecordBatch, stream: str = DEFAULT_STREAM, msg_ids: Any = None
    ) -> None:
        batch = conform(self._task, batch, stream)
        if msg_ids is not None and len(msg_ids) != batch.num_rows:
            raise StreamError(
                f"{self._task.who}: {len(msg_ids)} message ids for {batch.num_rows} rows"
            )
        self._task.collector.check_open(stream)
        self.emits.append((stream, batch, msg_ids))

    def report_error(self, error: BaseException | str) -> None:
        self._task.report(error)


def conform(task: TaskBase, batch: pa.RecordBatch, stream: str) -> pa.RecordBatch:
    """The batch with the stream's fields in their order.

    Raises:
        StreamError: The stream is not declared, or the columns are not its fields.
    """
    routes = task.routes.get(stream)
    if routes is None or stream.startswith("__"):
        declared = sorted(s for s in task.routes if not s.startswith("__"))
        raise StreamError(
            f"{task.who}: emit on stream {stream!r}, but the component declares {declared}"
        )
    if tuple(batch.schema.names) == routes.fields:
        return batch
    if sorted(batch.schema.names) != sorted(routes.fields):
        raise StreamError(
            f"{task.who}: a batch with the columns {batch.schema.names} on stream {stream!r}, which has the fields "
            f"{list(routes.fields)}"
        )
    return batch.select(list(routes.fields))


class SpoutTask(TaskBase):
    """One task of a spout.

    Attributes:
        pending: Messages whose trees have not ended, or whose end the spout was not told yet.
        exhausted: Whether the spout says that there will never be another tuple.
    """

    instance: Spout
    now: Callable[[], float] = time.time  # noqa: TID251 (the emit's time, for the complete latency)

    def make_collector(self) -> Any:
        self.collector = SpoutCollector(self.who, self.routes, self.ordered, self.report)
        self.arrow = ArrowEmits(self)
        return self.collector

    def restore_engine(self, engine: Mapping[str, Any], slots: Slots) -> None:
        self.slot = self.setup.slots[self.setup.plan.key_of(self.task)]
        self.sequence: int = engine.get("sequence", 0)
        failures = slots.get("failures")
        self.failures: dict[Any, tuple[int, str]] = pickle.loads(failures[-1]) if failures else {}
        self._failures_changed = False
        self.pending = PendingMessages.restore(slots.get("pending", ()))
        self.is_active = False
        self.exhausted = False

    def start(self, collector: Any) -> None:
        self._takes_reason = takes_reason(self.instance)
        self._hears_acks = type(self.instance).ack is not Spout.ack
        if isinstance(self.instance, ArrowSpout):
            collector = self.arrow
            self._hears_acks |= type(self.instance).ack_batch is not ArrowSpout.ack_batch
        elif not self.setup.acking:
            self.collector.acks_at_once = lambda msg_id: self.guarded(
                "ack", lambda: self.instance.ack(msg_id)
            )
        self.instance.open(self.conf, self.context, collector)

    def engine_state(self) -> dict[str, Any]:
        return {**super().engine_state(), "sequence": self.sequence}

    def updates(self, number: int) -> dict[str, Update]:
        found = super().updates(number)
        pending = self.guarded("pickling its message ids", lambda: self.pending.record(number))
        if pending is not None:
            found["pending"] = pending
        if self._failures_changed:
            self._failures_changed = False
            found["failures"] = pickle.dumps(self.failures, 5), number
        return found

    # How trees ended

    def deliver(self, deliveries: Deliveries, outbox: Outbox) -> None:
        """Call ack and fail for messages whose trees have ended. What these emit is sent."""
        self.was_called = True
        self.collector.open()
        for msg_ids in self.pending.end(deliveries.acked):
            self._ack(msg_ids)
        if deliveries.failed:
            reasons = dict(deliveries.failed)
            for sequence in sorted(reasons):
                for msg_ids in self.pending.end(np.array([[sequence, sequence + 1]], np.int64)):
                    self._fail(msg_ids[0], reasons[sequence])
        self.flush(outbox)

    def _ack(self, msg_ids: list[Any]) -> None:
        if self.failures:
            for msg_id in msg_ids:
                if self.failures.pop(_key(msg_id), None) is not None:
                    self._failures_changed = True
        if not self._hears_acks:
            return
        if isinstance(self.instance, ArrowSpout):
            spout = self.instance
            self.guarded("ack_batch", lambda: spout.ack_batch(msg_ids))
            return
        ack = self.instance.ack
        try:
            for msg_id in msg_ids:
                ack(msg_id)
        except Exception as e:  # author's code
            raise ComponentFailed(self.report(e, fatal=True, what="ack")) from e

    def _fail(self, msg_id: Any, reason: str) -> None:
        self._failures_changed = True
        key = _key(msg_id)
        self.failures[key] = self.failures.pop(key, (0, ""))[0] + 1, reason
        if (
            len(self.failures) > _FAILURES
        ):  # messages that are never emitted again: forget the oldest
            del self.failures[next(iter(self.failures))]
        if self._takes_reason:
            self.guarded("fail", lambda: self.instance.fail(msg_id, reason))
        else:
            self.guarded("fail", lambda: self.instance.fail(msg_id))  # type: ignore[call-arg]

    def set_active(self, active: bool, outbox: Outbox) -> None:
        """Call activate or deactivate if this changes anything."""
        if active != self.is_active:
            self.was_called = True
            self.collector.open()
            self.guarded("activate", self.instance.activate if active else self.instance.deactivate)
            self.is_active = active
            self.flush(outbox)

    # Its turn to emit

    def emit(self, permit: int, deadline: float, outbox: Outbox, poisoned: bool) -> Iterator[int]:
        """Call next_tuple until the permit is used up, the time is over, or nothing was emitted.

        Args:
            permit: How many tuples at most (a next_tuple that emits several may go beyond).
            deadline: time.monotonic() seconds.
            poisoned: The first emit is failed instead of sent.

        Yields:
            How many tuples were emitted, slice by slice, so that what is behind the spout can run between.
        """
        self.was_called = True
        limit = self.setup.topology.spec.max_spout_pending
        total, more = 0, True
        while more and total < permit:
            room = permit - total
            if limit is not None:
                room = min(room, limit - self.pending.count)
            if room <= 0:
                break
            self.collector.open()
            emitted, more = self._calls(min(room, SLICE), deadline)
            total += emitted
            self.flush(outbox, poisoned)
            poisoned = False
            yield emitted
        self.exhausted = bool(self.guarded("is_exhausted", self.instance.is_exhausted))

    def _calls(self, room: int, deadline: float) -> tuple[int, bool]:
        """Calls of next_tuple: (tuples emitted, whether to go on). The clock is read less often than tuples are made."""
        next_tuple = self.instance.next_tuple
        if isinstance(self.instance, ArrowSpout):
            count: Callable[[], int] = lambda: sum(e[1].num_rows for e in self.arrow.emits)  # noqa: E731
        else:
            count = self.collector.emitted
            values = (
                self.collector.runs[0].values if len(self.collector.runs) == 2 else None
            )  # and dead letters
            if values is not None:
                count = values.__len__
        emitted, burst = 0, 1
        started = time.monotonic()
        while emitted < room:
            try:
                for _ in range(min(burst, room - emitted)):
                    next_tuple()
                    now = count()
                    if now == emitted:
                        return emitted, False
                    emitted = now
                    if emitted >= room:
                        break
            except Exception as e:  # author's code
                fatal = self.setup.topology.spec.on_error == "crash"
                report = self.report(e, fatal=fatal, what="next_tuple")
                if fatal:
                    raise ComponentFailed(report) from e
                return count(), False
            clock = time.monotonic()
            if clock >= deadline:
                return emitted, False
            burst = burst * 2 if clock - started < _CHECK_SECONDS else max(1, burst // 2)
            started = clock
        return emitted, True

    def flush(self, outbox: Outbox, poisoned: bool = False) -> None:
        """Send what was emitted since the collector was opened."""
        runs = self.collector.runs
        self.collector.close()
        for buffer in runs:
            if buffer.values:
                self._check(buffer)
                self._divert(buffer, outbox)
                view = RowsView(buffer.values)
                self._send(
                    buffer.routes.stream, view, buffer.origins, outbox, poisoned, buffer.chosen
                )
                poisoned = False
                if self.ordered:
                    outbox.pack_all()
        emits, self.arrow.emits = self.arrow.emits, []
        for stream, batch, msg_ids in emits:
            if batch.num_rows:
                self._send(stream, RowsView(arrow=batch), listed(msg_ids), outbox, poisoned, {})
                poisoned = False

    def _check(self, buffer: Buffer) -> None:
        """Values must be a list or a tuple. A str of the right length gets here: emit("a") instead of emit(["a"])."""
        if set(map(type, buffer.values)) <= {list, tuple}:
            return
        for values in buffer.values:
            if isinstance(values, str | bytes) or not isinstance(values, Sequence):
                self.guarded("emit", lambda v=values: refuse(self.who, v))  # type: ignore[misc]

    def _divert(self, buffer: Buffer, outbox: Outbox) -> None:
        """Messages that have failed `maxReplays` times go to the stream of dead letters. Others count as replays."""
        if not self.failures or buffer.routes.stream == DEAD_LETTERS:
            return
        limit = self.setup.topology.spec.max_replays
        dead: dict[int, list[Any]] = {}
        for i, msg_id in enumerate(buffer.origins):
            failures, reason = (
                self.failures.get(_key(msg_id), (0, "")) if msg_id is not None else (0, "")
            )
            if failures and limit is not None and failures >= limit:
                dead[i] = [buffer.routes.stream, list(buffer.values[i]), msg_id, failures, reason]
            elif failures:
                outbox.counts[self.component, "replayed", ""] += 1
        if not dead:
            return
        outbox.counts[self.component, "dead_lettered", ""] += len(dead)
        self._send(
            DEAD_LETTERS,
            RowsView(list(dead.values())),
            [buffer.origins[i] for i in dead],
            outbox,
            False,
            {},
        )
        kept = [i for i in range(len(buffer.values)) if i not in dead]
        buffer.chosen = {
            new: buffer.chosen[old] for new, old in enumerate(kept) if old in buffer.chosen
        }
        buffer.values = [buffer.values[i] for i in kept]
        buffer.origins = [buffer.origins[i] for i in kept]

    def _send(
        self,
        stream: str,
        view: RowsView,
        msg_ids: Sequence[Any] | None,
        outbox: Outbox,
        poisoned: bool,
        chosen: Any,
    ) -> None:
        n = len(view)
        if not n:
            return
        tracked = self.setup.acking and msg_ids is not None
        ids: list[Any] = []
        roots: Ids = EMPTY_IDS
        parents: Lineage | None = None
        mask: Any = slice(None)
        if tracked and msg_ids is not None:
            ids = list(msg_ids) if None not in msg_ids else [m for m in msg_ids if m is not None]
            roots = root_ids(self.slot, self.sequence, len(ids))
            if len(ids) == n:
                parents = Lineage(roots, roots)
            elif ids:
                mask = np.array([m is not None for m in msg_ids])
                parents = Lineage(roots, roots, np.concatenate(([0], np.cumsum(mask))))
        if poisoned:
            self._drop(view, roots, CRASHED, outbox)
        else:
            try:
                xors = outbox.send(self.task, self.routes[stream], view, parents, chosen)
            except GroupingError as e:
                self._send_around(e, stream, view, msg_ids, outbox, chosen)
                return
            if len(roots):
                outbox.messages.inits.append((roots, xors[mask], np.full(len(roots), self.now())))
        self.sequence += len(ids)
        self.pending.add(self.sequence - len(ids), ids)

    def _send_around(
        self,
        error: GroupingError,
        stream: str,
        view: RowsView,
        msg_ids: Sequence[Any] | None,
        outbox: Outbox,
        chosen: Any,
    ) -> None:
        """Fail the one emit that no task can be chosen for, and send all others."""
        i = error.emission
        if i is None:
            raise ComponentFailed(self.report(error, fatal=True, what="emit"))
        rows, n = view.rows, len(view)
        for a, b in ((0, i), (i + 1, n)):
            some = {k - a: v for k, v in chosen.items() if a <= k < b}
            part = msg_ids[a:b] if msg_ids is not None else None
            self._send(stream, RowsView(rows[a:b]), part, outbox, False, some)
        self.report(error, what="emit")
        if self.setup.acking and msg_ids is not None and msg_ids[i] is not None:
            roots = root_ids(self.slot, self.sequence, 1)
            self._fail_at_once(roots, str(error), outbox)
            self.pending.add(self.sequence, [msg_ids[i]])
            self.sequence += 1

    def _drop(self, view: RowsView, roots: Ids, reason: str, outbox: Outbox) -> None:
        """These tuples crashed their workers again and again: their trees are failed, and nothing is sent."""
        self.report(
            f"dropped a tuple that crashed its worker or never ended: {str(view.row(0))[:200]}"
        )
        if len(roots):
            self._fail_at_once(roots, reason, outbox)
        outbox.counts[self.component, "dropped", ""] += len(view)

    def _fail_at_once(self, roots: Ids, reason: str, outbox: Outbox) -> None:
        ones = np.ones(len(roots), np.uint64)
        outbox.messages.inits.append((roots, ones, np.full(len(roots), self.now())))
        outbox.messages.fails += [(root, reason) for root in roots.tolist()]


def listed(msg_ids: Any) -> list[Any] | None:
    """A column of message ids as a list of Python objects."""
    if msg_ids is None:
        return None
    if isinstance(msg_ids, pa.Array | pa.ChunkedArray):
        return cast(list[Any], msg_ids.to_pylist())
    if isinstance(msg_ids, np.ndarray):
        return cast(list[Any], msg_ids.tolist())
    return list(cast(Iterable[Any], msg_ids))


def refuse(who: str, values: Any) -> None:
    """Raise about values that are no sequence of values."""
    raise StreamError(
        f"{who}: emit({values!r}): the values must be a list or a tuple, such as [{values!r}]"
    )


def _key(msg_id: Any) -> Any:
    try:
        hash(msg_id)
    except TypeError:
        return pickle.dumps(msg_id, 5)
    return msg_id
