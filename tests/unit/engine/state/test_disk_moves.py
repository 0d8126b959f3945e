"""State on disk after other numbers of tasks: each task has what it would have in memory."""

import tempfile
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from fulmen.checkpoint import Ref
from fulmen.engine.driver.checkpoints.kept_entries import dealt
from fulmen.engine.keyed.homes import HomeRule, KeyFields, task_range
from fulmen.engine.keyed.stores.local_store import LocalStore
from fulmen.engine.state.entries.disk_entries import DiskEntries
from fulmen.engine.state.entries.disk_state import DiskState
from fulmen.engine.state.entries.keyed_state import KeyedState, segment_journals
from support.stores.disk_states import JournalsSource

RULE = HomeRule("rows", KeyFields.all_of(1))
KEYS = [(f"k{i}",) for i in range(7)]
PLAIN = [("of", key) for key in KEYS]
PLACES = dict(zip(PLAIN, RULE.positions(PLAIN).tolist(), strict=True))
ROWS, TIMER = ("rows", 0), ("timer", 0)


class Tasks:
    """Tasks with their segments, and the disk that they are on."""

    def __init__(self, folder):
        self.journals, self.data, self.number, self.folder = [{}, {}], {}, 0, folder

    def commit(self, task, values, gone):
        """A task writes, and deletes; of entries that are not of many only its own."""
        task %= len(self.journals)
        lo, hi = task_range(task, len(self.journals))

        def is_mine(key):
            return key not in PLACES or lo <= PLACES[key] < hi

        state = self.state(task)
        for key in filter(is_mine, gone):
            state.pop(key, None)
        state.update({key: value for key, value in values.items() if is_mine(key)})
        self._write_down(task, state)

    def state(self, task):
        return KeyedState.restore(self._loaded(self.journals[task]), name="state")

    def commit_on_disk(self, task, values):
        state = self._on_disk(task)
        state.update(values)
        self._write_down(task, state)
        state.close()

    def _write_down(self, task, state):
        self.number += 1
        for journal, (data, _) in state.updates(self.number).items():
            if data is None:
                del self.journals[task][journal]
            else:
                ref = Ref(self.number, f"{task}.{journal}")
                self.journals[task][journal], self.data[ref] = [ref], data

    def rescale(self, to):
        self.journals = dealt(self.journals, "state", to, RULE)

    def _loaded(self, refs):
        return {name: [self.data[refs[name][0]]] for name in segment_journals(refs, "state")}

    def look(self):
        """Processes go on with what earlier ones with as many tasks have left."""
        for task in range(len(self.journals)):
            expected = dict(self.state(task))
            state = self._on_disk(task)
            assert dict(state.items()) == expected
            assert len(state) == len(expected)
            assert {key: state.get(key) for key in (ROWS, TIMER, *PLAIN)} == {
                key: expected.get(key) for key in (ROWS, TIMER, *PLAIN)
            }
            state.close()

    def _on_disk(self, task):
        journals = self._loaded(self.journals[task])
        source = JournalsSource(journals, {n: f"t{n}" for n in range(self.number + 1)})
        store = LocalStore(self.folder / f"{task} of {len(self.journals)}")
        return DiskState(DiskEntries(store, "state", source))


TASK, NUMBERS = st.integers(0, 4), st.lists(st.sampled_from(KEYS), max_size=7)
VALUES = st.one_of(
    st.builds(lambda keys: {ROWS: [(i, key) for i, key in enumerate(keys)]}, NUMBERS),
    st.builds(lambda at: {TIMER: at}, st.integers(1, 9)),
    st.builds(lambda keys, n: {("of", key): n for key in keys}, NUMBERS, st.integers(0, 9)),
)
GONE = st.lists(st.sampled_from([ROWS, TIMER, *PLAIN]), max_size=3)
STEPS = st.one_of(
    st.tuples(st.just("commit"), TASK, VALUES, GONE),
    st.tuples(st.just("rescale"), st.integers(1, 4)),
    st.tuples(st.just("look")),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(STEPS, max_size=10))
@example([("commit", 0, {TIMER: 2}, []), ("commit", 1, {TIMER: 5}, []), ("rescale", 1)])
@example([("commit", 0, {TIMER: 2}, []), ("commit", 1, {}, [TIMER]), ("rescale", 3)])
@example([("commit", n, {ROWS: [(n, key) for key in KEYS]}, []) for n in (0, 1)] + [("rescale", 1)])
@example(
    [
        ("commit", 0, dict.fromkeys(PLAIN, 1), []),
        ("commit", 0, {TIMER: 1}, []),
        ("look",),
        ("commit", 0, {TIMER: 2}, PLAIN),  # no segment knows the others any more
        ("look",),
    ]
)
def test_each_task_has_what_it_would_have_in_memory(steps):
    with tempfile.TemporaryDirectory() as folder:
        tasks = Tasks(Path(folder))
        for name, *arguments in [*steps, ("look",), ("look",)]:
            getattr(tasks, name)(*arguments)


def test_an_entry_of_many_keys_is_with_all_tasks_that_the_next_number_brings(tmp_path):
    tasks = Tasks(tmp_path)
    for task in (0, 1):
        tasks.commit(task, {TIMER: 2}, [])
    tasks.rescale(1)
    tasks.commit_on_disk(0, {PLAIN[0]: 1})
    tasks.rescale(2)
    assert [tasks.state(task).get(TIMER) for task in (0, 1)] == [2, 2]
