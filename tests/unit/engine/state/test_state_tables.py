"""Tables of keyed state, which are kept and committed by columns."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fulmen.engine.state.entries import segment_blocks
from fulmen.engine.state.entries.keyed_state import KeyedState
from support.runs.engine_runs import Kept

KEYS = {str: ["", *("ü" * (k % 3) + str(k) for k in range(8))], int: [*range(-4, 4), 2**63 - 1]}
some = st.lists(st.integers(0, 8), unique=True, max_size=9)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from([10, 20]), some),
        st.tuples(st.just("put"), st.sampled_from(["a", (30, "a")]), st.integers(0, 9)),
        st.tuples(st.just("drop"), st.sampled_from([10, 20])),
        st.tuples(st.just("commit")),
        st.tuples(st.just("commit")),
    ),
    max_size=40,
)


class Life:
    """A state with tables, its journals, and the dict that it stands for."""

    def __init__(self, keys, kinds):
        self.keys, self.kinds = keys, kinds
        self.state, self.kept, self.number = KeyedState(), Kept(), 0
        self.tables, self.model = {}, {}

    def add(self, prefix, at):
        """Add 1 to the first number of some keys; the second has one for some of them."""
        if prefix not in self.tables:
            self.tables[prefix] = self.state.table(prefix, self.kinds)
        table, keys = self.tables[prefix], [self.keys[i] for i in at]
        places = table.places(keys)
        table.values[0][places] += 1
        table.there[0][places] = True
        for place, i in zip(places.tolist(), at, strict=True):
            if len(self.kinds) > 1 and i % 2:
                table.values[1][place], table.there[1][place] = i / 2, True
            first = int(table.values[0][place])
            second = i / 2 if i % 2 else None
            written = first if len(self.kinds) == 1 else (first, second, None)
            self.model[prefix, self.keys[i]] = written

    def put(self, key, value):
        """Assign an entry of no table."""
        self.state[key] = self.model[key] = value

    def drop(self, prefix):
        """Delete a table."""
        if self.tables.pop(prefix, None) is not None:
            self.state.drop_table(prefix)
        self.model = {k: v for k, v in self.model.items() if type(k) is str or k[0] != prefix}

    def commit(self):
        """A batch is committed, and whoever reads the checkpoint finds all of it."""
        self.number += 1
        self.kept.add(self.number, self.state.updates(self.number))
        restored = self.kept.restored()
        assert {k: repr(v) for k, v in restored.items()} == {
            k: repr(v) for k, v in self.model.items()
        }
        assert self.state.size == (len(self.model), self.kept.bytes)


@pytest.mark.parametrize("kind", [str, int])
@pytest.mark.parametrize("kinds", [[np.int64], [np.int64, np.float64]], ids=["one", "two"])
@given(steps=steps)
@settings(max_examples=25)
def test_a_commit_has_the_rows_of_all_tables(kind, kinds, steps):
    life = Life(KEYS[kind], kinds)
    for step, *arguments in [*steps, ("commit",)]:
        getattr(life, step)(*arguments)


@pytest.fixture
def small_blocks(monkeypatch):
    """Segments of a few hundred bytes have several blocks."""
    monkeypatch.setattr(segment_blocks, "WHOLE_BYTES", 400)
    monkeypatch.setattr(segment_blocks, "BLOCK_BYTES", 100)


def test_rows_are_in_the_blocks_that_their_keys_are_looked_for_in(small_blocks):
    life = Life([f"user-{k}" for k in range(300)], [np.int64])
    life.add(10, range(200))
    life.commit()
    life.add(10, range(150, 300))
    life.commit()
    for [data] in life.kept.journals.values():
        blocks = segment_blocks.blocks_in("here", data)
        assert len(blocks) > 10
        for number, block in enumerate(blocks):
            part = data[block.start : block.start + block.length]
            for _, entries in segment_blocks.content("here", block, part).groups:
                for key in entries:
                    assert number in segment_blocks.blocks_for(str(key), len(blocks))


def test_what_is_kept_of_a_table_is_less_than_twice_its_rows():
    life, chance = Life([f"user-{k}" for k in range(2000)], [np.int64]), random.Random(3)
    life.add(10, range(2000))
    life.commit()
    whole = life.kept.bytes
    for _ in range(12):
        life.add(10, chance.sample(range(2000), 700))
        life.commit()
        assert life.kept.bytes < 1.8 * whole + (16 << 10)
    assert life.kept.written < 12 * whole


def test_small_segments_of_a_table_become_one_with_all_their_rows():
    life = Life([f"user-{k}" for k in range(60)], [np.int64])
    for k in range(60):
        life.add(10, [k])
        life.commit()
        assert len(life.kept.journals) <= 16


def test_a_batch_without_changes_of_a_table_writes_nothing():
    life = Life(KEYS[str], [np.int64])
    life.add(10, [1, 2])
    life.commit()
    assert life.state.updates(2) == {}
