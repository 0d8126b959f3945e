"""Adds exclamation marks to names: a spout, and two bolts in a row."""

from fulmen import BasicBolt, Spout

NAMES = ["nathan", "mike", "jackson", "golda", "bertels"]


class Names(Spout):
    """Emits each name once. Its place in the list is its message id."""

    outputs = ["name"]

    def __init__(self):
        self.todo = list(range(len(NAMES)))  # a field: back after any loss

    def open(self, conf, context, collector):
        self.collector = collector

    def next_tuple(self):
        if self.todo:
            number = self.todo.pop(0)
            self.collector.emit([NAMES[number]], msg_id=number)

    def fail(self, msg_id, reason):
        self.todo.append(msg_id)

    def is_exhausted(self):
        return not self.todo


class Exclaim(BasicBolt):
    """Adds exclamation marks. What it emits is anchored to its input, which is acked for it."""

    outputs = ["name"]

    def execute(self, tup, collector):
        collector.emit([tup["name"] + "!!!"])


class Keep(BasicBolt):
    """Counts what arrives, for somebody to look at."""

    def execute(self, tup, collector):
        self.state[tup["name"]] = self.state.get(tup["name"], 0) + 1
