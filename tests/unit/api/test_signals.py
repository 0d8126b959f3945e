"""What a task's code tells by its context: names, values, limits."""

import math
import pickle
import threading

import numpy as np
import pytest

from fulmen import TopologyContext
from fulmen.api.signals import BUCKETS, MOST_SERIES, Lag
from fulmen.errors import MetricError


@pytest.fixture
def context():
    return TopologyContext("words", "count", 3, 0, 0)


def taken(context):
    """name -> value of what is new; those without labels."""
    return {s.family.name: s.value for s in context.signals.take_samples()}


def test_a_counter_gives_each_increment_once(context):
    rows = context.counter("rows", "Rows.")
    rows.inc()
    rows.inc(4)
    assert taken(context) == {"rows": 5}
    assert taken(context) == {}
    rows.inc(0.5)
    assert taken(context) == {"rows": 0.5}


def test_a_gauge_gives_the_last_value_when_it_was_set(context):
    length = context.gauge("length", "Length.")
    length.set(3)
    length.set(0)
    assert taken(context) == {"length": 0}
    assert taken(context) == {}


def test_a_histogram_counts_each_value_in_the_first_bucket_that_holds_it(context):
    sizes = context.histogram("sizes", "Sizes.", [1, 10])
    for value in (0.5, 1, 1.5, 10, 11):
        sizes.observe(value)
    assert taken(context) == {"sizes": ((2, 2, 1), 24.0)}
    assert taken(context) == {}
    sizes.observe(2)
    assert taken(context) == {"sizes": ((0, 1, 0), 2.0)}


def test_a_histogram_has_the_buckets_of_prometheus_clients_by_default(context):
    family, _ = context.histogram("seconds", "Seconds.").series
    assert family.buckets == BUCKETS


def test_the_same_name_and_labels_are_the_same_series(context):
    one = context.counter("rows", "Rows.", {"table": "a"})
    assert context.counter("rows", "Rows.", {"table": "a"}) is one
    assert context.counter("rows", "Rows.", {"table": "b"}) is not one


def test_labels_are_in_the_order_of_their_names(context):
    context.counter("rows", "Rows.", {"z": "1", "a": "2"}).inc()
    (sample,) = context.signals.take_samples()
    assert (sample.family.labels, sample.labels) == (("a", "z"), ("2", "1"))


def test_threads_lose_no_increments(context):
    rows, sizes = context.counter("rows", "Rows."), context.histogram("sizes", "Sizes.")

    def count():
        for _ in range(5_000):
            rows.inc()
            sizes.observe(1)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    found = []
    while any(thread.is_alive() for thread in threads):
        found.append(taken(context))
    found.append(taken(context))
    assert sum(one.get("rows", 0) for one in found) == 20_000
    assert sum(one["sizes"][1] for one in found if "sizes" in one) == 20_000


def test_numbers_of_numpy_become_plain_ones(context):
    context.counter("rows", "Rows.").inc(np.int64(3))
    context.gauge("length", "Length.").set(np.float32(1.5))
    assert {name: type(value) for name, value in taken(context).items()} == {
        "rows": float,
        "length": float,
    }


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_are_finite(context, value):
    for use in (
        context.counter("rows", "Rows.").inc,
        context.gauge("length", "Length.").set,
        context.histogram("sizes", "Sizes.").observe,
    ):
        with pytest.raises(MetricError, match=rf": {value!r} is not a finite number"):
            use(value)
    assert taken(context) == {}


def test_a_counter_never_falls(context):
    rows = context.counter("rows", "Rows.")
    with pytest.raises(MetricError) as caught:
        rows.inc(-2)
    assert str(caught.value) == "counter 'rows' can't be lowered by 2: use a gauge"
    rows.inc(0)
    assert taken(context) == {}


NAME = ": a name has at most 60 small letters, digits and '_', and begins with a letter"
LABEL = (
    ": a label has small letters, digits and '_', begins with a letter, and is none of topology,"
    " component, task, le, quantile, instance, job"
)


@pytest.mark.parametrize("name", ["", "Rows", "2rows", "_rows", "rows-in", "rows ", "r" * 61, None])
def test_names_that_can_t_be_used(context, name):
    with pytest.raises(MetricError) as caught:
        context.counter(name, "Rows.")
    assert str(caught.value) == f"metric {name!r}{NAME}"


@pytest.mark.parametrize("ending", ["_total", "_count", "_sum", "_bucket", "_created", "_info"])
def test_endings_that_prometheus_uses_are_left_to_it(context, ending):
    with pytest.raises(MetricError) as caught:
        context.gauge(f"rows{ending}", "Rows.")
    assert str(caught.value) == (
        f"metric 'rows{ending}': a name can't end in {ending!r}, which Prometheus adds itself or"
        " uses otherwise. Call it 'rows'"
    )


@pytest.mark.parametrize("label", ["component", "task", "topology", "le", "A", "a-b", "__a"])
def test_labels_that_can_t_be_used(context, label):
    with pytest.raises(MetricError) as caught:
        context.counter("rows", "Rows.", {label: "x"})
    assert str(caught.value) == f"metric 'rows', label {label!r}{LABEL}"


def test_values_of_labels_are_texts(context):
    with pytest.raises(MetricError, match=r"metric 'rows', label 'table': 7 is not a text"):
        context.counter("rows", "Rows.", {"table": 7})


@pytest.mark.parametrize("buckets", [[], [1, 1], [2, 1], [1, math.inf], range(51)])
def test_buckets_that_can_t_be_used(context, buckets):
    with pytest.raises(MetricError, match=r"histogram 'sizes': buckets are 1 to 50 finite numbers"):
        context.histogram("sizes", "Sizes.", buckets)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda c: c.gauge("rows", "Rows."), "is a gauge here, and a counter in"),
        (
            lambda c: c.counter("rows", "Lines."),
            "is with the help 'Lines.' here, and with the help",
        ),
        (
            lambda c: c.counter("rows", "Rows.", {"table": "a"}),
            "is with the labels ['table'] here, and with the labels [] in",
        ),
    ],
)
def test_a_name_has_one_meaning_in_a_component(context, other, message):
    context.counter("rows", "Rows.")
    with pytest.raises(MetricError) as caught:
        other(context)
    assert f"metric 'rows' {message}" in str(caught.value)
    assert str(caught.value).endswith("this component: use one meaning, or another name")


def test_buckets_are_part_of_the_meaning(context):
    context.histogram("sizes", "Sizes.", [1])
    with pytest.raises(MetricError, match=r"with the buckets \[2.0\] here, and with the buckets"):
        context.histogram("sizes", "Sizes.", [2])


def test_a_component_has_so_many_series_and_no_more(context):
    for number in range(MOST_SERIES):
        context.counter("rows", "Rows.", {"table": str(number)}).inc()
    with pytest.raises(MetricError) as caught:
        context.gauge("length", "Length.")
    assert str(caught.value) == (
        "metric 'length' would be series 101 of its component, and at most 100 are kept: use fewer"
        " values of labels"
    )
    context.counter("rows", "Rows.", {"table": "7"}).inc()
    assert len(context.signals.take_samples()) == MOST_SERIES


def test_lag_is_taken_when_it_was_said(context):
    context.lag(messages=3, seconds=1.5)
    context.lag(messages=2)
    assert context.signals.take_lag() == Lag(2, None)
    assert context.signals.take_lag() is None
    context.lag(messages=-1, seconds=-0.5)  # another machine's clock
    assert context.signals.take_lag() == Lag(0, 0.0)


def test_spouts_are_held_until_they_are_released(context):
    assert context.signals.hold.reason == ""
    context.hold_spouts("full")
    assert context.signals.hold.reason == "full"
    context.hold_spouts("")
    assert context.signals.hold.reason == "a buffer is full"
    context.hold_spouts("x" * 1000)
    assert context.signals.hold.reason == "x" * 500
    context.release_spouts()
    assert context.signals.hold.reason == ""


def test_a_context_in_another_process_tells_nobody(context):
    context.counter("rows", "Rows.").inc()
    copy = pickle.loads(pickle.dumps(context))
    assert copy == context
    assert copy.signals.take_samples() == []


def test_a_metric_is_no_value_to_be_kept(context):
    with pytest.raises(TypeError, match=r"metric 'rows' can't be pickled: keep it in a field"):
        pickle.dumps(context.counter("rows", "Rows."))
