"""Which segments of a keyed state are written anew with a commit."""

import pytest

from fulmen.engine.state.entries.disk_records import DiskSegment
from fulmen.engine.state.entries.segments import FULL_BYTES, MOST_WASTE, victims

SEGMENTS, KEYS = 60, 10_000


class Moved:
    """The segments of a task that has a third of the keys of another."""

    def __init__(self):
        third = KEYS // 3
        self.segments = [
            DiskSegment(i, "", FULL_BYTES, whole=KEYS, live=third, left=third)
            for i in range(SEGMENTS)
        ]

    def commit(self, changed):
        """Gives how many bytes it writes anew."""
        dropped = list(victims(self.segments, changed, full_bytes=1))
        self.segments = [one for one in self.segments if one not in dropped]
        keys = sum(one.live for one in dropped)
        size = round(sum(one.live_bytes for one in dropped))
        if dropped:
            self.segments.append(DiskSegment(0, "", size, whole=keys, live=keys, left=keys))
        return size

    @property
    def waste(self):
        return sum(s.bytes for s in self.segments) / sum(s.live_bytes for s in self.segments)


@pytest.fixture
def moved():
    return Moved()


def test_waste_that_comes_all_at_once_goes_bit_by_bit(moved):
    written = []
    while moved.waste > MOST_WASTE + 0.01:
        written.append(moved.commit(changed=10))
    assert max(written) < FULL_BYTES
    assert len(written) > 10


def test_a_commit_that_changes_much_may_write_as_much_anew(moved):
    moved.commit(changed=SEGMENTS * KEYS)
    assert moved.waste <= MOST_WASTE + 0.01
