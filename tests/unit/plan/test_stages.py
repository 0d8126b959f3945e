"""Where the graph is cut into stages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fulmen.plan import make_plan
from support.cli.topologies import blue_green_yellow, topology


def stages(spec, **kwargs):
    return [list(stage) for stage in make_plan(spec, **kwargs).stages]


def chain(first="shuffle", second="shuffle", sizes=(2, 2, 2), **spec):
    return topology(
        {"lines": sizes[0]},
        {"split": (sizes[1], {"lines": first}), "count": (sizes[2], {"split": second})},
        **{"workers": 2, **spec},
    )


def test_one_worker_is_one_stage():
    assert stages(blue_green_yellow(workers=1)) == [["blue", "green", "yellow", "__acker"]]


def test_two_workers_cut_every_edge():
    assert stages(blue_green_yellow()) == [["blue"], ["green"], ["yellow"], ["__acker"]]


def test_a_topology_without_ackers_has_no_stage_for_them():
    assert stages(blue_green_yellow(ackers=0)) == [["blue"], ["green"], ["yellow"]]


def test_local_edges_do_not_cut():
    spec = chain("local-or-shuffle", "shuffle")
    assert stages(spec) == [["lines", "split"], ["count"], ["__acker"]]


def test_a_local_edge_cuts_if_a_worker_has_no_target():
    # executors are dealt in turn by name: count, lines, lines, split
    spec = chain("local-or-shuffle", "shuffle", sizes=(2, 1, 1), ackers=0)
    assert stages(spec) == [["lines"], ["split"], ["count"]]


def test_a_local_edge_does_not_cut_if_only_a_target_is_elsewhere():
    # a on worker 0 only; b on both: every tuple finds a target where it is
    spec = topology({"a": 1}, {"b": (2, {"a": "local-or-shuffle"})}, workers=2, ackers=0)
    assert make_plan(spec).task_workers[1:] == (0, 1, 0)
    assert stages(spec) == [["a", "b"]]


@pytest.mark.parametrize("grouping", ["shuffle", "all", "none", "direct"])
def test_other_edges_cut_although_a_target_is_near(grouping):
    spec = topology({"a": 1}, {"b": (2, {"a": grouping})}, workers=2, ackers=0)
    assert stages(spec) == [["a"], ["b"]]


def test_a_global_edge_is_about_the_first_task_only():
    spec = topology({"a": 1}, {"b": (2, {"a": "global"})}, workers=2, ackers=0)
    assert make_plan(spec).task_workers[1:] == (0, 1, 0)
    assert stages(spec) == [["a"], ["b"]]  # b's first task is on worker 1
    spec = topology({"b": 1}, {"a": (2, {"b": "global"})}, workers=2, ackers=0)
    assert make_plan(spec).task_workers[1:] == (0, 1, 0)
    assert stages(spec) == [["b", "a"]]


def test_all_on_the_one_worker_that_is_left():
    spec = blue_green_yellow()
    assert stages(spec, workers=[1]) == [["blue", "green", "yellow", "__acker"]]


def test_a_bolt_waits_for_its_deepest_source():
    spec = topology(
        {"a": 2},
        {"c": (2, {"b": "shuffle", "a": "shuffle"}), "b": (2, {"a": "shuffle"})},
        workers=2,
        ackers=0,
    )
    assert stages(spec) == [["a"], ["b"], ["c"]]


def test_components_of_a_stage_are_in_the_order_of_the_tuples():
    spec = topology(
        {"z": 1},
        {"a": (1, {"b": "shuffle"}), "b": (1, {"c": "shuffle"}), "c": (1, {"z": "shuffle"})},
    )
    assert stages(spec) == [["z", "c", "b", "a", "__acker"]]


def test_a_stage_for_the_ackers_if_they_are_elsewhere():
    spec = chain("local-or-shuffle", "local-or-shuffle", ackers=1)
    assert stages(spec) == [["lines", "split", "count"], ["__acker"]]


def test_ackers_wait_for_a_bolt_off_the_main_line():
    spec = topology(
        {"a": 2, "b": 2},
        {"x": (2, {"a": "shuffle"}), "y": (2, {"b": "local-or-shuffle"})},
        workers=2,
    )
    assert stages(spec) == [["a", "b", "y"], ["x"], ["__acker"]]


def test_pinned_spouts_are_in_no_stage():
    plan = make_plan(blue_green_yellow(), pinned=["blue"])
    assert [list(stage) for stage in plan.stages] == [["green"], ["yellow"], ["__acker"]]
    assert plan.stage_of("blue") == -1


def test_pinned_and_other_spouts():
    spec = topology(
        {"a": 1, "b": 1},
        {"x": (2, {"a": "shuffle"}), "y": (2, {"b": "shuffle", "a": "local-or-shuffle"})},
        workers=2,
        ackers=0,
    )
    assert stages(spec, pinned=["a"]) == [["b", "x"], ["y"]]


@pytest.mark.parametrize(("ackers", "expected"), [(0, []), (1, [["__acker"]])])
def test_pinned_spouts_alone(ackers, expected):
    assert stages(topology({"a": 1}, {}, ackers=ackers), pinned=["a"]) == expected


def test_pinned_spouts_on_one_worker():
    spec = blue_green_yellow(workers=1)
    assert stages(spec, pinned=["blue"]) == [["green", "yellow", "__acker"]]


def test_a_cycle_can_not_be_planned():
    spec = topology({"a": 1}, {"b": (1, {"c": "shuffle"}), "c": (1, {"b": "shuffle"})})
    with pytest.raises(ValueError, match="a cycle: b -> c -> b"):
        make_plan(spec)


# ---- any topology -------------------------------------------------------------------------------

groupings = st.sampled_from(
    ["shuffle", "all", "global", "none", "direct", "local-or-shuffle", "local-or-shuffle"]
)


@st.composite
def graphs(draw):
    count = draw(st.integers(1, 6))
    spouts = {f"s{i}": draw(st.integers(1, 4)) for i in range(draw(st.integers(1, 2)))}
    bolts = {}
    for i in range(count):
        inputs = st.dictionaries(
            st.sampled_from([*spouts, *bolts]), groupings, min_size=1, max_size=3
        )
        bolts[f"b{i}"] = (draw(st.integers(1, 4)), draw(inputs))
    shuffled = draw(st.permutations(list(bolts)))
    return topology(
        spouts,
        {name: bolts[name] for name in shuffled},
        workers=draw(st.integers(1, 4)),
        ackers=draw(st.none() | st.integers(0, 3)),
    )


def targets(plan, edge, target, source_task):
    """The tasks that a tuple of one source task may go to."""
    tasks = list(plan.tasks(target))
    if edge.grouping.type == "global":
        return tasks[:1]
    near = [task for task in tasks if plan.worker_of(task) == plan.worker_of(source_task)]
    return near if near and edge.grouping.type == "local-or-shuffle" else tasks


@given(graphs(), st.data())
def test_no_tuple_leaves_its_worker_within_a_stage(spec, data):
    names = [spout.name for spout in spec.spec.spouts]
    plan = make_plan(spec, pinned=data.draw(st.sets(st.sampled_from(names))))
    for bolt in spec.spec.bolts:
        for edge in bolt.inputs:
            before, after = plan.stage_of(edge.from_), plan.stage_of(bolt.name)
            assert before <= after
            if before == after:
                stage = plan.stages[after]
                assert stage.index(edge.from_) < stage.index(bolt.name)
                for task in plan.tasks(edge.from_):
                    near = {plan.worker_of(t) for t in targets(plan, edge, bolt.name, task)}
                    assert near == {plan.worker_of(task)}
    in_stages = [name for stage in plan.stages for name in stage]
    assert all(plan.stages)
    assert sorted([*in_stages, *plan.pinned]) == sorted(plan.component_tasks)
    if "__acker" in in_stages:
        assert in_stages[-1] == "__acker"


@given(graphs())
def test_no_stage_too_many(spec):
    """A component is in the stage of its sources, or in the one after the deepest of them."""
    plan = make_plan(spec)
    for bolt in spec.spec.bolts:
        deepest = max(plan.stage_of(edge.from_) for edge in bolt.inputs)
        assert plan.stage_of(bolt.name) in (deepest, deepest + 1)
    for spout in spec.spec.spouts:
        assert plan.stage_of(spout.name) == 0
