"""How many bytes values are thought to take."""

import numpy as np
import pyarrow as pa
import pytest

from fulmen.engine.tuples.sizes import SMALL, rows_bytes, value_bytes


class Held:
    def __init__(self, content):
        self.content = content


class Slotted:
    __slots__ = ("content",)


class Nasty:
    __slots__ = ()

    def __sizeof__(self):
        raise RuntimeError("no")

    def __getattr__(self, name):
        raise RuntimeError("no")

    def __len__(self):
        raise RuntimeError("no")


MEGABYTE = 1 << 20


@pytest.mark.parametrize(
    ("value", "least"),
    [
        pytest.param(b"x" * MEGABYTE, MEGABYTE, id="bytes"),
        pytest.param("x" * MEGABYTE, MEGABYTE, id="text"),
        pytest.param(bytearray(MEGABYTE), MEGABYTE, id="bytearray"),
        pytest.param(np.zeros(MEGABYTE, np.uint8), MEGABYTE, id="numpy"),
        pytest.param(pa.array(["x" * MEGABYTE]), MEGABYTE, id="arrow"),
        pytest.param([b"x" * 1000] * 1000, 900_000, id="list"),
        pytest.param(dict.fromkeys(range(1000), "x" * 1000), 900_000, id="dict"),
        pytest.param((["x" * MEGABYTE],), MEGABYTE, id="nested"),
        pytest.param(Held({"deep": b"x" * MEGABYTE}), MEGABYTE, id="object"),
    ],
)
def test_what_fills_memory_is_counted(value, least):
    assert least <= value_bytes(value) <= 2 * least + 100 * SMALL


def test_everything_else_counts_as_little_and_raises_nothing():
    for value in (1, 2.5, None, True, Slotted(), Nasty(), object()):
        assert 0 < value_bytes(value) < 1000


def test_a_container_in_itself_has_an_end():
    value = []
    value.append(value)
    assert value_bytes(value) < 1000


def test_some_rows_stand_for_all_from_the_first_one_that_is_asked_for():
    rows = [("x" * MEGABYTE,)] * 5 + [("x" * 1000,)] * 1000
    assert rows_bytes(rows, 5) == pytest.approx(1_000_000, rel=0.1)
    assert rows_bytes(rows, len(rows)) == rows_bytes([]) == 0
