"""A topology that waits: it says lag, a bolt holds the spouts, and a service is away."""

from fulmen import BasicBolt, ServiceUnavailable, Spout, TopologyBuilder
from fulmen.errors import JobFailed
from fulmen.testing import ManualClock
from support.runs.engine_runs import Steady, make_driver, new_store

SERVICE = "PostgreSQL at db:5432"
REASON = "connection refused"
HELD = "100 rows wait for PostgreSQL"


class Behind(Spout):
    """Emits the numbers below `until`; there are as many again that it has not emitted."""

    outputs = ("number",)

    def __init__(self, until=20):
        self.until = until
        self.at = 0

    def open(self, conf, context, collector):
        self.context, self.collector = context, collector
        self.emitted = context.counter("emitted", "Numbers that were emitted.")

    def next_tuple(self):
        if self.at < self.until:
            self.collector.emit([self.at], msg_id=self.at)
            self.emitted.inc()
            self.at += 1
        self.context.lag(messages=2 * self.until - self.at, seconds=1.5)


class Buffer(BasicBolt):
    """Holds the spouts from its tenth number on."""

    def __init__(self):
        self.numbers = 0

    def prepare(self, conf, context):
        self.context = context
        self.sizes = context.histogram("sizes", "Sizes of numbers.", buckets=[5, 10])
        self.length = context.gauge("length", "Length of the buffer.", {"kind": "rows"})

    def execute(self, tup, collector):
        self.numbers += 1
        self.sizes.observe(tup[0])
        self.length.set(self.numbers)
        if self.numbers >= 10:
            self.context.hold_spouts(HELD)


class Reaches:
    """Whether the service answers. For all workers of a process."""

    service = True


class Writer(BasicBolt):
    """Needs a service, and finds one tuple malformed."""

    outputs = {"errors": ["data"]}  # noqa: RUF012
    numbers = 0

    def prepare(self, conf, context):
        if not Reaches.service:
            raise ServiceUnavailable(SERVICE, REASON)

    def execute(self, tup, collector):
        self.numbers += 1
        if self.numbers == 1:
            collector.emit([b"?"], "errors")


class Losable(Steady):
    """Workers of which the first is lost in the next attempt, if `loses`.

    Attributes:
        is_clusters: The cluster takes it away.
    """

    loses = False
    is_clusters = False

    def run(self, header, timeout_seconds):
        if self.loses:
            self.loses = False
            self._workers[0].close()
            self._workers[0] = self._worker()
            raise JobFailed("worker 0 was lost", is_clusters=self.is_clusters)
        return super().run(header, timeout_seconds)


def waiting_driver(seconds=0.1, wall=lambda: 1_700_000_000.5):
    """A driver of it, not yet started."""
    builder = TopologyBuilder("waiting", workers=1)
    builder.set_spout("behind", Behind).set_event_time("number", unit="s", lag="1s")
    builder.set_bolt("buffer", Buffer).shuffle_grouping("behind").set_tick_seconds(1)
    builder.set_bolt("writer", Writer).shuffle_grouping("behind")
    clock, store = ManualClock(), new_store()
    jobs = Losable(clock, seconds, store=store)
    return make_driver(builder, store=store, clock=clock, jobs=jobs, wall=wall)


def run_waiting():
    """Run it until everything waits; gives the running topology."""
    Reaches.service = True
    running = waiting_driver().start()
    for _ in range(3):
        assert running.step()
    Reaches.service = False
    running.jobs.loses = True
    for _ in range(3):
        assert not running.step()
    Reaches.service = True
    return running
