"""What each stage costs, and which groupings would save it."""

from fulmen.plan import make_plan
from fulmen.plan.savings import Saving, stage_costs
from support.cli.topologies import topology


def costs(spec, **how):
    return list(stage_costs(spec, make_plan(spec, **how)))


def found(spec, **how):
    """{number of a stage: what saves it}, of those that can be saved."""
    return {cost.stage: list(cost.savings) for cost in costs(spec, **how) if cost.savings}


def test_a_shuffle_that_could_stay_on_its_worker():
    spec = topology({"a": 2}, {"b": (2, {"a": "shuffle"}), "c": (2, {"b": "all"})}, workers=2)
    assert found(spec) == {2: [Saving("b", ("a",))]}


def test_each_stage_of_a_row_of_shuffles_has_its_own_saving():
    bolts = {"b": (2, {"a": "shuffle"}), "c": (2, {"b": "shuffle"})}
    spec = topology({"a": 2}, bolts, workers=2)
    assert found(spec) == {2: [Saving("b", ("a",))], 3: [Saving("c", ("b",))]}


def test_none_on_one_worker_and_none_that_is_local_already():
    spec = topology({"a": 2}, {"b": (2, {"a": "shuffle"})}, workers=1)
    assert found(spec) == {}
    spec = topology({"a": 2}, {"b": (2, {"a": "local-or-shuffle"})}, workers=2)
    assert found(spec) == {}


def test_none_where_a_worker_would_have_nothing_to_do():
    spec = topology({"a": 1}, {"b": (2, {"a": "shuffle"})}, workers=2)
    assert found(spec) == {}


def test_none_where_a_worker_has_no_target():
    # executors are dealt in turn by name: a, a, b
    spec = topology({"a": 2}, {"b": (1, {"a": "shuffle"})}, workers=2, ackers=0)
    assert found(spec) == {}


def test_none_for_a_spout_in_the_driver():
    spec = topology({"a": 1}, {"b": (2, {"a": "shuffle"})}, workers=2)
    assert found(spec, pinned=("a",)) == {}


def test_none_where_another_input_ends_the_stage_anyway():
    bolts = {"b": (2, {"a": "all"}), "c": (2, {"a": "shuffle", "b": "global"})}
    spec = topology({"a": 2}, bolts, workers=2)
    assert found(spec) == {}


def test_only_what_would_save_the_stage_is_named():
    bolts = {"b": (2, {"a": "all"}), "c": (2, {"b": "shuffle", "a": "all"})}
    spec = topology({"a": 2}, bolts, workers=2)
    assert found(spec) == {3: [Saving("c", ("b",))]}


def test_all_shuffles_of_a_bolt_are_taken_together():
    bolts = {"join": (2, {"left": "shuffle", "right": "shuffle"})}
    spec = topology({"left": 2, "right": 2}, bolts, workers=2)
    assert found(spec) == {2: [Saving("join", ("left", "right"))]}


def test_all_bolts_that_a_stage_is_for_are_taken_together():
    bolts = {"b": (2, {"a": "shuffle"}), "c": (2, {"a": "shuffle"})}
    spec = topology({"a": 2}, bolts, workers=2)
    assert found(spec) == {2: [Saving("b", ("a",)), Saving("c", ("a",))]}


def test_a_bolt_that_may_stay_where_it_is_is_not_named():
    # c is in the stage that b's shuffle begins, but the stage behind it is what can be saved
    bolts = {"b": (2, {"a": "shuffle"}), "c": (2, {"a": "shuffle"}), "d": (2, {"b": "all"})}
    spec = topology({"a": 2}, bolts, workers=2)
    assert found(spec) == {2: [Saving("b", ("a",))]}


def test_every_stage_costs_more_with_more_workers():
    def millis(workers):
        spec = topology({"a": 1}, {"b": (workers, {"a": "shuffle"})}, workers=workers)
        return [cost.millis for cost in costs(spec)]

    few, many = millis(2), millis(4)
    assert len(few) == len(many) == 3
    assert all(more > less > 0 for more, less in zip(many, few, strict=True))


def test_only_a_stage_of_the_ackers_alone_can_be_left_out():
    bolts = {"b": (2, {"a": "shuffle"})}
    assert [c.is_ackers for c in costs(topology({"a": 2}, bolts, workers=2))] == [
        False,
        False,
        True,
    ]
    assert [c.is_ackers for c in costs(topology({"a": 2}, bolts, workers=1))] == [False]


def test_ackers_in_the_first_stage_are_not_left_out():
    spec = topology({"a": 1}, {}, workers=2)
    assert [cost.is_ackers for cost in costs(spec, pinned=("a",))] == [False]
