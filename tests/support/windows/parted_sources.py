"""Sources of event times that have parts, each of which one task reads."""

from fulmen.testing import ListSpout, Message

FIELDS = ["user", "amount", "at"]
YEAR = 365 * 86_400_000
SPRING = 1_711_839_600_000
"""The midnight in Paris with which a day of 23 hours begins, in 2024."""
SOURCES = ("live", "file")


class Files(ListSpout):
    """What is in parts of a source, each of which one task reads: some tasks may have none."""

    def open(self, conf, context, collector):
        super().open(conf, context, collector)
        n, part, mine = len(context.tasks(context.component)), "x", []
        for i, item in enumerate(self._items):
            part = item.msg_id[0] if isinstance(item, Message) else part
            if "xyz".index(part) % n == context.task_index:
                mine.append(i)
        self._mine, self._place = mine, {self._msg_id(i): i for i in mine}

    def part_of(self, msg_id):
        return msg_id[0]

    def unread_parts(self):
        left = [self._items[i] for i in self._mine[self._at :]]
        return sorted({item.msg_id[0] for item in left if isinstance(item, Message)})


class Partitions(Files):
    """The same, of parts without an end."""

    parts_end = False


def set_sources(b, found, tasks=1, kind=Files, **event_time):
    for source, (lag, items) in found.items():
        spout = b.set_spout(source, kind(items, fields=FIELDS), tasks)
        spout.set_event_time("at", unit="ms", lag=f"{lag}ms", **event_time)
