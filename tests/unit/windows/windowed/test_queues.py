"""Which tuples are in which window: the cases of Storm's own tests of its WindowManager."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fulmen.windows.windowed import queues
from fulmen.windows.windowed.queues import NEVER, Extent, QueuedTuple, TupleQueue, WindowRule


def ms(amount):
    return Extent(amount, True)


def by_time(length, slide):
    return TupleQueue(WindowRule(length, slide, True))


def add(queue, events):
    for item, time in events:
        queue.add(QueuedTuple(time, item, item))


def shown(firing):
    lists = (firing.tuples, firing.new, firing.expired)
    return tuple([one.item for one in some] for some in lists)


def windows(queue, watermark):
    """The windows that are due, as lists of (all, new, expired)."""
    found = [f for f in queue.by_watermark(watermark) if f.tuples]
    return [shown(firing) for firing in found]


def seq(first, last):
    return list(range(first, last + 1))


EVENTS = [(1, 603), (2, 605), (3, 607), (4, 618), (5, 626), (6, 636)]


def arrive(queue, items):
    found = None
    for item in items:
        queue.add(QueuedTuple(0, item, item))
        firing = queue.by_arrival(0)
        found = firing or found
    return None if found is None else shown(found)


def test_count_based_window():
    queue = TupleQueue(WindowRule(Extent(5), Extent(2), False))
    assert arrive(queue, [1, 2]) == ([1, 2], [1, 2], [])
    assert arrive(queue, [3, 4]) == (seq(1, 4), [3, 4], [])
    assert arrive(queue, [5, 6]) == (seq(2, 6), [5, 6], [1])
    assert arrive(queue, [7]) is None
    assert arrive(queue, [8]) == (seq(4, 8), [7, 8], [2, 3])


def test_tumbling_window():
    queue = TupleQueue(WindowRule(Extent(3), Extent(3), False))
    assert arrive(queue, [1, 2]) is None
    assert arrive(queue, [3]) == (seq(1, 3), seq(1, 3), [])
    assert arrive(queue, [4, 5, 6]) == (seq(4, 6), seq(4, 6), seq(1, 3))


def test_event_time_based_window():
    queue = by_time(ms(20), ms(10))
    add(queue, EVENTS[:3])
    assert windows(queue, 609) == []
    add(queue, EVENTS[3:])
    assert windows(queue, 631) == [
        (seq(1, 3), seq(1, 3), []),
        (seq(1, 4), [4], []),
        (seq(4, 5), [5], seq(1, 3)),
    ]
    add(queue, [(7, 825), (8, 826), (9, 827), (10, 839)])
    assert windows(queue, 834) == [
        (seq(5, 6), [6], [4]),
        ([6], [], [5]),
        (seq(7, 9), seq(7, 9), []),
    ]


def test_count_based_window_with_event_time():
    queue = by_time(Extent(3), ms(10))
    add(queue, EVENTS)
    assert [w[0] for w in windows(queue, 631)] == [seq(1, 3), seq(2, 4), seq(3, 5)]
    add(queue, [(7, 665), (8, 666), (9, 667), (10, 679)])
    assert [w[0] for w in windows(queue, 674)] == [seq(4, 6), seq(4, 6), seq(4, 6), seq(7, 9)]


def test_count_based_trigger_with_event_time():
    queue = by_time(ms(20), Extent(3))
    add(queue, [*EVENTS[:4], (5, 625), (6, 626), (7, 629), (8, 636)])
    assert [w[0] for w in windows(queue, 631)] == [seq(1, 3), seq(3, 6)]
    add(queue, [(9, 665), (10, 666), (11, 667), (12, 669), (12, 679)])
    assert [w[0] for w in windows(queue, 674)] == [[9], seq(9, 12)]


SAME = [(1, 10), (2, 10), (3, 11), *[(n, 12) for n in seq(4, 7)], (8, 13), (9, 14), (10, 15)]


def test_count_based_tumbling_with_the_same_event_time():
    queue = by_time(Extent(2), Extent(2))
    add(queue, SAME)
    assert [w[0] for w in windows(queue, 20)] == [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10]]


def test_count_based_sliding_with_the_same_event_time():
    queue = by_time(Extent(5), Extent(2))
    add(queue, SAME)
    found = [w[0] for w in windows(queue, 20)]
    assert found == [seq(1, 2), seq(1, 4), seq(2, 6), seq(4, 8), seq(6, 10)]


def test_out_of_order_within_the_lag():
    queue = by_time(ms(20), ms(10))
    add(queue, [*EVENTS[:5], (6, 632), (7, 629), (8, 636)])
    assert [w[0] for w in windows(queue, 631)] == [seq(1, 3), seq(1, 4), [4, 5, 7]]


def test_time_based_window_and_its_expiry():
    queue = TupleQueue(WindowRule(ms(100), ms(60), False))
    add(queue, [(n, 0) for n in seq(1, 10)])
    assert [e.item for e in queue.by_clock(60).tuples] == seq(1, 10)
    firing = queue.by_clock(120)
    assert (firing.tuples, [e.item for e in firing.expired]) == ([], seq(1, 10))
    assert shown(queue.by_clock(180)) == ([], [], [])


# Beyond Storm's tests


def test_windows_by_the_clock_that_come_late_lose_nothing():
    queue = TupleQueue(WindowRule(ms(10), ms(10), False))
    add(queue, [(1, 0), (2, 9)])
    assert [e.item for e in queue.by_clock(13).tuples] == [1, 2]
    add(queue, [(3, 14)])
    add(queue, [(4, 25)])
    firing = queue.by_clock(31)
    assert [e.item for e in firing.tuples] == [3, 4], "18 ms since the last, and all of them count"
    assert [e.item for e in firing.expired] == [1, 2]


LAG = 10
STEPS = st.lists(st.tuples(st.sampled_from([-10, -5, 0, 0, 5, 10, 55]), st.booleans()), max_size=14)


@pytest.mark.parametrize("length", [ms(10), ms(20), Extent(2)])
@pytest.mark.parametrize("slide", [ms(10), ms(15), Extent(3)])
@given(steps=STEPS)
def test_windows_do_not_depend_on_how_tuples_are_cut_into_batches(length, slide, steps):
    """As long as each is within the lag; those of the time of the watermark are in time, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queues, "MOST_REPEATED", 2)
        at_once = in_batches(length, slide, [(step, False) for step, _ in steps])
        assert in_batches(length, slide, steps) == at_once


def in_batches(length, slide, steps):
    """All windows, also those of the end of all input.

    Args:
        length: Of the windows.
        slide: Of the windows.
        steps: How much later each tuple is than the newest one, and whether it begins a batch.
    """
    queue, newest, found = by_time(length, slide), 0, []
    for number, (step, begins_batch) in enumerate(steps):
        if begins_batch:
            found += windows(queue, newest - LAG)
        queue.add(QueuedTuple(newest + step, number, number))
        newest = max(newest, newest + step)
    return found + windows(queue, queue.last_watermark())


@pytest.mark.parametrize("slide", [10, 15])
def test_a_queue_is_empty_when_no_window_has_its_tuples_any_more(slide):
    queue = by_time(ms(10), ms(slide))
    add(queue, [(1, -25), (2, 16)])
    for watermark in range(-40, 60, 7):
        windows(queue, watermark)
    assert (queue.entries, queue.due()) == ([], NEVER)


def test_a_window_that_had_nothing_may_still_get_a_tuple_of_its_end():
    queue = by_time(ms(5), ms(10))
    add(queue, [(1, 3), (2, 23)])
    assert windows(queue, 10) == []
    add(queue, [(3, 10)])
    assert [w[0] for w in windows(queue, 12)] == [[3]]


def test_times_before_1970():
    queue = by_time(ms(10), ms(10))
    add(queue, [(1, -15), (2, -10), (3, -9)])
    assert [w[0] for w in windows(queue, 1)] == [[1, 2], [3]]


def test_windows_by_count_that_are_all_the_same_are_not_called_for_fifty_years():
    queue, later = by_time(Extent(2), ms(10)), 50 * 365 * 86_400_000
    add(queue, [("a", 1), ("b", 12)])
    found = windows(queue, later)
    same = (["a", "b"], [], [])
    assert found[:3] == [(["a"], ["a"], []), (["a", "b"], ["b"], []), same]
    assert len(found) == 1002
    add(queue, [("c", later + 5)])
    assert windows(queue, later + 15) == [(["b", "c"], ["c"], ["a"])]
    assert windows(queue, later + 21) == [(["b", "c"], [], [])]


def test_windows_by_count_go_on_with_the_first_tuple_after_a_long_gap():
    queue = by_time(Extent(2), ms(10))
    add(queue, [("a", 1), ("b", 10**12 + 5)])
    found = [(f.end, *shown(f)) for f in queue.by_watermark(10**12 + 21)]
    assert len(found) == 1003
    assert found[-3:] == [
        (10_010, ["a"], [], []),
        (10**12 + 10, ["a", "b"], ["b"], []),
        (10**12 + 20, ["a", "b"], [], []),
    ]
