"""Keys that could never be found again, since NaN is in them."""

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pytest

from fulmen.api.keys import first_with_nan, has_nan


class Point(NamedTuple):
    x: float
    y: float


@dataclass(frozen=True)
class Place:
    name: str
    height: float


@pytest.mark.parametrize(
    "key",
    [
        math.nan,
        Decimal("NaN"),
        complex(math.nan, 1),
        np.float32("nan"),
        np.float64("nan"),
        np.datetime64("NaT"),
        (1, math.nan),
        ("a", (1, math.nan)),
        ("a", Decimal("NaN")),
        frozenset({1.5, math.nan}),
        Point(1.5, math.nan),
        Place("sea", math.nan),
    ],
    ids=repr,
)
def test_a_key_with_nan_in_it_is_noticed_among_others(key):
    assert has_nan(key)
    for others in ([], ["a", 1, None], [(1, "a"), (2, 2.5)], [1.5, 2.5]):
        assert first_with_nan([*others, key]) is key


class Hostile:
    __hash__ = object.__hash__

    def __eq__(self, other):
        raise ValueError("no")


@pytest.mark.parametrize(
    "keys",
    [
        [],
        [1.5, math.inf, -0.0],
        [(1, 2.5), (), ("a", None)],
        [
            Decimal(1),
            np.float64(1.5),
            np.datetime64("2026-01-01"),
            Point(1.5, 2.5),
            Place,
            Hostile(),
        ],
        [frozenset(), True, b"", "nan", ("nan",)],
    ],
)
def test_keys_that_are_equal_to_themselves_pass(keys):
    assert first_with_nan(keys) is None
