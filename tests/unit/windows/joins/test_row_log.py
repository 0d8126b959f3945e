"""What joins keep of rows by batch."""

from fulmen.windows.joins.row_log import RowGroup, RowLog


def test_groups_that_become_one_are_written_and_forgotten_together():
    state = {}
    log = RowLog(state)
    one, other = RowGroup(("rows", 1)), RowGroup(("rows", 1))
    log.add(one, "a")
    log.end_batch()
    log.add(other, "b")
    log.join(one, other)
    log.add(one, "c")
    log.end_batch()
    assert state == {("rows", 1, 0): ["a"], ("rows", 1, 1): ["b", "c"]}
    log.forget(one)
    assert state == {}
