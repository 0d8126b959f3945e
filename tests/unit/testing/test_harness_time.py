"""Time passes in a harness when it is told to."""

from typing import ClassVar

from fulmen import BasicBolt
from fulmen.testing import BoltHarness


class Reminder(BasicBolt):
    """Sets a timer by event time, or by the clock if the key begins with c."""

    transient: ClassVar = ("context",)
    outputs: ClassVar = ["key", "at", "watermark"]

    def prepare(self, conf, context):
        self.context = context

    def execute(self, tup, collector):
        key, at = tup.values
        if key.startswith("c"):
            self.context.timers.set_after(key, at)
        else:
            self.context.timers.set(key, at)

    def on_timer(self, key, at, collector):
        collector.emit([key, at, self.context.batch.watermark])


def test_timers_are_called_when_time_passes_also_after_a_restart():
    with BoltHarness(Reminder, fields=["key", "at"]) as bolt:
        for values in (["b", 20], ["a", 10], ["late", 90], ["clock", 5]):
            bolt.execute(values)
        bolt.advance(watermark=9)
        assert bolt.emitted == []
        bolt.restart()
        bolt.advance(watermark=20)
        assert [e.values for e in bolt.emitted] == [["a", 10, 20], ["b", 20, 20]]
        bolt.advance(seconds=4.9)
        assert len(bolt.emitted) == 2
        bolt.advance(seconds=0.1)
        assert bolt.emitted[2].values == ["clock", 5.0, 20]
