"""Transactional spouts and bolts of which a test has single methods raise, or return something."""

from fulmen import BasicBolt, TransactionalTopologyBuilder
from support.stores.outside_stores import store
from support.transactions.sources import (
    ChangingCoordinator,
    ChangingEmitter,
    ChangingRows,
    Numbers,
    NumbersCoordinator,
    NumbersEmitter,
    Rows,
    RowsCoordinator,
    RowsEmitter,
)
from support.transactions.words import Collect, CollectAtOnce

ROWS = ((0, 1, 2, 3), (4, 5, 6))
ALL = [0, 1, 2, 3, 4, 5, 6]


class Returned:
    """What a method is to return once, instead of what it would."""

    def __init__(self, value):
        self.value = value


def script(outside, **methods):
    """Have methods raise exceptions, or return others' values: method -> one for each call."""
    for method, events in methods.items():
        outside.put(("script", method), list(events))


def scripted(cls, *methods):
    """The class, with these methods doing first what their script says."""

    def wrap(name):
        usual = getattr(cls, name)

        def method(self, *args):
            events = self.outside.get(("script", name)) or []
            if events:
                event = events.pop(0)
                if isinstance(event, Returned):
                    return event.value
                if callable(event):
                    return event(self, *args)
                raise event
            return usual(self, *args)

        return method

    return type(f"Scripted{cls.__name__}", (cls,), {name: wrap(name) for name in methods})


COMMON = ("is_ready", "is_exhausted", "lag", "close")
WholeCoordinator = scripted(NumbersCoordinator, "initialize_transaction", *COMMON)
WholeEmitter = scripted(NumbersEmitter, "emit_batch", "cleanup_before", "close")
PartsCoordinator = scripted(RowsCoordinator, "num_partitions", *COMMON)
PartsEmitter = scripted(RowsEmitter, "emit_partition_batch_new", "emit_partition_batch", "close")
OpaqueCoordinator = scripted(ChangingCoordinator, "num_partitions", *COMMON)
OpaqueEmitter = scripted(ChangingEmitter, "emit_partition_batch", "close")


class Makes:
    """A spout whose parts know the store."""

    def get_coordinator(self, conf, context):
        return self.make("get_coordinator", conf, lambda: self.new_coordinator(conf))

    def get_emitter(self, conf, context):
        return self.make("get_emitter", conf, lambda: self.new_emitter(conf, context))

    def make(self, method, conf, new):
        outside = store(conf)
        events = outside.get(("script", method)) or []
        if events:
            event = events.pop(0)
            if isinstance(event, Returned):
                return event.value
            raise event
        made = new()
        made.outside = outside
        return made


class Whole(Makes, Numbers):
    def new_coordinator(self, conf):
        return WholeCoordinator(self)

    def new_emitter(self, conf, context):
        return WholeEmitter(context)


class Parts(Makes, Rows):
    def new_coordinator(self, conf):
        return PartsCoordinator(self)

    def new_emitter(self, conf, context):
        return PartsEmitter(self)


class Opaque(Makes, ChangingRows):
    def new_coordinator(self, conf):
        return OpaqueCoordinator(self, store(conf))

    def new_emitter(self, conf, context):
        return OpaqueEmitter(self, store(conf))


SPOUTS = {
    "whole": lambda: Whole(7, 2),
    "parts": lambda: Parts(ROWS, 2),
    "opaque": lambda: Opaque(ROWS, take=2),
}


class Basic(BasicBolt):
    outputs = ("tx", "row")
    transient = ("outside",)

    def prepare(self, conf, context):
        self.outside = store(conf)

    def execute(self, tup, collector):
        events = self.outside.get(("script", "basic")) or []
        event = events.pop(0) if events else None
        if isinstance(event, Exception):
            raise event
        for values in [list(tup.values)] if event is None else event(tup):
            collector.emit(values)


class Batch(CollectAtOnce):
    """Passes rows on at the end of its batch."""

    outputs = ("tx", "row")
    where = "batch"

    def run(self, method, usual):
        events = self.store.get(("script", f"{self.where} {method}")) or []
        event = events.pop(0) if events else None
        if isinstance(event, Exception):
            raise event
        return usual() if event is None else event(self)

    def begin(self):
        self.run("prepare", super().begin)

    def execute(self, tup):
        self.run("execute", lambda: super(Batch, self).execute(tup))

    def finish_batch(self):
        self.run("finish_batch", self.finish)

    def finish(self):
        for row in self.rows:
            self.collector.emit([self.attempt, row])


class Last(Batch, Collect):
    where = "last"

    def begin(self):
        self.rows = []
        self.run("prepare", lambda: None)

    def finish(self):
        Collect.finish_batch(self)


def raising(kind, conf, **spec):
    """A spout of that kind, a BasicBolt, a BatchBolt and a committer."""
    builder = TransactionalTopologyBuilder("raising", "spout", SPOUTS[kind](), config=conf, **spec)
    builder.set_bolt("basic", Basic).shuffle_grouping("spout")
    builder.set_bolt("batch", Batch).shuffle_grouping("basic")
    builder.set_bolt("last", Last).shuffle_grouping("batch")
    return builder
