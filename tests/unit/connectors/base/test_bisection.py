"""Rows that a database refuses: found with few statements, and as if rows came one by one."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fulmen.connectors.base.bisection import (
    RowsRefused,
    last_of_keys,
    write_but_refused,
    write_last_of_keys,
)


class Database:
    """Keys with values; refuses values below 0, and a statement that has a key twice."""

    def __init__(self, items):
        self.items, self.rows, self.statements = items, {}, 0

    def write(self, positions):
        self.statements += 1
        items = [self.items[i] for i in positions]
        bad = [value for _, value in items if value < 0]
        if bad:
            raise RowsRefused(f"{bad[0]} is below 0")
        keys = [key for key, _ in items if key is not None]
        assert len(set(keys)) == len(keys)
        for i in positions:
            key, value = self.items[i]
            self.rows[i if key is None else f"key {key}"] = value


@settings(max_examples=10 * settings.default.max_examples)  # a millisecond each
@given(st.lists(st.integers(-1, 5)))
def test_all_rows_but_those_that_are_refused_are_written(values):
    database = Database([(None, value) for value in values])
    refused = write_but_refused(range(len(values)), database.write)
    assert refused == {i: "-1 is below 0" for i, value in enumerate(values) if value < 0}
    assert database.rows == {i: value for i, value in enumerate(values) if value >= 0}
    assert list(database.rows) == sorted(database.rows)


@pytest.mark.parametrize("bad", [0, 1, 10])
def test_a_refused_row_costs_few_statements(bad):
    size = 4096
    items = [(None, -1 if i % (size // bad) == 7 else 1) if bad else (None, 1) for i in range(size)]
    database = Database(items)
    assert len(write_but_refused(range(size), database.write)) == bad
    assert database.statements <= 1 + 2 * bad * math.log2(size)


KEYS = st.one_of(st.none(), st.integers(0, 3).map(str))


@given(st.lists(st.tuples(KEYS, st.integers(-1, 5))))
def test_an_upsert_leaves_what_it_would_if_rows_came_one_by_one(items):
    database, expected = Database(items), {}
    refused = write_last_of_keys([key for key, _ in items], database.write)
    for i, (key, value) in enumerate(items):
        if value >= 0:
            expected[i if key is None else f"key {key}"] = value
    assert database.rows == expected
    assert all(items[i][1] < 0 for i in refused)
    last = {key: i for i, (key, _) in enumerate(items) if key is not None}
    assert {i for i in last.values() if items[i][1] < 0} <= set(refused)


def test_the_last_rows_of_keys_are_in_the_order_of_keys():
    assert last_of_keys(["b", "a", "c", "a"]) == [3, 0, 2]


def test_keys_of_several_columns_are_compared_as_a_whole():
    keys = [("a", "1"), ("a", "2"), ("a", "1"), ("a", None), ("a", None)]
    assert sorted(last_of_keys(keys)) == [1, 2, 3, 4]
    seen = []
    write_last_of_keys(keys, seen.extend)
    assert seen == [1, 2, 3, 4]
