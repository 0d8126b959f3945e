"""Lines that wait for somebody to take them."""

from fulmen.engine.taps.kept_lines import MOST_KEPT, MOST_KEPT_BYTES, KeptLines


def test_the_oldest_lines_are_dropped_if_there_are_many_or_if_they_are_long():
    kept = KeptLines()
    for _ in range(2):  # what was taken has made room
        assert kept.add([b"x" * (MOST_KEPT_BYTES // 2), b"y" * (MOST_KEPT_BYTES // 2)]) == 0
        assert kept.add([b"z"]) == 1
        assert [line[:1] for line in kept.take()] == [b"y", b"z"]
        assert not kept
        lines = [b"%d" % i for i in range(MOST_KEPT + 7)]
        assert kept.add(lines) == 7
        assert kept.take() == lines[7:]
