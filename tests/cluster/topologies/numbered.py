"""Words at a steady rate, whose counts anybody can work out: each task emits so many, in turn.

A task that waits for its rate keeps its turn, so that a batch takes half of `batchTargetMillis`.
One that gave its turn back would have many small batches instead, and they would take a core.
"""

import logging
import re
import time

from fulmen import BasicBolt, Spout

WAIT_SECONDS = 0.02


class Sentences(Spout):
    """Task i emits sentence 0, 1, 2 …, at most `rate` in a second."""

    outputs = ("sentence",)
    transient = ("collector", "first", "began")

    def __init__(self):
        self.position = 0
        self.failed = []

    def open(self, conf, context, collector):
        self.count, self.rate = conf["count"], conf["rate"]
        self.collector = collector
        self.first, self.began = self.position, time.monotonic()
        begins = "task %d begins at sentence %d"
        logging.getLogger("numbered").info(begins, context.task_index, self.position)

    def next_tuple(self):
        if self.failed:
            number = self.failed.pop()
        elif self.position < min(self.count, self.allowed()):
            number = self.position
            self.position += 1
        else:
            time.sleep(WAIT_SECONDS)
            return True
        self.collector.emit([f"all w{number % 7} w{number % 11}"], msg_id=number)
        return True

    def allowed(self):
        return self.first + self.rate * (time.monotonic() - self.began)

    def fail(self, msg_id, reason):
        self.failed.append(msg_id)


class Split(BasicBolt):
    outputs = ("word",)

    def execute(self, tup, collector):
        for word in re.findall(r"\w+", tup["sentence"]):
            collector.emit([word])


class Count(BasicBolt):
    def execute(self, tup, collector):
        word = tup["word"]
        self.state[word] = self.state.get(word, 0) + 1
