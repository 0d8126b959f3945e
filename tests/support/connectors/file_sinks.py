"""Sinks of files in one process, with commits that come to nothing."""

import gzip
import json
import pickle
from collections import Counter
from dataclasses import replace

import pyarrow.parquet as pq

from fulmen.api import FailedException, Mark, Rows, TopologyContext
from fulmen.api.context import Batch
from fulmen.api.marks import EngineMark, Point
from fulmen.api.tuples import HELD, TICK_COMPONENT, TICK_STREAM, Held, Tuple
from fulmen.connectors.files import FileSink, RollingFileSink
from fulmen.engine.tasks.author.instance import AuthorInstance
from fulmen.engine.tuples.tuple_rows import TupleRows

FIELDS = ("n", "text")


def sink_context(options, batch=None):
    return TopologyContext(
        topology="logs",
        component="files",
        task_id=3,
        task_index=1,
        worker=0,
        options=options,
        batch=batch or Batch(7, "cafe"),
    )


def made(kind=FileSink, *, batch=None, **config):
    """A sink that is prepared, and its context."""
    sink = kind()
    sink.prepare({}, sink_context(kind.config_model(**config), batch))
    return sink


def mark(number, tag="beef", after=None, sink="0123abcd"):
    """That of a commit, behind that of commit `after`."""
    previous = None if after is None else Point(after, "beef")
    return Mark(sink, number, tag, "logs/files/1", previous)


def write(sink, rows, of=None, fields=FIELDS):
    """Encode rows and write them, as a batch does. Returns what was refused."""
    given = Rows(fields, rows)
    items = sink.encode(given)
    kept = [item for i, item in enumerate(items) if i not in given.failed]
    sink.write(Rows(fields, pickle.loads(pickle.dumps(kept))), of)
    return given.failed


def written(folder):
    """All rows in the files of a folder: JSON lines, plain or compressed, or Parquet."""
    rows = []
    for path in sorted(folder.glob("[!.]*")):
        if path.suffix == ".parquet":
            rows += pq.read_table(path).to_pylist()
            continue
        data = path.read_bytes()
        data = gzip.decompress(data) if path.suffix == ".gz" else data
        rows += [json.loads(line) for line in data.splitlines()]
    return rows


class RollingLives:
    """The lives of one rolling sink: a batch is committed, or comes to nothing with its process.

    Attributes:
        acked: How often each value was acked in a commit.
    """

    def __init__(self, **config):
        self.options = RollingFileSink.config_model(**config)
        self.journals, self.number, self.attempts = {}, 0, 0
        self.acked = Counter()
        self.errors = []
        self.mark = EngineMark("0123abcd")
        self.start()

    def start(self):
        """Lose the process, if there is one: go on from what is committed."""
        self.batch = Batch(self.number)
        self.acks = []
        self.author = AuthorInstance(
            RollingFileSink, {k: list(v) for k, v in self.journals.items()}
        )
        self.sink = self.author.instance
        context = sink_context(self.options, self.batch)
        context.signals.kept_mark = self.kept = replace(self.mark)
        injected = {
            "collector": self,
            "context": context,
            "conf": {},
        }
        self.author.open(injected, lambda call: call(), is_copy=False)
        self.is_told = False

    def attempt(self, rows=(), *, tick=False, drain=False):
        """One batch, without its commit. Returns the reasons of tuples that failed."""
        self.attempts += 1
        self.batch.number, self.batch.attempt = self.number + 1, f"attempt{self.attempts}"
        self.acks, failed = [], []
        if self.number and not self.is_told:
            self.reported(lambda: self.sink.committed(self.number))
            self.is_told = True
        source = Held("source", "default", FIELDS, 1)
        some = TupleRows([list(row) for row in rows])
        left = self.sink.execute_chunk(Tuple((), source, HELD), some) if rows else ()
        for i, row in enumerate(rows):
            try:
                if left is None or i in left:
                    self.sink.execute(Tuple(list(row), source, HELD), self)
                self.acks.append(row[0])
            except FailedException as error:
                failed.append(str(error))
        if tick:
            tick_source = Held(TICK_COMPONENT, TICK_STREAM, ("s",), -1)
            self.sink.execute(Tuple([1.0], tick_source, HELD), self)
        if rows or tick:
            self.reported(lambda: self.sink.end_batch(self))
        if drain:
            self.reported(lambda: self.sink.drain(self))
        return failed

    def reported(self, call):
        try:
            call()
        except Exception as error:  # noqa: BLE001 (as the engine does)
            self.errors.append(str(error))

    def commit(self):
        self.number += 1
        self.mark = replace(self.kept)
        updates = self.author.write_down(self.journals, self.number)
        self.acked.update(self.acks)
        self.is_told = not updates

    def run(self, rows=(), **more):
        """A batch that is committed."""
        failed = self.attempt(rows, **more)
        self.commit()
        return failed
