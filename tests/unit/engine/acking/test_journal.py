"""The format of an acker's journal is what its sample shows.

In `data`, `trees.1` has all trees, and `trees.2` what the next batch changed: one tree ended, one
was acked in part, one began. If the columns of `Trees` change, add what is written then, and leave
these files alone.
"""

from pathlib import Path

from fulmen.engine.acking.acker_task import TREES, AckerTask

DATA = Path(__file__).parent / "data"


def test_the_journal_is_read():
    records = [(DATA / f"trees.{number}").read_bytes() for number in (1, 2)]
    trees = AckerTask(0, {TREES: records}).trees
    roots = [7, *((1 << 48) + n for n in range(1, 80))]
    assert trees.roots.tolist() == roots
    assert trees.values.tolist() == [9, 3 * roots[1] ^ 1, *(3 * root for root in roots[2:])]
    assert trees.since.tolist() == [2.5, *[1.5] * 79]
    assert trees.born.tolist() == [101.5, *(100 + n / 4 for n in range(1, 80))]
