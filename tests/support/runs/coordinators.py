"""A coordinator whose invariants are checked after each event."""

import itertools

import numpy as np

from fulmen import TopologyBuilder
from fulmen.checkpoint import Update
from fulmen.engine.batches.batch_clock import BatchClock
from fulmen.engine.batches.coordinator import Coordinator
from fulmen.engine.batches.done import Done, LastBatch
from fulmen.engine.batches.failures.blame import Fault, VoidAttempt
from fulmen.engine.batches.failures.crashes import FAILURES_ALONE
from fulmen.engine.protocol.deliveries import pack_deliveries
from fulmen.engine.protocol.figures.statistics import (
    PENDING_MESSAGES,
    PENDING_RESULTS,
    PENDING_TREES,
)
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.placed_topology import CurrentTopology, PlacedTopology
from fulmen.engine.protocol.summary import Summary
from fulmen.plan import make_plan
from support.parts.components import Count, Sentences


def placed(spouts=2, tick_seconds=None, is_timed=False, pinned=(), **spec):
    """Of a topology with one spout of so many tasks; their origins are 1, 2 and so on."""
    builder = TopologyBuilder(**spec)
    spout = builder.set_spout("source", Sentences, spouts)
    if is_timed:
        spout.set_event_time("sentence", unit="ms")
    bolt = builder.set_bolt("count", Count).shuffle_grouping("source")
    if tick_seconds:
        bolt.set_tick_seconds(tick_seconds)
    topology = builder.build()
    plan = make_plan(topology, pinned=pinned)
    origins = {plan.key_of(task): origin for origin, task in enumerate(plan.tasks("source"), 1)}
    return PlacedTopology("run", topology, plan, {}, origins, "memory://x", None, (0,))


def batch_of(*summaries, header=None, clock=100.0, seconds=0.01, skipped=(), **after):
    """A batch that counted."""
    header = header or Header(8, "tag", "base", clock, clock, 64)
    return Done(header, summaries, seconds, skipped, LastBatch(8, "tag", **after), commits=True)


def ranges(*pairs):
    return np.array(pairs, np.int64).reshape(-1, 2)


PENDING = {
    "pending": PENDING_TREES,
    "spout_pending": PENDING_MESSAGES,
    "result_pending": PENDING_RESULTS,
}


def told(**said):
    """What a summary has: what tasks say to be pending are levels of figures."""
    levels = {
        (figure, task): n
        for name, figure in PENDING.items()
        for task, n in said.pop(name, {}).items()
    }
    return {"levels": levels, **said}


class Checked:
    """Passes events on to a coordinator, with a clock of its own.

    Attributes:
        now: Seconds of a steady clock.
        counted: Seconds that belong to batches that counted, and to waiting between them.
    """

    def __init__(self, made=None, number=7, clock=100.0, deliveries=None):
        self.now = 5000.0
        self.counted = self.clock_before = clock
        self.tags = set()
        self.same = {"committed"}  # tags of states equal to that of the last commit
        self.failed_before = None
        names = (f"tag{i}" for i in itertools.count())
        self.it = Coordinator(
            CurrentTopology(made or placed()),
            LastBatch(number, "committed", deliveries or {}),
            BatchClock(clock, self.now),
            names.__next__,
        )
        self.check()

    def check(self):
        it = self.it
        assert it.last.base in self.same
        assert it.size.permit >= 1
        assert it.pending >= 0
        assert it.idle.batches >= 0
        assert 0.0 <= it.idle_seconds() <= 2.5
        crashes = it.blame.crashes
        assert crashes.limit is None or crashes.limit >= 1
        assert crashes.alone <= FAILURES_ALONE

    @property
    def target_seconds(self):
        """How long a batch should take under load."""
        return self.it.placed.topology.spec.batch_target_millis / 1000

    def wait(self, seconds):
        """Time passes between batches."""
        self.now += seconds
        if self.failed_before is None:
            self.counted += seconds

    def begin(self):
        it, tasks = self.it, self.it.placed.task_of_origin.values()
        header = it.begin(self.now)
        assert header is it.attempt
        assert header.number == it.last.number + 1
        assert header.tag not in self.tags
        assert header.base == it.last.base
        assert abs(header.clock - self.counted) < 1e-6
        assert header.previous_clock <= header.clock
        assert all(header.permit(task) >= 0 for task in tasks)
        assert set(header.poisoned) <= set(header.permits) <= set(tasks)
        able = set(tasks) - set(header.left_out)
        assert header.is_suspect == (it.blame.crashes.limit is not None and bool(able))
        assert set(header.permits) <= able
        assert not (header.permits and header.default_permit)
        if header.deliveries is not None:
            assert header.deliveries == it.last.deliveries
        else:
            assert len(pack_deliveries(it.last.deliveries)) > 4096
        if self.failed_before is not None:
            before = self.failed_before
            assert header.is_retry
            assert (header.number, header.clock) == (before.number, before.clock)
            assert (header.previous_clock, header.base) == (before.previous_clock, before.base)
            assert header.deliveries == before.deliveries
        else:
            assert not header.is_retry
            assert header.previous_clock == self.clock_before
        self.clock_before = header.clock
        self.tags.add(header.tag)
        decoded = Header.decode(header.encode())
        assert (decoded.tag, decoded.clock, decoded.permits) == (
            header.tag,
            header.clock,
            header.permits,
        )
        self.check()
        return header

    def succeed(self, seconds=0.01, **summary):
        """The attempt ran to its end, and is committed if there is anything to commit."""
        header = self.it.attempt
        made = self.summary(**summary)
        number, due = self.it.last.number, bool(self.it.last.deliveries)
        self.now += seconds
        done = self.it.finish([made], seconds)
        assert done.commits == bool(due or made.updates or done.after.deliveries)
        assert done.header is header
        self.it.committed(done)
        self.same = {header.tag} if done.commits else {*self.same, header.tag}
        self.counted += seconds
        self.failed_before = None
        assert self.it.last.number == number + done.commits
        assert self.it.last.base == header.tag
        assert self.it.last.deliveries == done.after.deliveries
        assert self.it.attempt is None
        self.check()
        return done

    def fail(self, seconds=0.01, recovery=0.0, fault=Fault.UNKNOWN):
        """The attempt came to nothing."""
        header, last = self.it.attempt, self.it.last
        self.now += seconds + recovery
        self.it.failed(VoidAttempt("killed", fault=fault), self.now)
        self.failed_before = header
        assert self.it.last is last
        assert self.it.attempt is None
        self.check()

    def summary(self, emitted=0, changes=False, acked=None, failed=(), work=0.0, **more):
        made = Summary(0, 0, emitted=emitted, seconds=work, failed=list(failed), **told(**more))
        made.acked = acked or {}
        if emitted:
            made.counts["source", "emitted", "default"] += emitted
        if changes or emitted:
            made.updates = {"source/0": {"fields": Update(b"x", None, 0)}}
        return made
