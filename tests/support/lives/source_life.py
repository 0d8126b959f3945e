"""The life of one task of a source, without a topology around it: what a driver makes of it.

What is committed is what the checkpoint would have: durable fields, state, and trees that are
pending. A life can be lost at any moment; the next begins from the last commit. A tree ends when
the test says so, and the source hears of it in the batch after the commit.
"""

import copy

from fulmen.api import TopologyContext
from fulmen.engine.driver.checkpoints.redistribution import redistributed
from fulmen.engine.tasks.author.instance import AuthorInstance


def opened(kind, journals, options, task, collector, max_spout_pending=None):
    """An instance that goes on from what is committed.

    Args:
        kind: The spout's class.
        journals: What the checkpoint has of it.
        options: Its validated config.
        task: Its number among its tasks, and how many there are.
        collector: What it emits to.
        max_spout_pending: The topology's.
    """
    index, tasks = task
    context = TopologyContext(
        topology="test",
        component="source",
        task_id=1 + index,
        task_index=index,
        worker=0,
        component_tasks={"source": range(1, 1 + tasks)},
        options=options,
        max_spout_pending=max_spout_pending,
    )
    author = AuthorInstance(kind, journals)
    injected = {"conf": {}, "context": context, "collector": collector}
    author.open(injected, lambda call: call(), is_copy=False)
    return author


class Collector:
    """Keeps what was emitted since the last commit.

    Attributes:
        room: How many may be emitted in the call at hand.
    """

    def __init__(self):
        self.emits, self.errors = [], []
        self.room = 1

    def emit(self, values, stream="default", msg_id=None, need_task_ids=False):
        self.emits.append((msg_id, stream, list(values)))

    def emit_many(self, rows, stream="default", msg_ids=None):
        assert len(rows) <= self.room
        for values, msg_id in zip(rows, msg_ids or [None] * len(rows), strict=True):
            self.emit(values, stream, msg_id)

    def report_error(self, error):
        self.errors.append(str(error))


class SourceLife:
    """One task.

    Attributes:
        source: The instance that lives now.
        pending: Trees that have not ended: stream and values by message id, as committed.
        processed: Stream and values of trees that were acked, as committed.
        errors: What the source has reported, and what `next_tuple` raised.
    """

    def __init__(self, kind, options, index=0, tasks=1, max_spout_pending=None, validated=None):
        self._limit = max_spout_pending
        self._kind, self._index, self._tasks = kind, index, tasks
        self.options = validated or kind.config_model.model_validate(options)
        self.pending, self.processed, self.errors = {}, [], []
        self._journals, self._told, self._number = {}, [], 0
        self.source = None

    def start(self):
        """Begin a life, from what is committed."""
        self.collector = Collector()
        journals, task = copy.deepcopy(self._journals), (self._index, self._tasks)
        self._author = opened(self._kind, journals, self.options, task, self.collector, self._limit)
        self.source = self._author.instance
        self.source.activate()
        return self

    def deliver(self):
        """Tell the source how trees have ended, as the engine does: of acks in one call."""
        self.source.ack_batch([msg_id for msg_id, reason in self._told if reason is None])
        for msg_id, reason in self._told:
            if reason is not None:
                self.source.fail(msg_id, reason)

    def turn(self, most=100):
        """Deliver, and have it emit. Returns how many tuples it has emitted."""
        self.deliver()
        before = len(self.collector.emits)
        try:
            while (emitted := len(self.collector.emits)) < before + most:
                self.collector.room = before + most - emitted
                self.source.next_tuple()
                if len(self.collector.emits) == emitted:
                    break
        except Exception as error:  # noqa: BLE001 (the source may raise anything)
            self.errors.append(error)
        return len(self.collector.emits) - before

    def commit(self, acked=(), failed=()):
        """Make all that is so durable, with the ends of some trees."""
        self._number += 1
        self._told = []
        self.pending |= {i: (stream, values) for i, stream, values in self.collector.emits}
        self.collector.emits = []
        for msg_id in acked:
            self.processed.append(self.pending.pop(msg_id))
            self._told.append((msg_id, None))
        for msg_id in failed:
            del self.pending[msg_id]
            self._told.append((msg_id, "failed"))
        self._author.write_down(self._journals, self._number)
        self.errors += self.collector.errors
        self.collector.errors = []

    def emitted(self):
        """The ids of all messages whose trees have not ended, also those not committed yet."""
        return [*self.pending, *(msg_id for msg_id, _, _ in self.collector.emits)]

    def lose(self):
        """The process is killed: what was not committed did not happen."""
        self.source = None

    def close(self):
        """End well."""
        if self.source is not None:
            self._author.close()
            self.source = None

    def whole(self, most=100):
        """A batch in which all trees that are pending are acked. Returns whether there were any."""
        self.turn(most)
        ids = list(dict.fromkeys(self.emitted()))
        self.commit(acked=ids)
        return bool(ids)

    def end_trees(self, rng):
        """Have all trees end, some of them failed, and the source hear of it."""
        self.deliver()
        ids = list(dict.fromkeys(self.emitted()))
        cut = rng.randrange(len(ids) + 1)
        self.commit(acked=ids[:cut], failed=ids[cut:])
        self.deliver()
        self.commit()


def rescaled(lives, tasks):
    """So many lives, not begun yet, in place of those of all tasks, whose trees have ended."""
    first = lives[0]
    number = 1 + max(life._number for life in lives)
    divided = redistributed(first._kind, [life._journals for life in lives], tasks, number)
    new = []
    for index, records in enumerate(divided):
        life = SourceLife(first._kind, {}, index, tasks, first._limit, first.options)
        life._journals = {journal: [data] for journal, (data, _) in records.items()}
        life._number = number
        new.append(life)
    for life in lives:
        assert not life.pending
        assert not life._told
        new[0].processed += life.processed
        new[0].errors += life.errors
    return new


def chaos(life, rng, batches, lose, disturb=lambda: None):
    """Batches that fail, acks and fails in any order, lives that are lost.

    Args:
        life: The task.
        rng: Decides.
        batches: How many.
        lose: How to kill the process.
        disturb: Does something to the server, now and then.

    Returns:
        How many faults there were.
    """
    faults = 0
    for _ in range(batches):
        if rng.random() < 0.1:
            disturb()
            faults += 1
        life.turn(rng.randrange(1, 30))
        if rng.random() < 0.3:
            lose()
            faults += 1
            continue
        ids = list(dict.fromkeys(life.emitted()))
        rng.shuffle(ids)
        some = ids[: rng.randrange(len(ids) + 1)]
        cut = rng.randrange(len(some) + 1)
        life.commit(acked=some[:cut], failed=some[cut:])
    return faults
