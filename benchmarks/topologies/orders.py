"""The bolt of the Kafka benchmark: counts by key, each told once a batch."""

from fulmen import BasicBolt


class Count(BasicBolt):
    """Counts messages by key, and emits the counts that a batch has changed at its end."""

    outputs = ("key", "count")

    def __init__(self):
        self.changed = {}

    def execute(self, tup, collector):
        """Count one message."""
        key = tup.values[0]
        self.changed[key] = self.changed.get(key, 0) + 1

    def end_batch(self, collector):
        """Emit what has changed."""
        state = self.state
        for key, more in self.changed.items():
            state[key] = count = state.get(key, 0) + more
            collector.emit([key, count])
        self.changed = {}
