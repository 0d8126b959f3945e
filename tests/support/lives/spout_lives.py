"""A spout alone, with real durable state: commits, kills, and what it emits in between."""

import pickle
import time

from fulmen.api import ServiceUnavailable
from support.lives.source_life import opened

DEADLINE_SECONDS = 60


class SpoutLife:
    """One task of a spout.

    Attributes:
        spout: The instance; another one after `kill`.
        emitted: (values, stream, message id) since the last commit.
        pending: Messages that were emitted and committed, and whose trees have not ended.
        reports: What it reported.
        outages: Of these, what said that a service is away: a run does not take that for an end.
        room: How many it may emit in the call at hand.
    """

    def __init__(self, kind, options, task=0, tasks=1):
        self._kind, self.options, self._task, self._tasks = kind, options, task, tasks
        self._journals, self.number = {}, 0
        self.pending, self.reports, self.outages = [], [], []
        self._kept = pickle.dumps([])
        self.start()

    def start(self):
        """A new process goes on from the last commit."""
        self.emitted = []
        self.pending = pickle.loads(self._kept)
        task = self._task, self._tasks
        self._author = opened(self._kind, self._journals, self.options, task, self)
        self.spout = self._author.instance
        if self.number:
            self.spout.committed(self.number)

    def emit(self, values, stream="default", msg_id=None):
        self.emitted.append((values, stream, msg_id))

    def report_error(self, error):
        self.reports.append(str(error))
        if isinstance(error, ServiceUnavailable):
            self.outages.append(error)

    def emit_many(self, rows, stream="default", msg_ids=None):
        assert len(rows) <= self.room
        for values, msg_id in zip(rows, msg_ids or [None] * len(rows), strict=True):
            self.emit(values, stream, msg_id)

    def turn(self, at_most=1_000_000):
        """Call next_tuple until it emits nothing, or has emitted so many."""
        end = len(self.emitted) + at_most
        while (before := len(self.emitted)) < end:
            self.room = end - before
            self.spout.next_tuple()
            if len(self.emitted) == before:
                break
        return len(self.emitted)

    def until(self, test, what="the condition"):
        """Have turns until something is true."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not test():
            assert time.monotonic() < deadline, f"{what} did not come true: {self.reports}"
            self.turn()
            time.sleep(0.005)

    def until_emitted(self, count):
        """Have turns until so many were emitted since the last commit."""
        self.until(lambda: len(self.emitted) >= count, f"{count} emits")

    def commit(self):
        """All that it did since the last commit counts. Gives what it emitted."""
        self.number += 1
        self._author.write_down(self._journals, self.number)
        emitted, self.emitted = self.emitted, []
        self.pending += [msg_id for _, _, msg_id in emitted if msg_id is not None]
        self._kept = pickle.dumps(self.pending)
        self.spout.committed(self.number)
        return emitted

    def end(self, msg_ids, reason=None):
        """The trees of these messages have ended: well, or failed for a reason."""
        gone = set(msg_ids)
        self.pending = [msg_id for msg_id in self.pending if msg_id not in gone]
        for msg_id in msg_ids:
            if reason is None:
                self.spout.ack(msg_id)
            else:
                self.spout.fail(msg_id, reason)

    def kill(self):
        """Lose the process, with all since the last commit."""
        self._author.close()
        self.start()

    def close(self):
        """End it."""
        self._author.close()
