"""Jobs that take a while without a processor: a machine that is busy takes no longer for them."""

import time

from fulmen import BasicBolt, Spout

SECONDS = 0.02


class Jobs(Spout):
    """Each task emits `rate` jobs in a second, as long as nobody says another number."""

    outputs = ("number",)
    transient = ("collector", "first", "began")

    def __init__(self):
        self.number = 0

    def open(self, conf, context, collector):
        self.rate, self.collector = conf["rate"], collector
        self.first, self.began = self.number, time.monotonic()

    def next_tuple(self):
        if self.number < self.first + self.rate * (time.monotonic() - self.began):
            self.number += 1
            self.collector.emit([self.number], msg_id=self.number)


class Work(BasicBolt):
    def execute(self, tup, collector):
        time.sleep(SECONDS)
