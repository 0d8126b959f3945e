"""Entries with rows of many keys: whoever has them, in whatever parts, each row is in one task."""

from hypothesis import given
from hypothesis import strategies as st

from fulmen.checkpoint import Ref
from fulmen.engine.driver.checkpoints.kept_entries import dealt
from fulmen.engine.keyed.entries_of_many import NOTHING, EntriesOfMany
from fulmen.engine.keyed.homes import HomeRule, KeyFields, task_range
from fulmen.engine.state.entries.keyed_state import segment_journals
from fulmen.engine.state.entries.own_blocks import share_of

RULE = HomeRule("rows", KeyFields.all_of(1))
KEYS = [(f"k{i}",) for i in range(9)]
PLACES = dict(zip(KEYS, RULE.positions([("of", key) for key in KEYS]).tolist(), strict=True))
ENTRIES = [("rows", 0), ("rows", 1)]
TIMER = ("timer", 0)


class Tasks:
    """Tasks with their segments, and what each key is to have of each entry."""

    def __init__(self):
        self.journals, self.contents, self.number = [{}, {}], {}, 0
        self.rows = {entry: {} for entry in ENTRIES}
        self.timer = {}

    def is_mine(self, key, task):
        first, end = task_range(task, len(self.journals))
        return first <= PLACES[key] < end

    def commit(self, task, new, gone):
        self.number += 1
        ref = Ref(self.number, f"f{self.number}")
        self.journals[task][f"state.{self.number}.0"] = [ref]
        self.contents[ref] = new, gone

    # What happens

    def write(self, task, entry, keys):
        """The task's entry is from now on what it brings of these keys, and nothing else."""
        task %= len(self.journals)
        mine = [key for key in keys if self.is_mine(key, task)]
        self.commit(task, {entry: [(self.number, key) for key in mine]}, [])
        of = {key: rows for key, rows in self.rows[entry].items() if not self.is_mine(key, task)}
        for key in mine:
            of.setdefault(key, []).append((self.number - 1, key))
        self.rows[entry] = of

    def forget(self, task, entry):
        task %= len(self.journals)
        self.commit(task, {}, [entry])
        of = self.rows[entry]
        self.rows[entry] = {k: rows for k, rows in of.items() if not self.is_mine(k, task)}

    def wait(self, task, is_set):
        task %= len(self.journals)
        self.commit(task, *(({TIMER: 7}, []) if is_set else ({}, [TIMER])))
        self.timer |= {key: is_set for key in KEYS if self.is_mine(key, task)}

    def rescale(self, to):
        self.journals = dealt(self.journals, "state", to, RULE)

    # What is there

    def check(self):
        there = {entry: {} for entry in ENTRIES}
        for task, refs in enumerate(self.journals):
            names = segment_journals(refs, "state")
            plain = {}
            many = EntriesOfMany.among(map(share_of, names))
            for name in names:
                new, gone = self.contents[refs[name][0]]
                plain |= new
                for entry in gone:
                    plain.pop(entry, None)
                if many is not None:
                    many.take(share_of(name), new, gone)
            found = plain if many is None else dict(many.items())
            for entry in ENTRIES:
                if (rows := found.get(entry, NOTHING)) is not NOTHING:
                    for row in rows:
                        assert self.is_mine(row[1], task)
                        there[entry].setdefault(row[1], []).append(row)
            waits = any(is_set for key, is_set in self.timer.items() if self.is_mine(key, task))
            assert not waits or found.get(TIMER, NOTHING) == 7
        assert there == self.rows


TASK, ENTRY = st.integers(0, 4), st.sampled_from(ENTRIES)
STEPS = st.one_of(
    st.tuples(st.just("write"), TASK, ENTRY, st.lists(st.sampled_from(KEYS), max_size=9)),
    st.tuples(st.just("write"), TASK, ENTRY, st.just(KEYS)),
    st.tuples(st.just("forget"), TASK, ENTRY),
    st.tuples(st.just("wait"), TASK, st.booleans()),
    st.tuples(st.just("rescale"), st.integers(1, 5)),
)


@given(st.lists(STEPS, max_size=14))
def test_each_row_is_in_the_task_of_its_key(steps):
    tasks = Tasks()
    for name, *arguments in steps:
        getattr(tasks, name)(*arguments)
        tasks.check()
