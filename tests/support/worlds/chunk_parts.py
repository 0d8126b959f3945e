"""Spouts and bolts that do at random whatever they may, decided by each tuple's values alone.

So they do the same however tuples are cut into chunks. The values of a tuple are its `uid`, which
says the way that it came, a key, and the ids of its roots. What happens is appended to `LOG`.
"""

import random
from collections import defaultdict
from itertools import groupby
from typing import NamedTuple
from zlib import crc32

from fulmen import (
    BasicBolt,
    Bolt,
    CustomStreamGrouping,
    FailedException,
    Spout,
)
from fulmen.errors import StreamError

FIELDS = ("uid", "key", "roots")
STREAMS = ("default", "second")
KEYS = ("a", "b", "c", "the", "")
LEFT_OUT = "a"
WHERE = f"key <> '{LEFT_OUT}'"
LOG = []


def path_of(uid):
    """The tasks that a tuple has come by: what came by the same ones is in its order."""
    return tuple(step.partition("/")[0] for step in uid.split(">"))


class Received(NamedTuple):
    component: str
    task: int  # its number within the component: ids follow from how many workers there are
    stream: str
    uid: str


class Acked(NamedTuple):
    msg_id: object


class Failed(NamedTuple):
    msg_id: object
    reason: str


class Refused(NamedTuple):
    """A bolt failed a tuple of these roots. Its reason has the uid in it if that is not ""."""

    roots: str
    uid: str


class Case(NamedTuple):
    """Something interesting happened."""

    name: str


class Part:
    """The common part. `conf`: seed, odd (how often it does odd things), targets (who may be named
    in a direct emit), exact (whether all that a task receives follows from the seed), way."""

    def declare_output_fields(self, declarer):
        for name in STREAMS:
            declarer.declare_stream(name, FIELDS)
        declarer.declare_stream("direct", FIELDS, direct=True)

    def begin(self, conf, context):
        self.conf, self.context, self.component = conf, context, context.component
        self.suffix = f"@{context.task_index}" if conf["exact"] else ""

    def dice(self, uid):
        return random.Random(f"{self.conf['seed']}/{self.component}/{uid}")

    def receive(self, tup):
        """The uid, and a generator of its own."""
        uid = tup.values[0]
        LOG.append(Received(self.component, self.context.task_index, tup.stream, uid))
        emitted_by = f"{tup.component}@{self.context.tasks(tup.component).index(tup.task)}"
        if not emitted_by.startswith(path_of(uid)[-1]):
            LOG.append(Case(f"BROKEN: {uid} is said to be of {emitted_by}"))
        return uid, self.dice(uid)

    def leaves_out(self, key, component, stream):
        """Whether `where` of an input leaves a tuple out; one by one, the bolt does it itself."""
        some = self.conf["way"] == "singly" and [component, stream] in self.conf["filtered"]
        return some and key == LEFT_OUT

    def children(self, dice, uid, roots):
        """Rows to emit, each with its stream."""
        for k in range(dice.choice(self.conf["children"])):
            odd = dice.random() < self.conf["odd"]
            stream = dice.choice((*STREAMS, "direct")) if odd else self.conf["stream"]
            yield stream, [f"{uid}>{self.component}{self.suffix}/{k}", dice.choice(KEYS), roots]

    def target(self, dice):
        named = [task for name in self.conf["targets"] for task in self.context.tasks(name)]
        return dice.choice([*named, self.context.task_id])  # which never subscribes to itself

    def send(self, dice, collector, stream, row, **more):
        """Emit a row in any shape."""
        if stream == "direct":
            collector.emit_direct(self.target(dice), row, stream, **more)
            return
        shape = dice.choice(["list", "tuple", "need", "wrong"])
        if dice.random() >= self.conf["odd"]:
            shape = "list"
        LOG.append(Case(f"emit {shape}"))
        match shape:
            case "list":
                collector.emit(row, stream, **more)
            case "tuple":
                collector.emit(tuple(row), stream, **more)
            case "need":
                collector.emit(row, stream, need_task_ids=True, **more)
            case "wrong":
                try:
                    collector.emit([*row, "too many"], stream, **more)
                except StreamError:
                    pass
                else:
                    LOG.append(Case("BROKEN: a row that is too long was taken"))

    def refuses(self, dice, roots, uid=""):
        """Whether a tuple fails, with what a bolt raises for it or tells as the reason."""
        if dice.random() >= self.conf["failing"]:
            return False
        LOG.append(Refused(roots, uid))
        return True


class Event(NamedTuple):
    """One thing that a spout does."""

    kind: str  # plain, need, direct, wrong, unhashable, pause
    stream: str
    row: list
    msg_id: object


class ScriptSpout(Part, Spout):
    """Emits what its script says: one by one, or by lists."""

    def open(self, conf, context, collector):
        self.begin(conf, context)
        self.collector = collector
        self.script = list(self.written(conf["tuples"]))

    def __init__(self):
        self.at = 0

    def written(self, count):
        place = f"{self.component}{self.suffix}"
        dice, stream = self.dice(place), "default"
        change, plain = dice.choice((0.0, 0.1, 0.5)), dice.random() < 0.5
        for k in range(count):
            if dice.random() < change:
                stream = dice.choice(STREAMS)
            uid = f"{place}/{k}"
            ids = (k, uid, (self.component, k)) if self.conf["any_ids"] else (k,)
            is_tracked = plain or dice.random() < 0.9
            msg_id = dice.choice(ids) if is_tracked else None
            kind = "plain"
            if dice.random() < self.conf["odd"]:
                kind = dice.choice(["need", "direct", "wrong", "unhashable", "pause"])
            row = [uid, dice.choice(KEYS), self.root(msg_id)]
            yield Event(kind, stream, row, msg_id)

    def root(self, msg_id):
        return "" if msg_id is None else f"{self.component}.{self.context.task_index}:{msg_id!r};"

    def next_tuple(self):
        if self.at == len(self.script):
            return False
        way = self.conf["way"]
        dice = random.Random(f"{way}/{self.conf['seed']}/{self.at}")
        n = 1 if way == "singly" else dice.choice((1, 3, 10, 100))
        events = self.script[self.at : self.at + n]
        self.at += len(events)
        for (stream, is_plain), some in groupby(events, lambda e: (e.stream, self.fits(e))):
            if is_plain and way != "singly" and (way == "by lists" or dice.random() < 0.5):
                self.emit_many(dice, stream, list(some))
            else:
                for event in some:
                    self.emit(event)
        return events[-1].kind != "pause"

    @staticmethod
    def fits(event):
        return event.kind in ("plain", "wrong", "unhashable")

    def emit_many(self, dice, stream, events):
        """All of them: after a row that is refused, those behind it."""
        while events:
            rows = [self.row_of(event) for event in events]
            ids = [self.id_of(event) for event in events]
            if dice.random() < 0.3:
                rows = iter(rows)
            if ids == [None] * len(ids):
                ids = dice.choice((ids, None))
            elif set(map(type, ids)) == {int} and ids == [*range(ids[0], ids[0] + len(ids))]:
                ids = dice.choice((ids, range(ids[0], ids[0] + len(ids))))
                LOG.append(Case("a range of ids"))
            try:
                self.collector.emit_many(rows, stream, ids)
                LOG.append(Case("many at once"))
                return
            except StreamError:
                wrong = [k for k, event in enumerate(events) if event.kind != "plain"]
                events = events[wrong[0] + 1 :]
                LOG.append(Case("a wrong row among many"))

    def emit(self, event):
        row, msg_id = self.row_of(event), self.id_of(event)
        match event.kind:
            case "direct":
                target = self.target(self.dice(event.row[0]))
                self.collector.emit_direct(target, row, "direct", msg_id)
            case "pause":
                pass
            case _:
                try:
                    need = event.kind == "need"
                    self.collector.emit(row, event.stream, msg_id, need_task_ids=need)
                except StreamError:
                    return

    @staticmethod
    def row_of(event):
        row = event.row + ["too many"] * (event.kind == "wrong")
        return tuple(row) if crc32(row[0].encode()) % 8 == 0 else row

    @staticmethod
    def id_of(event):
        return [event.msg_id] if event.kind == "unhashable" else event.msg_id

    def ack(self, msg_id):
        LOG.append(Acked(self.root(msg_id)))

    def fail(self, msg_id, reason):
        LOG.append(Failed(self.root(msg_id), reason))

    def is_exhausted(self):
        return self.at == len(self.script)


class BatchScriptSpout(ScriptSpout):
    """The same, which hears of many acks at once."""

    def ack_batch(self, msg_ids):
        LOG.extend(Acked(self.root(msg_id)) for msg_id in msg_ids)


class Steps(Part, BasicBolt):
    """Passes on, drops, doubles, raises before or after it has emitted, and keeps what it got."""

    def prepare(self, conf, context):
        self.begin(conf, context)
        self.kept = []

    def execute(self, tup, collector):
        if self.leaves_out(tup.values[1], tup.component, tup.stream):
            return
        uid, dice = self.receive(tup)
        self.look_at_kept()
        roots = tup.values[2]
        if dice.random() < self.conf["odd"]:
            self.kept.append((tup, list(tup.values), (tup.component, tup.stream, tup.task)))
        when = dice.choice(("before", "after"))
        fails = self.refuses(dice, roots, uid)
        if not fails or when == "after":
            for stream, row in self.children(dice, uid, roots):
                self.send(dice, collector, stream, row)
        if fails:
            raise dice.choice((ValueError, FailedException))(f"no <{uid}>")

    def look_at_kept(self):
        """A tuple that is kept stays what it was."""
        for tup, values, source in self.kept:
            if [*tup.values] != values or (tup.component, tup.stream, tup.task) != source:
                LOG.append(Case(f"BROKEN: a tuple that was kept has become {tup.values}"))
        LOG.append(Case("kept tuples" if self.kept else "nothing kept"))
        del self.kept[:-3]


class Keyed(Steps):
    """The same with keyed state: of each key a number that follows from all its tuples."""

    def execute(self, tup, collector):
        uid, key = tup.values[:2]
        if self.leaves_out(key, tup.component, tup.stream):
            return
        if self.conf["exact"]:
            key = f"{key}{self.suffix}/{'>'.join(path_of(uid))}"
            self.state[key] = crc32(uid.encode(), self.state.get(key, 0))
        else:
            self.state[key] = crc32(uid.encode()) ^ self.state.get(key, 0)
        super().execute(tup, collector)


class Anchors(Part, Bolt):
    """Anchors as it likes; acks twice, late or never, and fails with a reason or without one."""

    def prepare(self, conf, context, collector):
        self.begin(conf, context)
        self.collector = collector
        self.held = defaultdict(list)  # by the way that they came, which is the way of an order

    def execute(self, tup):
        if self.leaves_out(tup.values[1], tup.component, tup.stream):
            self.collector.ack(tup)
            return
        uid, dice = self.receive(tup)
        held = self.held[path_of(uid)] if self.conf["holds"] else []
        while held and dice.random() < 0.5:
            self.end(dice, held.pop(0))
            LOG.append(Case("ended later"))
        for stream, row in self.children(dice, uid, ""):
            some = [tup]
            if dice.random() < self.conf["odd"]:
                some = dice.choice(([], [tup, tup], [tup, *held], [*held, tup], held[:1]))
                LOG.append(Case(f"{min(2, len(some))} anchors"))
            row[2] = "".join(sorted({anchor.values[2] for anchor in some}))
            anchors = tuple(some) if dice.random() < 0.3 else some
            self.send(
                dice, self.collector, stream, row, anchors=anchors[0] if len(some) == 1 else anchors
            )
        if self.conf["holds"] and dice.random() < self.conf["odd"]:
            held.append(tup)
            LOG.append(Case("held"))
            return
        self.end(dice, tup)
        if dice.random() < self.conf["odd"] and not self.conf["forgets"]:
            raise ValueError("after it was acked or failed")

    def end(self, dice, tup):
        """Ack it, mostly."""
        uid, _, roots = tup.values
        how = dice.choice(("raise", "because", "no reason"))
        if self.refuses(dice, roots, "" if how == "no reason" else uid):
            if how == "raise":
                self.collector.fail(tup, ValueError(f"no <{uid}>"))
            elif how == "because":
                self.collector.fail(tup, f"because <{uid}>")
            else:
                self.collector.fail(tup)
            self.collector.ack(tup)
        elif dice.random() < self.conf["forgets"]:
            LOG.append(Case("never acked"))
        else:
            self.collector.ack(tup)
            if dice.random() < self.conf["odd"]:
                self.collector.ack(tup)
                self.collector.fail(tup)


class ByUid(CustomStreamGrouping):
    """None, one or many tasks, by the uid."""

    def prepare(self, context, stream, target_tasks):
        self.targets = target_tasks

    def choose_tasks(self, task_id, values):
        number = crc32(values[0].encode())
        return [task for k, task in enumerate(self.targets) if (number >> k % 8) % 5 < 2]
