"""Bolts of `chunk_parts` that get many tuples in one call: as Arrow, and as lists."""

import pyarrow as pa

from fulmen import ArrowBolt, FailedException, ManyBolt
from support.worlds.chunk_parts import FIELDS, LOG, Case, Part, Received


class Columns(Part, ArrowBolt):
    """Rows as Arrow: drops, doubles and fails some."""

    def prepare(self, conf, context):
        self.begin(conf, context)

    def execute(self, batch, collector):
        component, stream = collector.source
        picked, rows = [], []
        for i, (uid, key, roots) in enumerate(zip(*batch.to_pydict().values(), strict=True)):
            if self.leaves_out(key, component, stream):
                continue
            LOG.append(Received(self.component, self.context.task_index, stream, uid))
            dice = self.dice(uid)
            for _, row in self.children(dice, uid, roots):
                rows.append(row)
                picked.append(i)
            if self.refuses(dice, roots, uid):
                collector.fail([i], f"because <{uid}>")
        if rows:
            columns = dict(zip(FIELDS, map(pa.array, zip(*rows, strict=True)), strict=True))
            collector.emit(pa.record_batch(columns), self.conf["stream"], rows=picked)


class Lists(Part, ManyBolt):
    """Drops, doubles and fails some, by the list; one by one, by `execute`."""

    def prepare(self, conf, context):
        self.begin(conf, context)

    def execute_many(self, tuples, collector):
        if self.conf["way"] == "singly":
            return range(len(tuples))
        rows, parents = [], []
        for i, (uid, _, roots) in enumerate(tuples):
            _, dice = self.receive(tuples.tuple(i))
            for _, row in self.children(dice, uid, roots):
                rows.append(row)
                parents.append(i)
            if self.refuses(dice, roots, uid):
                collector.fail(i, f"because <{uid}>")
        is_one_to_one = parents == [*range(len(tuples))]
        collector.emit_many(rows, self.conf["stream"], None if is_one_to_one else parents)
        LOG.append(Case("one to one" if is_one_to_one else "not one to one"))
        return None

    def execute(self, tup, collector):
        if self.leaves_out(tup.values[1], tup.component, tup.stream):
            return
        uid, dice = self.receive(tup)
        for _, row in self.children(dice, uid, tup.values[2]):
            collector.emit(row, self.conf["stream"])
        if self.refuses(dice, tup.values[2], uid):
            raise FailedException(f"because <{uid}>")
