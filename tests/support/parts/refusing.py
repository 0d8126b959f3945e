"""A topology some of whose messages are given up, as long as its bolt refuses them."""

import threading
from contextlib import contextmanager

from fulmen import BasicBolt, TopologyBuilder
from fulmen.engine.driver.driver import Stop
from fulmen.metrics.server import MetricsServer
from support.runs.engine_runs import Numbers, make_driver

LIMIT = 5


class Again(Numbers):
    """Emits again what failed."""

    backoff = True

    def fail(self, msg_id):
        self.collector.emit([msg_id], msg_id=msg_id)


class Counts(BasicBolt):
    """Counts each number but those that it refuses."""

    refused = frozenset({2, 3})

    def execute(self, tup, collector):
        if tup[0] in self.refused:
            raise ValueError(f"not {tup[0]}") from KeyError("cents")
        self.state[tup[0]] = self.state.get(tup[0], 0) + 1


class Mended(Counts):
    """Refuses none."""

    refused = frozenset()


class Passes(BasicBolt):
    """Emits what it gets by itself: its results have no message of a spout."""

    outputs = ("number",)
    emits_results = True

    def execute(self, tup, collector):
        collector.emit([tup[0]])


def refusing(kind=Counts, *, of_results=False, passing=1, **spec):
    """The topology: 2 and 3 are dead letters in the end, of the spout, or of a bolt's results."""
    builder = TopologyBuilder(name="letters", **{"max_replays": 1, **spec})
    builder.set_spout("source", Again).set_config({"limit": LIMIT})
    count = builder.set_bolt("count", kind, 2)
    if of_results:
        builder.set_bolt("pass", Passes, passing).fields_grouping("source", ["number"])
    count.fields_grouping("pass" if of_results else "source", ["number"])
    return builder


def ran(store, kind=Counts, **spec):
    """A driver at its end."""
    driver = make_driver(refusing(kind, **spec), store=store).start()
    driver.run(Stop(when_drained=True))
    driver.close()
    return driver


@contextmanager
def running_with(store, kind):
    """The topology, which runs and is served until the end of the block: its URL."""
    driver, stop = make_driver(refusing(kind), store=store).start(), Stop()
    thread = threading.Thread(target=driver.run, args=(stop,))
    with MetricsServer("127.0.0.1", 0, lambda: driver.totals, taps=driver._taps) as server:
        thread.start()
        yield server.url
        stop.now = True
        thread.join()
        driver.close()
