"""Which cells of a matrix of tests run."""

import pytest

from support.suite.draws import drawn

CELLS = ("sqlite", "postgres", "redis", "kafka", "kafka-at-least-once", "rabbitmq")
RUNS = 10
RECORDED = (
    1660128825,
    3233212857,
    257270996,
    1721631928,
    2700330933,
    615883222,
    2581019423,
    3534004145,
    81354254,
    2208401883,
)
"""The seeds that ten runs have printed."""


@pytest.mark.parametrize("share", [1 / 3, 1 / 2])
def test_ten_recorded_runs_have_drawn_every_cell(share):
    assert set.union(*(drawn(CELLS, share, f"{seed} sinks") for seed in RECORDED)) == set(CELLS)


@pytest.mark.parametrize(("share", "count"), [(1 / 6, 1), (0.01, 1), (0.5, 3), (0.51, 4), (1, 6)])
def test_a_share_of_the_cells_is_drawn_and_one_at_least(share, count):
    assert len(drawn(CELLS, share, 7)) == count


def test_the_same_seed_draws_the_same_whatever_the_order():
    assert drawn(CELLS, 0.5, 7) == drawn(CELLS[::-1], 0.5, 7)


def test_each_cell_is_left_out_of_ten_runs_as_rarely_as_the_share_says():
    """With a half, once in a thousand times; here of 600 chances."""
    left_out = sum(
        cell
        not in set.union(*(drawn(CELLS, 1 / 2, run) for run in range(RUNS * n, RUNS * (n + 1))))
        for n in range(100)
        for cell in CELLS
    )
    assert left_out <= 5
