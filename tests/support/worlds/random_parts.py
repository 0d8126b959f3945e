"""Spouts and bolts that do anything they may, at random, and write down all of it.

Each emit has a number of its own, `uid`, as its first value. A copy is (uid, receiving task). What
happens is appended to `LOG`, in its order: everything runs in this process.
"""

import itertools
import random
from typing import NamedTuple

import pyarrow as pa

from fulmen import (
    ArrowBolt,
    ArrowSpout,
    BasicBolt,
    Bolt,
    CustomStreamGrouping,
    FailedException,
    Spout,
)

FIELDS = ("uid", "key")
KEYS = ("a", "b", "c", "the", "")


class Emit(NamedTuple):
    uid: int
    component: str
    task: int
    stream: str
    key: str
    anchors: tuple = ()  # copies
    tracked: bool = False  # a spout's, with a message id
    direct: int | None = None


class Told(NamedTuple):
    """What need_task_ids gave."""

    uid: int
    tasks: tuple


class Receive(NamedTuple):
    copy: tuple
    source: str
    stream: str
    source_task: int


class Ack(NamedTuple):
    copy: tuple


class Fail(NamedTuple):
    copy: tuple
    reason: str | None = None  # None: any


class Reset(NamedTuple):
    copy: tuple


class Tick(NamedTuple):
    task: int


class SpoutAck(NamedTuple):
    task: int
    uid: int


class SpoutFail(NamedTuple):
    task: int
    uid: int
    reason: str


LOG = []
_uids = itertools.count(1)


def begin():
    LOG.clear()


class Part:
    """What all random components share. `conf`: seed, streams, direct (who may be named)."""

    def declare_output_fields(self, declarer):
        for name in ("default", "second"):
            declarer.declare_stream(name, FIELDS)
        declarer.declare_stream("direct", FIELDS, direct=True)

    def begin(self, conf, context):
        self.conf, self.context = conf, context
        self.task, self.component = context.task_id, context.component
        self.rng = random.Random(f"{conf['seed']}/{context.component}/{context.task_index}")

    def fresh(self, stream, anchors=(), tracked=False, direct=None):
        emit = Emit(
            next(_uids),
            self.component,
            self.task,
            stream,
            self.rng.choice(KEYS),
            tuple(anchors),
            tracked,
            direct,
        )
        LOG.append(emit)
        return emit

    def told(self, emit, tasks):
        if tasks is not None:
            LOG.append(Told(emit.uid, tuple(tasks)))

    def any_stream(self):
        return self.rng.choice(("default", "default", "second", "direct"))

    def any_target(self):
        named = [t for name in self.conf["targets"] for t in self.context.tasks(name)]
        return self.rng.choice([*named, self.task])  # its own task never subscribes to it


class RandomSpout(Part, Spout):
    def open(self, conf, context, collector):
        self.begin(conf, context)
        self.collector = collector
        self.left = conf["tuples"]
        self.tracked_share = self.rng.choice((0.9, 1.0))

    def next_tuple(self):
        if self.rng.random() < self.conf["pause"]:
            return False
        for _ in range(self.rng.choice(self.conf["at_once"])):
            self.left -= 1
            if self.left < 0:
                return False
            stream, tracked = self.any_stream(), self.rng.random() < self.tracked_share
            if stream == "direct":
                emit = self.fresh(stream, tracked=tracked, direct=self.any_target())
                self.collector.emit_direct(
                    emit.direct, [emit.uid, emit.key], stream, emit.uid if tracked else None
                )
            else:
                emit = self.fresh(stream, tracked=tracked)
                tasks = self.collector.emit(
                    (emit.uid, emit.key),
                    stream,
                    emit.uid if tracked else None,
                    need_task_ids=self.rng.random() < 0.2,
                )
                self.told(emit, tasks)
        return True

    def ack(self, msg_id):
        LOG.append(SpoutAck(self.task, msg_id))

    def fail(self, msg_id, reason):
        LOG.append(SpoutFail(self.task, msg_id, reason))

    def is_exhausted(self):
        return self.left <= 0


class RandomArrowSpout(Part, ArrowSpout):
    def open(self, conf, context, collector):
        self.begin(conf, context)
        self.collector = collector
        self.left = conf["tuples"]

    def next_tuple(self):
        n = min(self.left, self.rng.choice((0, 1, 3, 10)))
        self.left -= n
        if not n:
            return False
        stream, tracked = self.rng.choice(("default", "second")), self.rng.random() < 0.9
        emits = [self.fresh(stream, tracked=tracked) for _ in range(n)]
        uids = pa.array([e.uid for e in emits])
        batch = pa.record_batch({"key": pa.array([e.key for e in emits]), "uid": uids})
        self.collector.emit(batch, stream, msg_ids=uids if tracked else None)
        return True

    def ack_batch(self, msg_ids):
        LOG.extend(SpoutAck(self.task, uid) for uid in msg_ids)

    def fail(self, msg_id, reason):
        LOG.append(SpoutFail(self.task, msg_id, reason))

    def is_exhausted(self):
        return self.left <= 0


class RandomBolt(Part, Bolt):
    """Anchors as it likes; keeps tuples, and acks or fails them later."""

    def prepare(self, conf, context, collector):
        self.begin(conf, context)
        self.collector = collector
        self.held = []

    def copy(self, tup):
        return tup.values[0], self.task

    def execute(self, tup):
        if tup.is_tick():
            LOG.append(Tick(self.task))
            self.work_off()
            self.collector.ack(tup)
            return
        LOG.append(Receive(self.copy(tup), tup.component, tup.stream, tup.task))
        if self.rng.random() < 0.3:
            self.work_off()
        for _ in range(self.rng.choice((0, 0, 1, 1, 2, 3))):
            self.emit(tup)
        self.end(tup)

    def emit(self, tup):
        if self.conf.get("joins") and self.rng.random() < 0.7:
            anchors = [*self.held[-3:], tup]
        else:
            anchors = self.rng.choice(
                ([], [tup], [tup, tup], [tup, *self.held], [*self.held, tup], self.held[:3])
            )
        shape = tuple(anchors) if self.rng.random() < 0.5 else list(anchors)
        if len(anchors) == 1 and self.rng.random() < 0.7:
            shape = anchors[0]
        elif not anchors and self.rng.random() < 0.5:
            shape = None
        stream, copies = self.any_stream(), [self.copy(a) for a in anchors]
        if stream == "direct":
            made = self.fresh(stream, copies, direct=self.any_target())
            values = [made.uid, made.key]
            self.collector.emit_direct(made.direct, values, stream, shape)
        else:
            made = self.fresh(stream, copies)
            need = self.rng.random() < 0.2
            values = [made.uid, made.key]
            tasks = self.collector.emit(values, stream, anchors=shape, need_task_ids=need)
            self.told(made, tasks)

    def end(self, tup):
        ways = "ack ack ack ack ack ack double fail reason hold hold hold forget raise late reset"
        how = self.rng.choice(ways.split())
        if self.conf["honest"] and how in ("fail", "reason", "forget", "raise", "late"):
            how = "ack"
        if how in ("hold", "reset"):
            self.held.append(tup)
            if how == "reset":
                LOG.append(Reset(self.copy(tup)))
                self.collector.reset_timeout(tup)
        elif how in ("ack", "double", "late"):
            self.ack(tup)
            if how == "double":
                self.collector.ack(tup)
                self.collector.fail(tup)
            if how == "late":
                raise RuntimeError("after the ack")
        elif how in ("fail", "reason"):
            self.fail(tup, "because" if how == "reason" else None)
            self.collector.ack(tup)
        elif how == "raise":
            LOG.append(Fail(self.copy(tup)))
            raise self.rng.choice((ValueError, FailedException))("no")

    def work_off(self):
        while self.held and self.rng.random() < 0.6:
            tup = self.held.pop(0)
            if self.rng.random() < 0.3:
                self.emit(tup)
            if self.rng.random() < 0.6 or self.conf["honest"]:
                self.ack(tup)
            else:
                self.fail(tup, "held")
            if self.rng.random() < 0.2:  # the second time changes nothing
                self.collector.ack(tup)
                self.collector.fail(tup)

    def ack(self, tup):
        LOG.append(Ack(self.copy(tup)))
        self.collector.ack(tup)

    def fail(self, tup, reason):
        LOG.append(Fail(self.copy(tup), reason))
        self.collector.fail(tup, reason) if reason else self.collector.fail(tup)


class RandomBasicBolt(Part, BasicBolt):
    def prepare(self, conf, context):
        self.begin(conf, context)

    def execute(self, tup, collector):
        if tup.is_tick():
            LOG.append(Tick(self.task))
            return
        copy = tup.values[0], self.task
        LOG.append(Receive(copy, tup.component, tup.stream, tup.task))
        for _ in range(self.rng.choice((0, 1, 1, 2))):
            stream = self.any_stream()
            if stream == "direct":
                made = self.fresh(stream, [copy], direct=self.any_target())
                collector.emit_direct(made.direct, [made.uid, made.key], stream)
            else:
                made = self.fresh(stream, [copy])
                need = self.rng.random() < 0.2
                self.told(made, collector.emit([made.uid, made.key], stream, need_task_ids=need))
        if self.rng.random() < 0.1 and not self.conf["honest"]:
            LOG.append(Fail(copy))
            raise self.rng.choice((ValueError, FailedException))("no")
        LOG.append(Ack(copy))


class RandomArrowBolt(Part, ArrowBolt):
    def prepare(self, conf, context):
        self.begin(conf, context)

    def tick(self, collector):
        LOG.append(Tick(self.task))
        self.emit(collector, [None])

    def emit(self, collector, anchors, rows=None):
        stream = self.rng.choice(("default", "second"))
        emits = [self.fresh(stream, [a] if a else ()) for a in anchors]
        columns = {"uid": pa.array([e.uid for e in emits]), "key": [e.key for e in emits]}
        collector.emit(pa.record_batch(columns), stream, rows=rows)

    def execute(self, batch, collector):
        component, stream = collector.source
        copies = [(uid, self.task) for uid in batch["uid"].to_pylist()]
        # a batch does not tell the tasks that its rows come from
        LOG.extend(Receive(copy, component, stream, -1) for copy in copies)
        if self.rng.random() < 0.6:
            self.emit(collector, copies)
        if self.rng.random() < 0.6:
            picked = [self.rng.randrange(len(copies)) for _ in range(self.rng.randrange(5))]
            if picked:
                rows = self.rng.choice((list, pa.array))(picked)
                self.emit(collector, [copies[i] for i in picked], rows)
        failed = set()
        if not self.conf["honest"]:
            if self.rng.random() < 0.1:
                LOG.extend(Fail(copy) for copy in copies)
                raise self.rng.choice((ValueError, FailedException))("no")
            failed = {i for i in range(len(copies)) if self.rng.random() < 0.1}
            if failed:
                collector.fail(pa.array(sorted(failed)), "row")
        for i, copy in enumerate(copies):
            LOG.append(Fail(copy, "row") if i in failed else Ack(copy))


class RandomGrouping(CustomStreamGrouping):
    """None, one or many tasks, by the uid."""

    def prepare(self, context, stream, target_tasks):
        self.targets = target_tasks

    def choose_tasks(self, task_id, values):
        return chosen_by_uid(self.targets, values[0])


def chosen_by_uid(targets, uid):
    return [t for t in targets if (uid * 2654435761 + t * 40503) % 5 < 2]
