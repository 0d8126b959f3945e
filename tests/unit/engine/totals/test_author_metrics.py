"""Metrics of authors are added up over batches, tasks and changes of a topology."""

from fulmen.api.signals import MOST_SERIES, Family, Sample
from fulmen.engine.totals.author_metrics import AuthorMetrics

ROWS = Family("counter", "rows", "Rows.")
LENGTH = Family("gauge", "length", "Length.")
SIZES = Family("histogram", "sizes", "Sizes.", buckets=(1.0, 10.0))
BY_TABLE = Family("counter", "tables", "Tables.", labels=("table",))


def sample(family, value, *labels):
    return Sample(family, labels, value)


def test_counters_add_up_gauges_are_the_last_value_histograms_add_up():
    metrics = AuthorMetrics()
    for n in (1, 2):
        histogram = sample(SIZES, ((n, 0, 1), 20.0 + n))
        assert metrics.add("a", 0, [sample(ROWS, n), sample(LENGTH, n), histogram]) == []
    assert metrics.of_component("a") == {
        "length": 2,
        "rows": 3,
        "sizes": {"count": 5, "sum": 43.0, "buckets": {"1.0": 3, "10.0": 3, "+Inf": 5}},
    }


def test_a_component_is_the_sum_of_its_tasks():
    metrics = AuthorMetrics()
    for index in range(3):
        metrics.add("a", index, [sample(ROWS, 1), sample(LENGTH, 10)])
        metrics.add("b", index, [sample(ROWS, 5)])
    assert metrics.of_component("a") == {"length": 30, "rows": 3}
    assert metrics.of_component("b") == {"rows": 15}
    assert metrics.of_component("c") == {}
    assert {index for _, index, _, _ in metrics.of_tasks("rows")} == {0, 1, 2}


def test_labels_are_written_as_prometheus_does():
    metrics = AuthorMetrics()
    metrics.add("a", 0, [sample(BY_TABLE, 1, "x"), sample(BY_TABLE, 2, "y")])
    assert metrics.of_component("a") == {'tables{table="x"}': 1, 'tables{table="y"}': 2}


def test_a_name_that_means_something_else_in_another_component_is_told_once():
    metrics = AuthorMetrics()
    other = Family("gauge", "rows", "Rows.")
    metrics.add("a", 0, [sample(ROWS, 1)])
    assert metrics.add("b", 0, [sample(other, 7), sample(LENGTH, 1)]) == [
        "metric 'rows' is a gauge here, and a counter in 'a': use one meaning, or another name"
    ]
    assert metrics.add("b", 1, [sample(other, 7)]) == []
    assert metrics.of_component("b") == {"length": 1}
    assert metrics.of_component("a") == {"rows": 1}


def test_tasks_of_a_component_have_so_many_series_together():
    metrics = AuthorMetrics()
    for index in range(MOST_SERIES):
        assert metrics.add("a", index, [sample(BY_TABLE, 1, str(index))]) == []
    (told,) = metrics.add("a", 0, [sample(BY_TABLE, 1, "one more"), sample(BY_TABLE, 1, "0")])
    assert told.startswith("metric 'tables' would be series 101 of its component")
    assert metrics.add("a", 1, [sample(BY_TABLE, 1, "another")]) == []
    found = metrics.of_component("a")
    assert len(found) == MOST_SERIES
    assert found['tables{table="0"}'] == 2
    assert metrics.add("b", 0, [sample(BY_TABLE, 1, "one more")]) == []


def test_after_a_change_of_the_topology_counters_stay_and_gauges_are_not_known():
    metrics = AuthorMetrics()
    metrics.add("a", 0, [sample(ROWS, 1), sample(LENGTH, 7)])
    metrics.renumber()
    assert metrics.of_component("a") == {"rows": 1}
    metrics.add("a", 0, [sample(ROWS, 2)])
    assert metrics.of_component("a") == {"rows": 3}


def test_after_a_change_of_the_topology_a_name_may_have_another_meaning():
    metrics = AuthorMetrics()
    other = Family("gauge", "rows", "Rows that wait.")
    metrics.add("a", 0, [sample(ROWS, 1)])
    metrics.add("b", 0, [sample(ROWS, 1)])
    metrics.renumber()
    assert metrics.add("a", 0, [sample(other, 7)]) == []
    assert metrics.of_component("a") == {"rows": 7}
    assert metrics.of_component("b") == {}
    assert metrics.add("b", 0, [sample(ROWS, 1)]) != []


def test_a_copy_does_not_change():
    metrics = AuthorMetrics()
    metrics.add("a", 0, [sample(ROWS, 1)])
    copy = metrics.copy()
    metrics.add("a", 0, [sample(ROWS, 1), sample(LENGTH, 1)])
    assert copy.of_component("a") == {"rows": 1}
    assert list(copy.of_tasks("rows")) == [("a", 0, (), 1)]
