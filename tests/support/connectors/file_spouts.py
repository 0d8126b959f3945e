"""A spout of files in one process, with commits, kills, and messages that end as a test says."""

from types import SimpleNamespace
from typing import ClassVar

import pyarrow as pa

from fulmen.api import TopologyContext
from fulmen.engine.tasks.author.instance import AuthorInstance
from fulmen.testing import ManualClock


class Emits:
    """A collector that keeps what it gets, and has room for a number of tuples."""

    def __init__(self):
        self.taken = []
        self.reported = []
        self.room = 1

    def emit(self, values, stream="default", msg_id=None, msg_ids=None):
        if not isinstance(values, pa.RecordBatch):
            self.taken.append((stream, list(values), msg_id))
            return
        ids = [None] * values.num_rows if msg_ids is None else list(msg_ids)
        rows = zip(*(column.to_pylist() for column in values.columns), strict=True)
        self.taken += [(stream, list(r), i) for r, i in zip(rows, ids, strict=True)]

    def emit_many(self, rows, stream="default", msg_ids=None):
        assert len(rows) <= self.room
        for values, msg_id in zip(rows, msg_ids or [None] * len(rows), strict=True):
            self.emit(values, stream, msg_id)

    def report_error(self, error):
        self.reported.append(str(error))

    def take(self):
        taken, self.taken = self.taken, []
        return taken


def context(options, tasks=1, index=0, **more):
    return TopologyContext(
        topology="test",
        component="files",
        task_id=index + 1,
        task_index=index,
        worker=0,
        component_tasks={"files": range(1, tasks + 1)},
        options=options,
        **more,
    )


class SpoutLives:
    """The lives of one task: a batch is committed, or comes to nothing with its process.

    Attributes:
        pending: Messages that are committed and have not ended, with their stream and values.
        acked: The stream and values of all messages whose ack is committed, in order.
    """

    def __init__(self, kind, *, tasks=1, index=0, clock=None, **config):
        self.kind = kind
        self.context = context(kind.config_model(**config), tasks, index)
        self.clock = clock or ManualClock(100.0)
        self.journals, self.number = {}, 0
        self.pending, self.acked, self.untracked = {}, [], []
        self.start()

    alive: ClassVar = []

    @classmethod
    def end_all(cls):
        """Close the files of all that a test has made."""
        while cls.alive:
            cls.alive[-1].end()

    def end(self):
        if self in self.alive:
            self.alive.remove(self)
            self.author.close()

    def start(self):
        """Lose the process, if there is one: go on from what is committed."""
        self.end()
        self.collector = Emits()
        self.author = AuthorInstance(self.kind, {k: list(v) for k, v in self.journals.items()})
        self.spout = self.author.instance
        injected = {"collector": self.collector, "context": self.context, "conf": {}}
        self.author.open(injected, lambda call: call(), is_copy=False)
        self.spout.clock = self.clock
        self.alive.append(self)

    def attempt(self, calls=1000, acks=(), fails=()):
        """One batch, without its commit. Returns what it emitted, and what commits it."""
        if acks and hasattr(self.spout, "ack_batch"):
            self.spout.ack_batch(list(acks))
        elif acks:
            for msg_id in acks:
                self.spout.ack(msg_id)
        for msg_id in fails:
            self.spout.fail(msg_id, "a reason")
        emitted = []
        for _ in range(calls):
            self.collector.room = calls - len(emitted)
            self.spout.next_tuple()
            if not (taken := self.collector.take()):
                break
            emitted += taken
            if len(emitted) >= calls:
                break
        return SimpleNamespace(emitted=emitted, acks=acks, fails=fails)

    def commit(self, attempt):
        self.number += 1
        updates = self.author.write_down(self.journals, self.number)
        self.written = sum(len(data or b"") for data, _ in updates.values())
        self.acked += [self.pending.pop(msg_id) for msg_id in attempt.acks]
        for msg_id in attempt.fails:
            del self.pending[msg_id]
        for stream, values, msg_id in attempt.emitted:
            if msg_id is None:
                self.untracked.append((stream, values))
            else:
                assert msg_id not in self.pending
                self.pending[msg_id] = stream, values

    def batch(self, calls=1000, acks=(), fails=()):
        """A batch that is committed. Returns the values that it emitted."""
        self.clock.advance(1.5)
        attempt = self.attempt(calls, acks, fails)
        self.commit(attempt)
        return [values for _, values, _ in attempt.emitted]

    def finish(self):
        """Batches that ack everything, until nothing is left."""
        while self.batch(acks=list(self.pending)) or self.pending:
            pass

    def values(self, stream="default"):
        """The values of all messages that were acked on a stream."""
        return [values for name, values in self.acked if name == stream]
