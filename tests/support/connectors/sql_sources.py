"""Spouts of SQL databases as the engine calls them: batches, commits, lost processes."""

import pickle
from collections import Counter

from fulmen import Kept
from fulmen.api import TopologyContext
from fulmen.testing import ManualClock


class Collector:
    """Keeps what is emitted until it is taken.

    Attributes:
        emitted: Message ids and values.
        told: What was emitted on the stream `errors`.
        errors: What was reported.
        room: For how many rows there is room in a call.
    """

    def __init__(self):
        self.emitted, self.told, self.errors = [], [], []
        self.room = 1

    def emit_many(self, rows, stream="default", msg_ids=None):
        for values, msg_id in zip(rows, msg_ids, strict=True):
            self.emit(values, stream, msg_id)

    def emit(self, values, stream="default", msg_id=None):
        if stream == "errors":
            self.told.append(values)
        if stream != "errors" or msg_id is not None:
            self.emitted.append((msg_id, tuple(values)))

    def report_error(self, error):
        self.errors.append(str(error))


class Task:
    """One task of a spout, with what the checkpoint has of it.

    Attributes:
        spout: The present instance.
        pending: The messages whose trees have not ended, as committed: id -> values.
        acked: How often each message's values were acked, as committed.
        lag: How many messages the spout has said last to be behind; None: nothing.
        age: How old it has said the oldest of them to be, in seconds; None: nothing.
    """

    def __init__(self, kind, clock=None, index=0, tasks=1, **options):
        self.kind, self.options, self.clock = kind, options, clock or ManualClock()
        self.context = TopologyContext(
            "t",
            "source",
            task_id=index,
            task_index=index,
            worker=0,
            component_tasks={"source": range(tasks)},
            options=kind.config_model(**options),
        )
        self.checkpoint = pickle.dumps(({}, {}))
        self.pending, self.acked, self.number, self.lag = {}, Counter(), 0, None
        self.age = None
        self.restore()

    def restore(self):
        """A process was lost: another instance goes on from the checkpoint."""
        self.spout = self.kind()
        fields, state = pickle.loads(self.checkpoint)
        vars(self.spout).update(fields)
        self.spout.state.update(state)
        self.spout.clock = lambda: self.clock.now
        self.collector = Collector()
        self.spout.open({}, self.context, self.collector)

    def batch(self, fail=lambda msg_id: None, most=10, is_lost=False, ends=True, room=1):
        """One batch: how trees have ended, then a turn. All that is emitted ends in the next one.

        Args:
            fail: Tells whether a message fails.
            most: So many calls of next_tuple.
            is_lost: It comes to nothing.
            ends: Whether trees end at all.
            room: For how many rows there is room in a call.
        """
        self.collector.room = room
        hears = getattr(self.spout, "committed", None)
        if self.number and hears:
            hears(self.number)
        pending, acked = dict(self.pending), Counter(self.acked)
        for msg_id in list(pending) if ends else ():
            values = pending.pop(msg_id)
            if fail(msg_id):
                self.spout.fail(msg_id, "because")
            else:
                self.spout.ack(msg_id)
                acked[values] += 1
        for _ in range(most):
            before = len(self.collector.emitted)
            self.spout.next_tuple()
            if len(self.collector.emitted) == before:
                break
        for msg_id, values in self.collector.emitted:
            assert msg_id not in pending
            pending[msg_id] = values
        self.collector.emitted.clear()
        if lag := self.context.signals.take_lag():
            self.lag, self.age = lag.messages, lag.seconds
        if is_lost:
            self.restore()
            return
        self.pending, self.acked, self.number = pending, acked, self.number + 1
        fields = {name: getattr(self.spout, name) for name in self.spout.durable}
        self.checkpoint = pickle.dumps((fields, dict(self.spout.state)))

    def until_exhausted(self, most=200, **how):
        """Batches until there are no more rows."""
        for _ in range(most):
            self.clock.advance(1.0)
            self.batch(**how)
            if self.spout.is_exhausted() and not self.pending:
                return
        raise AssertionError(f"it does not end: {self.pending}")


def rescaled(tasks, number):
    """So many tasks in place of all of these, whose trees have ended."""
    [first, *_] = tasks
    kept = [Kept(*pickle.loads(task.checkpoint)) for task in tasks]
    new = []
    for index, one in enumerate(first.kind.redistribute(kept, number)):
        task = Task(first.kind, first.clock, index, number, **first.options)
        task.checkpoint = pickle.dumps((one.fields, one.state))
        task.number = max(task.number for task in tasks)
        task.restore()
        new.append(task)
    for task in tasks:
        assert not task.pending
        new[0].acked += task.acked
    return new
