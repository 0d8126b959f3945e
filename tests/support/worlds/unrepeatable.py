"""A topology of which nothing can be repeated: what is emitted, and how much, is random.

Each component keeps in its durable state what it has received and what it has emitted, by key. So
every commit can be checked by itself: all that was emitted must have been received, once.
"""

import os
import zlib

from fulmen import BasicBolt, Bolt, Kept, Spout, TopologyBuilder

NOTHING = (0, 0, 0)
FIELDS = ("key", "amount", "content")


def byte():
    return os.urandom(1)[0]


def key():
    return f"key {byte() % 64}"


def amount():
    return int.from_bytes(os.urandom(4), "little")


def content():
    """Mostly a few bytes, at times more than a commit holds itself."""
    size = byte()
    return os.urandom(100_000 if size == 255 else size)


def plus(state, key, amount, content):
    """Note a tuple in a state: how many there were, and sums of what is in them."""
    count, amounts, checksums = state.get(key, NOTHING)
    state[key] = count + 1, amounts + amount, checksums + zlib.crc32(content)


def gathered(kept, first, other, tasks):
    """Other tasks: the first one has all that those of before have noted.

    Of messages that wait nothing: there is none when it counts. Before, it is only looked at.

    Args:
        kept: What those of before keep.
        first: The fields of the first one.
        other: The fields of each other one.
        tasks: How many there are to be.
    """
    sums = {}
    for one in kept:
        noted = ((name, v) for name, v in one.state.items() if name[0] != "waits")
        for name, values in noted:
            before = sums.get(name, NOTHING)
            sums[name] = tuple(a + b for a, b in zip(before, values, strict=True))
    return [Kept(first, sums), *(Kept(other) for _ in range(tasks - 1))]


class Source(Spout):
    """Keeps what it has emitted, and each message until it is acked."""

    outputs = FIELDS

    def __init__(self):
        self.emitted = self.acked = 0
        self.surprises = []

    def open(self, conf, context, collector):
        self.collector = collector

    def next_tuple(self):
        dice = byte()
        if dice < 40:
            return False
        count = 300 if dice == 255 else dice % 4
        for _ in range(count):
            values = key(), amount(), content()
            self.emitted += 1
            self.state["waits", self.emitted] = values[0]
            plus(self.state, *values)
            self.collector.emit(values, msg_id=self.emitted)
        return count > 0

    def ack(self, msg_id):
        self.acked += 1
        if self.state.pop(("waits", msg_id), None) is None:
            self.surprises.append(("acked twice", msg_id))

    def fail(self, msg_id, reason):
        self.surprises.append((reason, msg_id))

    @classmethod
    def redistribute(cls, kept, tasks):
        first, other = ({"emitted": 0, "acked": 0, "surprises": []} for _ in range(2))
        for one in kept:
            for name in first:
                first[name] += one.fields[name]
        return gathered(kept, first, other, tasks)


class Relay(BasicBolt):
    """Emits some tuples for each that it receives. At times a field of it is large."""

    outputs = FIELDS

    def __init__(self):
        self.ballast = b""

    def execute(self, tup, collector):
        plus(self.state, ("in", tup["key"]), tup["amount"], tup["content"])
        dice = byte()
        for _ in range(dice % 3):
            values = key(), amount(), tup["content"]
            plus(self.state, ("out", values[0]), *values[1:])
            collector.emit(values)
        if dice > 250:
            self.ballast = os.urandom(100_000)
        elif dice > 200:
            self.ballast = b""

    @classmethod
    def redistribute(cls, kept, tasks):
        return gathered(kept, {"ballast": b"first"}, {"ballast": b""}, tasks)


class Hold(Bolt):
    """Keeps tuples for some batches, then passes them on."""

    outputs = FIELDS

    def __init__(self):
        self.kept = []

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        if tup.is_tick():
            self.release(len(self.kept))
            return
        plus(self.state, ("in", tup["key"]), tup["amount"], tup["content"])
        self.kept.append(tup)
        if byte() < 16:
            self.release(len(self.kept) // 2)

    def release(self, number):
        for tup in self.kept[:number]:
            plus(self.state, ("out", tup["key"]), tup["amount"], tup["content"])
            self.collector.emit(tup.values, anchors=tup)
            self.collector.ack(tup)
        del self.kept[:number]


class Tally(Bolt):
    """Counts in its state, which goes to other tasks by its keys."""

    def prepare(self, conf, context, collector):
        self.collector = collector

    def execute(self, tup):
        plus(self.state, *tup.values)
        self.collector.ack(tup)


class Count(Tally):
    """Counts in a field as well, which is the task's own."""

    def __init__(self):
        self.total = 0

    def execute(self, tup):
        self.total += 1
        super().execute(tup)


def chaotic(workers, **spec):
    """Four stages on several workers: the spout, two bolts beside each other, `count`, ackers."""
    b = TopologyBuilder("chaotic", workers=workers, **spec)
    b.set_spout("source", Source, 2)
    b.set_bolt("relay", Relay, 2).shuffle_grouping("source")
    hold = b.set_bolt("hold", Hold, 2).fields_grouping("source", ["key"])
    hold.set_tick_seconds(0.5)
    count = b.set_bolt("count", Count, 2).set_num_tasks(3).fields_grouping("relay", ["key"])
    count.fields_grouping("hold", ["key"])
    return b


def build(workers):
    """The topology that is killed again and again."""
    return chaotic(workers, maxSpoutPending=300)


def moving(workers, tasks, backend, **spec):
    """The same with numbers of tasks that can change. `tasks`: of source, relay and count."""
    b = TopologyBuilder("moving", workers=workers, maxSpoutPending=300, **spec)
    b.set_spout("source", Source, tasks[0]).set_num_tasks(tasks[0])
    b.set_bolt("relay", Relay, tasks[1]).set_num_tasks(tasks[1]).shuffle_grouping("source")
    hold = b.set_bolt("hold", Hold, 2).fields_grouping("source", ["key"])
    hold.set_tick_seconds(0.5)
    count = b.set_bolt("count", Tally, tasks[2]).set_num_tasks(tasks[2])
    count.set_keyed_state(backend)
    count.fields_grouping("relay", ["key"]).fields_grouping("hold", ["key"])
    return b


def total(committed, component, prefix=None):
    """What the tasks of a component have noted together, by key."""
    sums = {}
    for state in committed.state(component).values():
        for name, values in state.items():
            of_key = name if prefix is None else name[1] if name[0] == prefix else None
            if isinstance(of_key, str):
                before = sums.get(of_key, NOTHING)
                sums[of_key] = tuple(a + b for a, b in zip(before, values, strict=True))
    return sums


def both(first, second):
    return {
        name: tuple(map(sum, zip(first.get(name, NOTHING), second.get(name, NOTHING), strict=True)))
        for name in first.keys() | second.keys()
    }


def check_commit(committed):
    """Assert that a commit is of whole batches, each of them counted once.

    Returns:
        How many tuples were emitted until then, and how many of them are not acked.
    """
    found = check_counts(committed)
    counted = [fields["total"] for fields in committed.fields("count").values()]
    assert sum(counted) == sum(count for count, _, _ in total(committed, "count").values())
    return found


def check_counts(committed):
    """The same, but for what `count` has in fields."""
    sources = committed.fields("source").values()
    assert [fields["surprises"] for fields in sources] == [[]] * len(sources)
    emitted = total(committed, "source")
    assert total(committed, "relay", "in") == emitted
    assert total(committed, "hold", "in") == emitted
    passed_on = both(total(committed, "relay", "out"), total(committed, "hold", "out"))
    assert total(committed, "count") == passed_on
    count = sum(fields["emitted"] for fields in sources)
    assert count == sum(n for n, _, _ in emitted.values())
    waiting = count - sum(fields["acked"] for fields in sources)
    _, messages, _ = committed.pending()
    assert messages == waiting == number_waiting(committed)
    assert both(total(committed, "hold", "out"), kept_sums(committed)) == emitted
    return count, waiting


def number_waiting(committed):
    states = committed.state("source").values()
    return sum(name[0] == "waits" for state in states for name in state if isinstance(name, tuple))


def kept_sums(committed):
    sums = {}
    for fields in committed.fields("hold").values():
        for tup in fields["kept"]:
            plus(sums, *tup.values)
    return sums
