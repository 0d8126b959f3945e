"""Stores and checkpoints that go back: rows are never written twice, nor left out in silence.

A checkpoint here is a list of states, by the numbers of its commits; a store is its rows and marks.
What a sink does between two commits is what `CommittedRows` does. The steps are drawn at random,
and after each write the store must have exactly what the checkpoint that it is written from has
emitted.
"""

import pickle
from dataclasses import dataclass, field

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from fulmen.api import Mark
from fulmen.api.marks import Point, StoreMismatch
from fulmen.checkpoint import CommitLog, Update, load_many, new_tag
from fulmen.engine.driver.edits.sink_ids import kept_ids
from fulmen.engine.state.journals import ENGINE, MARK, ROWS
from fulmen.engine.state.messages.unwritten_rows import (
    Unwritten,
    new_id,
    packed_point,
    unpacked_point,
)
from support.runs.engine_runs import new_store

TASK = "sink/0"


@dataclass
class Database:
    """The store of a sink.

    Attributes:
        rows: What was written, in its order.
        marks: The mark of each id.
    """

    rows: list = field(default_factory=list)
    marks: dict = field(default_factory=dict)

    def write(self, rows, mark):
        found = self.marks.get(mark.sink, Point(None, None))
        if not mark.is_written(*found):
            self.rows += rows
            self.marks[mark.sink] = Point(mark.number, mark.tag)

    def copy(self):
        return Database(list(self.rows), dict(self.marks))


class Life:
    """A checkpoint in which a sink emits rows, and its store.

    Attributes:
        emitted: The rows that each commit's state has emitted, by the commit's number.
    """

    def __init__(self):
        self.store, self.database = new_store(), Database()
        self.rng = np.random.default_rng(7)
        self.log = CommitLog(self.store, "topology", "a test")
        self.log.claim()
        self.emitted = {self.number: []}
        self.manifests = {self.number: self._copied()}
        self.backups, self.next_row, self.read = [Database()], 0, (0, {})

    @property
    def number(self):
        return self.log.manifest.number

    def _copied(self):
        return pickle.loads(pickle.dumps(self.log.manifest))

    def journals(self):
        if self.read[0] != self.number:
            self.read = self.number, load_many(self.store, self.log.manifest, [TASK])[TASK]
        return self.read[1]

    def engine(self):
        journals = self.journals()
        return pickle.loads(journals[ENGINE][-1]) if journals.get(ENGINE) else {}

    def commit(self, emitted, updates, **more):
        draft = self.log.draft(tag=new_tag(), clock=0.0, updates=updates, **more)
        self.log.commit(draft)
        self.emitted[self.number] = emitted
        self.manifests[self.number] = self._copied()

    def unwritten(self):
        journals = self.journals()
        return Unwritten.unpack(journals[ROWS][-1]) if journals.get(ROWS) else None

    def point(self):
        """What the store should have, by the checkpoint."""
        journals, unwritten = self.journals(), self.unwritten()
        if journals.get(MARK):
            return unpacked_point(journals[MARK][-1])
        return None if unwritten is None else unwritten.previous

    # Steps

    def emit(self, has_rows=True):
        """A batch: what is unwritten is written, and rows are kept for the next one."""
        unwritten = self.unwritten()
        if unwritten is not None and not self.write():
            return
        point = unwritten.point if unwritten is not None else self.point()
        number, updates, rows = self.number + 1, {}, []
        if has_rows:
            self.next_row += 1
            rows, engine = [self.next_row], self.engine()
            sink = engine.get("sink") or new_id(self.rng)
            kept = Unwritten(number, f"tag {self.next_row}", ("row",), point, rows)
            updates = {ENGINE: Update(pickle.dumps({**engine, "sink": sink}), None, number)}
            updates |= {ROWS: Update(kept.pack(), None, number), MARK: Update(None, None, number)}
        elif unwritten is not None:
            updates = {ROWS: Update(None, None, number)}
            updates[MARK] = Update(packed_point(point), None, number)
        self.commit([*self.emitted[self.number], *rows], {TASK: updates} if updates else {})

    def write(self):
        """Write what is unwritten. Returns whether the store took it."""
        unwritten, sink = self.unwritten(), self.engine()["sink"]
        mark = Mark(sink, *unwritten.point, "topology/sink/0", self.point())
        before = self.database.copy()
        try:
            self.database.write(unwritten.items, mark)
        except StoreMismatch:
            assert self.database == before
            return False
        assert self.database.rows == self.emitted[self.number]
        return True

    def write_and_crash(self):
        """The rows are written, and the batch is never committed."""
        if self.unwritten() is not None:
            self.write()

    def back_up(self):
        self.backups.append(self.database.copy())

    def restore_store(self, which):
        self.database = self.backups[which % len(self.backups)].copy()

    def go_back(self, which):
        """To one of the states before: a later commit with its content."""
        numbers = sorted(self.manifests)
        older = self.manifests[numbers[which % len(numbers)]]
        number = self.number + 1
        journals = load_many(self.store, older, older.tasks).get(TASK, {})
        updates = {journal: Update(of[-1], None, number) for journal, of in journals.items()}
        updates |= kept_ids(self.store, older, self.log.manifest, number).get(TASK, {})
        before = list(self.log.manifest.tasks)
        changed = {TASK: updates} if updates else {}
        self.commit(self.emitted[older.number], changed, removed_tasks=before)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("emit"), st.booleans()),
        st.tuples(st.sampled_from(["write_and_crash", "back_up"])),
        st.tuples(st.sampled_from(["restore_store", "go_back"]), st.integers(0, 9)),
    ),
    max_size=12,
)


@given(STEPS)
@example([("emit", True), ("emit", False), ("go_back", 0)])  # to before its first rows
@example([("emit", True), ("emit", False), ("go_back", 0), ("go_back", 0)])
def test_a_store_has_what_its_checkpoint_has_emitted_or_the_sink_stops(steps):
    life = Life()
    for name, *arguments in [*steps, ("emit", True), ("emit", False)]:
        getattr(life, name)(*arguments)
