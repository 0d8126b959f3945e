"""A topology with windows of which nothing can be repeated: what is emitted, and when, is random.

A ledger keeps what was emitted, and another bolt what came out of the windows, some of which it
fails at first. So every commit can be checked by itself: each window that has come is that of the
ledger's tuples, and has come once. No tuple is late, as none is further behind than the lag.
"""

import os
from collections import Counter, defaultdict

from fulmen import BasicBolt, FailedException, Spout, TopologyBuilder
from fulmen.engine.time.watermarks import SECTION, Watermarks
from fulmen.windows import Aggregate, Deduplicate

FIELDS = ("id", "key", "at")
DISORDER, SIZE, EVERY, GAP = 2000, 4000, 1000, 1500
"""All in milliseconds. A sliding window is as long as a tumbling one."""
AGAIN = 4
"""Of so many of the last rows one may be emitted again."""
LAG = DISORDER + AGAIN * 256
"""The clock goes on by less than that meanwhile."""
KINDS = ("tumbling", "sliding", "session")


def millis(at):
    return round(at.timestamp() * 1000)


def byte():
    return os.urandom(1)[0]


class Source(Spout):
    """Emits events of a clock of its own, out of order, and some of them twice."""

    outputs = FIELDS

    def __init__(self):
        self.emitted = self.clock = 0
        self.recent = []
        self.surprises = []

    def open(self, conf, context, collector):
        self.collector, self.task = collector, context.task_index

    def next_tuple(self):
        dice = byte()
        if dice < 40:
            return False
        for _ in range(30 if dice == 255 else dice % 3):
            self.clock += byte()
            at = self.clock - int.from_bytes(os.urandom(2), "little") % DISORDER
            row = (f"{self.task} {self.emitted}", f"key {byte() % 8}", at)
            self.recent = [*self.recent[1 - AGAIN :], row]
            self.emit(row)
            if dice % 8 == 0:
                self.emit(self.recent[byte() % len(self.recent)])
        return True

    def emit(self, row):
        self.emitted += 1
        self.collector.emit(row, msg_id=self.emitted)

    def fail(self, msg_id, reason):
        self.surprises.append((reason, msg_id))


class Ledger(BasicBolt):
    """Keeps every tuple, and how often it came."""

    def execute(self, tup, collector):
        self.state[tup.values] = self.state.get(tup.values, 0) + 1


class Keep(BasicBolt):
    """Keeps every window, and how often it came; and fails some of them, which come again."""

    def execute(self, tup, collector):
        if byte() < 50:
            raise FailedException("not this time")
        key, start, end, ids, count = tup.values
        row = (tup.component, key, millis(start), millis(end), tuple(ids), count)
        self.state[row] = self.state.get(row, 0) + 1


def windowed(workers, **spec):
    """Three kinds of windows, one of them behind a bolt that leaves duplicates out."""
    b = TopologyBuilder("windowed", workers=workers, **spec)
    b.set_spout("source", Source, 2).set_event_time("at", unit="ms", lag=f"{LAG}ms")
    once = b.set_bolt("once", Deduplicate, 2).fields_grouping("source", ["id"])
    times = {"time": "at", "unit": "ms"}
    once.set_config({"id": ["id"], "fields": [*FIELDS], "horizon": "1h", **times})
    windows = {
        "tumbling": {"size": f"{SIZE}ms"},
        "sliding": {"size": f"{SIZE}ms", "every": f"{EVERY}ms"},
        "session": {"gap": f"{GAP}ms"},
    }
    partial = {"tumbling": True, "sliding": "auto", "session": "auto"}  # a session is never
    keep = b.set_bolt("keep", Keep, 2)
    for kind in KINDS:
        source = "once" if kind == "tumbling" else "source"
        bolt = b.set_bolt(kind, Aggregate, 2).set_num_tasks(3).fields_grouping(source, ["key"])
        bolt.set_config(
            {
                "key": ["key"],
                **times,
                "window": {"type": kind, **windows[kind]},
                "aggregates": {"ids": "set(id)", "count": "count"},
                "partial": partial[kind],
            }
        )
        keep.shuffle_grouping(kind)
        b.set_bolt(f"late-{kind}", Ledger).shuffle_grouping(kind, "late")
    b.set_bolt("ledger", Ledger, 2).shuffle_grouping("source")
    return b


def build(workers):
    """The topology that is killed again and again."""
    return windowed(workers, maxSpoutPending=300)


def kept(committed, component):
    """Row -> how often it came, of all tasks."""
    return sum((Counter(state) for state in committed.state(component).values()), Counter())


def windows_of(ledger, kind):
    """(key, start, end) -> the ids in that window, as often as they came."""
    found = defaultdict(Counter)
    by_key = defaultdict(list)
    for (number, key, at), times in ledger.items():
        times = 1 if kind == "tumbling" else times  # behind the bolt that leaves duplicates out
        step = SIZE if kind == "tumbling" else EVERY
        if kind == "session":
            by_key[key].append((at, number, times))
        else:
            for start in range((at - SIZE) // step * step + step, at + 1, step):
                found[key, start, start + SIZE][number] += times
    for key, rows in by_key.items():
        session, last = [], None
        for at, number, times in sorted(rows):
            if last is not None and at - last > GAP:  # windows that touch are one
                found[key, session[0][0], last + GAP] = Counter(dict(r[1:] for r in session))
                session = []
            session.append((at, number, times))
            last = at
        found[key, session[0][0], last + GAP] = Counter(dict(r[1:] for r in session))
    return found


def check_commit(committed):
    """Assert that each window that has come is right, and has come once.

    Returns:
        How many tuples there were until then, and how many windows that have fired neither came nor
        have failed, and will come again.
    """
    ledger, results = kept(committed, "ledger"), kept(committed, "keep")
    sources = committed.fields("source").values()
    assert [fields["surprises"] for fields in sources] == [[]] * len(sources)
    assert sum(ledger.values()) == sum(fields["emitted"] for fields in sources)
    fired = Watermarks.decode(committed.manifest.sections.get(SECTION)).closed
    missing = 0
    for kind in KINDS:
        assert not kept(committed, f"late-{kind}")
        wanted = windows_of(ledger, kind)
        came = {
            (key, start, end): (set(ids), count, times)
            for (of, key, start, end, ids, count), times in results.items()
            if of == kind
        }
        for window, found in came.items():
            right = {*wanted[window]}, wanted[window].total(), 1
            assert (kind, window, found) == (kind, window, right)
        missing -= committed.resting_results(kind)
        missing += sum(w[2] <= fired.get(kind, -1) and w not in came for w in wanted)
    return sum(ledger.values()), missing
