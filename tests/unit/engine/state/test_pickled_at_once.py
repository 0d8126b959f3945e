"""Dumper.dumps_all: many values at once have the bytes that each has by itself."""

import pickle

import pytest

from fulmen.engine.state.pickling import Dumper


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([1, 2] * 5, id="counts"),
        pytest.param([1, True, 1.0, None] * 5, id="equal-of-other-types"),
        pytest.param([0.0, -0.0] * 5, id="zeros"),
        pytest.param([True, False] * 5, id="bools"),
        pytest.param(["a", "b", "a", "a", "a"], id="texts"),
        pytest.param([(1,), (True,), (1.0,)] * 5, id="tuples"),
        pytest.param(list(range(10)), id="different"),
        pytest.param([], id="none"),
    ],
)
def test_each_value_has_its_own_bytes(values):
    found = [pickle.loads(data) for data in Dumper({}).dumps_all(values)]
    assert list(map(repr, found)) == list(map(repr, values))
