"""Histograms and windows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fulmen.engine.protocol.figures.statistics import BOUNDS, add_chunk
from fulmen.engine.totals.latencies import RollingWindow, TimeHistogram, Times


def test_a_bound_belongs_to_its_bucket():
    histogram = TimeHistogram()
    for seconds in (0.0, 0.001, 0.0010001, 60.0, 61.0):
        histogram.add(seconds)
    within = dict(histogram.buckets())
    assert [within[bound] for bound in ("1e-06", "0.0003", "0.001", "0.0025")] == [1, 1, 2, 3]
    assert (within["60.0"], within["+Inf"]) == (4, 5)
    assert histogram.count == 5


def test_bounds_ascend():
    assert list(BOUNDS) == sorted(set(BOUNDS))


def test_nothing_is_not_counted():
    histogram = TimeHistogram()
    histogram.add(1.0, 0)
    assert histogram.counts == {}


chunks = st.lists(st.tuples(st.floats(0, 100), st.integers(0, 10), st.integers(0, 10)))


@given(st.lists(chunks, max_size=3))
def test_what_workers_send_adds_up_to_the_events(batches):
    executed, acked, sent = TimeHistogram(), TimeHistogram(), Times()
    for batch in batches:
        times = {}
        for each, n_executed, n_acked in batch:
            executed.add(each, n_executed)
            acked.add(each, n_acked)
            add_chunk(times, "bolt", "spout:default", each, n_executed, n_acked)
        sent.add_chunks(times)
    for what, wanted in (("execute", executed), ("process", acked)):
        found = sent["bolt", what, "spout:default"]
        assert found.counts == wanted.counts
        assert found.seconds == pytest.approx(wanted.seconds)


def test_merging_adds_up():
    first, second = TimeHistogram(), TimeHistogram()
    first.add(0.5, 2)
    second.add(0.5)
    second.add(7.0)
    first.merge(second)
    assert (first.count, first.seconds) == (4, 8.5)


def test_a_copy_does_not_change():
    times = Times()
    times["a", "execute", ""].add(1.0)
    copy = times.copy()
    times["a", "execute", ""].add(1.0)
    assert copy["a", "execute", ""].count == 1


def test_a_window_forgets_in_steps():
    window = RollingWindow(100.0, 10, now=0.0)
    window.add({1: 5.0, 2: 1.0}, 0.0)
    window.add({1: 5.0}, 50.0)
    assert window.shares(50.0) == {1: 0.2, 2: 0.02}
    assert window.shares(99.0) == {1: 10 / 99, 2: 1 / 99}
    assert window.shares(100.0) == {1: 5 / 90}
    assert window.shares(149.0) == {1: 5 / 99}
    assert window.shares(150.0) == {}
    window.add({3: 9.0}, 10_000.0)
    assert window.shares(10_000.0) == {3: 9 / 90}


def test_a_window_that_is_young_knows_its_age():
    window = RollingWindow(600.0, 20, now=7.0)
    window.add({1: 3.0}, 8.0)
    assert window.shares(13.0) == {1: 0.5}
