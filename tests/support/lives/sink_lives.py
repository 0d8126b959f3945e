"""A sink alone: rows are written again and again until the store has taken them."""

import time

from fulmen import Stream, TopologyContext
from fulmen.api.components.sinks import Mark, Rows, ServiceUnavailable
from fulmen.api.marks import Point

DEADLINE_SECONDS = 60


class SinkLife:
    """One task of a sink.

    Attributes:
        sink: The instance; another one after `kill`.
        away: What the sink said while the store was away.
    """

    def __init__(self, kind, options, fields, name="mark"):
        self._kind, self.options, self.fields, self._name = kind, options, fields, name
        self.away = []
        self.start()

    def start(self):
        """A new process, once the store lets it in."""
        self.sink = self.patiently(lambda: prepared(self._kind, self.options, self.fields))

    def mark(self, number, after=None):
        """That of a commit, behind that of commit `after`, by default the one before it."""
        after = number - 1 if after is None else after
        previous = Point(after, f"tag-{after}") if after else None
        return Mark(self._name, number, f"tag-{number}", "test/sink/0", previous)

    def encoded(self, *rows):
        """What `encode` makes of them, and the reasons of those that it refuses."""
        given = Rows(self.fields, [list(row) for row in rows])
        made = self.sink.encode(given)
        return [item for i, item in enumerate(made) if i not in given.failed], given.failed

    def write(self, *rows, number=None):
        """Have rows written, once. Gives what was refused."""
        items, refused = self.encoded(*rows)
        assert not refused
        given = Rows(self.fields, items)
        self.sink.write(given, None if number is None else self.mark(number))
        return given.failed

    def write_at_last(self, *rows, number=None):
        """Have rows written, however often the store is away in between."""
        return self.patiently(lambda: self.write(*rows, number=number))

    def patiently(self, call):
        """Call until the store is there."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            try:
                return call()
            except ServiceUnavailable as error:
                self.away.append(str(error))
                assert time.monotonic() < deadline, self.away[-5:]
                time.sleep(0.05)

    def kill(self):
        """Lose the process: nothing is closed. The one before is returned, and may still write."""
        before = self.sink
        self.start()
        return before


def prepared(kind, options, fields):
    """A sink's instance that has connected, for rows of these fields."""
    context = TopologyContext(
        topology="test",
        component="sink",
        task_id=2,
        task_index=0,
        worker=0,
        options=options,
        streams={"source": {"default": Stream(fields)}},
        sources=(("source", "default"),),
    )
    sink = kind()
    sink.prepare({}, context)
    return sink
