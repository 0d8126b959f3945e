"""A transactional topology in which everything goes wrong that can, run in this process."""

from fulmen import BatchBolt, Committer, FailedException, TransactionalTopologyBuilder
from fulmen.engine.driver.driver import Stop
from fulmen.testing import ManualClock
from support.runs.engine_runs import make_driver, new_store
from support.runs.metered import Killed, Mortal
from support.transactions.sources import Rows

PLAIN = "the cow jumped over the moon"
TROUBLE = (PLAIN, "fail once", PLAIN, "kill once", PLAIN, "fail always", PLAIN)
"""Each a transaction of its own."""


PAST = {}
"""The attempts that have met a row, by the topology's name."""


class Count(BatchBolt):
    """Counts words, and fails or dies as rows say."""

    outputs = ("tx", "count")

    def prepare(self, conf, context, collector, attempt):
        self.collector, self.attempt, self.count = collector, attempt, 0
        self.past = PAST[context.topology]

    def execute(self, tup):
        text = tup.values[1]
        is_first = (self.attempt.txid, text) not in self.past
        self.past.add((self.attempt.txid, text))
        if text == "kill once" and is_first:
            raise Killed
        if text == "fail always" or (text == "fail once" and is_first):
            raise FailedException(f"{text}, as it was told")
        self.count += len(text.split())

    def finish_batch(self):
        self.collector.emit([self.attempt, self.count])


class Sum(BatchBolt, Committer):
    """Adds up what a transaction has."""

    outputs = ("tx", "sum")

    def prepare(self, conf, context, collector, attempt):
        self.collector, self.attempt, self.sum = collector, attempt, 0

    def execute(self, tup):
        self.sum += tup.values[1]

    def finish_batch(self):
        self.collector.emit([self.attempt, self.sum])


def transacted(rows=TROUBLE, *, name="transacted", **spec):
    """The topology; a transaction for each row."""
    PAST[name] = set()
    spec = {"workers": 1, "max_spout_pending": 3, "max_replays": 1, **spec}
    builder = TransactionalTopologyBuilder(name, "rows", Rows((tuple(rows),), take=1), **spec)
    builder.set_bolt("count", Count, 2).shuffle_grouping("rows")
    builder.set_bolt("sum", Sum).global_grouping("count")
    return builder


def transacted_driver(rows=TROUBLE, *, observer=None, seconds=0.1, clock=None, **spec):
    """A driver of it, not yet started."""
    clock, store = clock or ManualClock(), new_store()
    jobs = Mortal(clock, seconds, store=store)
    topology = transacted(rows, **spec)
    return make_driver(topology, store=store, clock=clock, jobs=jobs, observer=observer)


def run_transacted(rows=TROUBLE, **options):
    """Run it to its end; gives the driver."""
    driver = transacted_driver(rows, **options).start()
    try:
        driver.run(Stop(when_drained=True))
    finally:
        driver.close()
    return driver
