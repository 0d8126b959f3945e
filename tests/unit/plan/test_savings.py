"""Which groupings would save stages."""

from fulmen.plan import make_plan
from fulmen.plan.savings import Saving, savings, stage_millis
from support.topologies import topology


def found(spec, **how):
    return list(savings(spec, make_plan(spec, **how)))


def test_a_shuffle_that_could_stay_on_its_worker():
    spec = topology({"a": 2}, {"b": (2, {"a": "shuffle"}), "c": (2, {"b": "all"})}, workers=2)
    assert found(spec) == [Saving("b", ("a",), 1)]


def test_none_on_one_worker_and_none_that_is_local_already():
    spec = topology({"a": 2}, {"b": (2, {"a": "shuffle"})}, workers=1)
    assert found(spec) == []
    spec = topology({"a": 2}, {"b": (2, {"a": "local-or-shuffle"})}, workers=2)
    assert found(spec) == []


def test_none_where_a_worker_would_have_nothing_to_do():
    spec = topology({"a": 1}, {"b": (2, {"a": "shuffle"})}, workers=2)
    assert found(spec) == []


def test_none_where_a_worker_has_no_target():
    # executors are dealt in turn by name: a, a, b
    spec = topology({"a": 2}, {"b": (1, {"a": "shuffle"})}, workers=2, ackers=0)
    assert found(spec) == []


def test_none_for_a_spout_in_the_driver():
    spec = topology({"a": 1}, {"b": (2, {"a": "shuffle"})}, workers=2)
    assert found(spec, pinned=("a",)) == []


def test_none_where_another_input_ends_the_stage_anyway():
    bolts = {"b": (2, {"a": "all"}), "c": (2, {"a": "shuffle", "b": "global"})}
    spec = topology({"a": 2}, bolts, workers=2)
    assert found(spec) == []


def test_only_what_would_save_the_stage_is_named():
    bolts = {"b": (2, {"a": "all"}), "c": (2, {"b": "shuffle", "a": "all"})}
    spec = topology({"a": 2}, bolts, workers=2)
    assert found(spec) == [Saving("c", ("b",), 1)]


def test_all_shuffles_of_a_bolt_are_taken_together():
    bolts = {"join": (2, {"left": "shuffle", "right": "shuffle"})}
    spec = topology({"left": 2, "right": 2}, bolts, workers=2)
    assert found(spec) == [Saving("join", ("left", "right"), 1)]


def test_a_stage_costs_more_with_more_workers():
    assert stage_millis(4) > stage_millis(2) > 0
