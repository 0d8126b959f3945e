"""A topology with everything in it that is measured, and a way to run it in this process."""

from types import MappingProxyType

from fulmen import BasicBolt, Bolt, FailedException, Spout, TopologyBuilder
from fulmen.engine.driver.driver import Stop
from fulmen.errors import JobFailed
from fulmen.interruptions import Interruption
from fulmen.testing import ListSpout, ManualClock
from fulmen.testing.components import Runs
from support.runs.engine_runs import Steady, make_driver, new_store

WORDS = ("the", "cow", "jumped", "over", "the", "moon")


class Killed(Interruption):
    """Stands for the death of a worker's process."""


class Mortal(Steady):
    """Workers that can be killed from within."""

    def run(self, header, timeout_seconds):
        try:
            return super().run(header, timeout_seconds)
        except Killed as e:
            self._workers = [self._worker() for _ in self._workers]
            raise JobFailed("a worker was killed") from e


class Split(BasicBolt):
    """Two streams; fails, raises, reports and dies as the text says."""

    outputs = MappingProxyType({"default": ["word"], "lengths": ["length"]})

    def prepare(self, conf, context):
        self.failed = set()

    def execute(self, tup, collector):
        if tup.is_tick():
            return
        (text,) = tup.values
        if text == "kill":
            raise Killed
        if text.startswith("raise"):
            raise ValueError(text)
        if text == "fail" or (text == "fail once" and text not in self.failed):
            self.failed.add(text)
            raise FailedException("as it was told")
        if text == "report":
            collector.report_error("just saying")
        for word in text.split():
            collector.emit([word])
        collector.emit([len(text)], stream="lengths")


class Keeper(Bolt):
    """Keeps each tuple until so many others have come or a tick does; "lost" is kept for good."""

    def __init__(self, room=3):
        self.room = room
        self.kept = []

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        if tup.is_tick():
            self.let_go(0)
            self.collector.ack(tup)
        elif tup[0] != "lost":
            self.kept.append(tup)
            self.let_go(self.room)

    def let_go(self, room):
        while len(self.kept) > room:
            self.collector.ack(self.kept.pop(0))


class Large(BasicBolt):
    """Its state has a file of its own."""

    def __init__(self):
        self.text = ""

    def execute(self, tup, collector):
        self.text = str(tup[0]) * 100_000


class Silent(Spout):
    """Emits nothing."""

    outputs = ("nothing",)

    def next_tuple(self):
        pass

    def is_exhausted(self):
        return True


def metered(texts, **spec):
    """The topology, with a spout that emits `texts`."""
    builder = TopologyBuilder(
        name="metered", **{"workers": 2, "message_timeout_seconds": 2, **spec}
    )
    builder.set_spout("texts", ListSpout(texts, fields=["text"]), 2)
    builder.set_spout("silent", Silent)
    builder.set_bolt("split", Split, 2).shuffle_grouping("texts").set_tick_seconds(0.5)
    keeper = builder.set_bolt("keep", Keeper(), 2).set_num_tasks(3).set_tick_seconds(0.5)
    keeper.fields_grouping("split", ["word"]).all_grouping("silent")
    builder.set_bolt("large", Large).global_grouping("split", "lengths")
    return builder


def metered_driver(texts, *, observer=None, clock=None, seconds=0.1, **spec):
    """A driver of it, not yet started."""
    Runs.begin()
    clock, store = clock or ManualClock(), new_store()
    jobs = Mortal(clock, seconds, store=store)
    return make_driver(
        metered(texts, **spec), store=store, clock=clock, jobs=jobs, observer=observer
    )


def run_metered(texts, **options):
    """Run it to its end; gives the driver."""
    driver = metered_driver(texts, **options).start()
    try:
        driver.run(Stop(when_drained=True))
    finally:
        driver.close()
    return driver
