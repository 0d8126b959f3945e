"""A spout and bolts that are made with arguments."""

from fulmen import BasicBolt, Spout


class Range(Spout):
    """Emits the numbers from 0 up to an end."""

    outputs = ["number"]

    def __init__(self, end):
        self.todo = list(range(end))

    def open(self, conf, context, collector):
        self.collector = collector

    def next_tuple(self):
        if self.todo:
            number = self.todo.pop(0)
            self.collector.emit([number], msg_id=number)

    def fail(self, msg_id, reason):
        self.todo.append(msg_id)

    def is_exhausted(self):
        return not self.todo


class Multiply(BasicBolt):
    """Multiplies by a constant."""

    outputs = ["number"]

    def __init__(self, by):
        self.by = by

    def execute(self, tup, collector):
        collector.emit([tup["number"] * self.by])


class Sum(BasicBolt):
    """Adds up what each component sends."""

    def execute(self, tup, collector):
        self.state[tup.component] = self.state.get(tup.component, 0) + tup["number"]
