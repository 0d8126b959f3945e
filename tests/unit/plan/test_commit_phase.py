"""Bolts that finish in the commit begin to when all tasks in front of them have, on all workers."""

import itertools

import pytest

from fulmen import TransactionalTopologyBuilder
from fulmen.plan import make_plan
from fulmen.topology.validation.check import check
from support.transactions.sources import Rows
from support.transactions.words import Noting, NotingCommitter

SIZES = [sizes for sizes in itertools.product((1, 2, 3), repeat=3) if sum(sizes) < 8]


def planned(grouping, sizes, workers, committers=("a",)):
    """A spout, and bolts a and b in a row."""
    spout, a, b = sizes
    builder = TransactionalTopologyBuilder("x", "spout", Rows([[1]]), spout, workers=workers)
    for name, source, size in (("a", "spout", a), ("b", "a", b)):
        bolt = builder.set_bolt(name, NotingCommitter if name in committers else Noting, size)
        getattr(bolt, f"{grouping}_grouping")(source)
    return make_plan(check(builder.build()).runnable().topology)


def hosts(plan, name):
    return {plan.worker_of(task) for task in plan.tasks(name)}


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("grouping", ["shuffle", "local_or_shuffle", "global"])
def test_a_bolt_of_the_commit_is_behind_all_tasks_in_front_of_it(grouping, sizes, workers):
    plan = planned(grouping, sizes, workers)
    for source, target in (("spout", "a"), ("a", "b")):
        stages = plan.stage_of(source), plan.stage_of(target)
        on_one = len(hosts(plan, source) | hosts(plan, target)) == 1
        assert stages[1] == stages[0] + (not on_one)


def test_other_bolts_need_no_stage_if_no_tuple_leaves_its_worker():
    assert planned("local_or_shuffle", (2, 2, 2), 2, ()).stages == (("spout", "a", "b"),)
    assert planned("local_or_shuffle", (2, 2, 2), 2, ("b",)).stages == (("spout", "a"), ("b",))


def test_the_commit_phase_is_of_committers_and_all_behind_them():
    builder = TransactionalTopologyBuilder("x", "spout", Rows([[1]]))
    builder.set_bolt("a", Noting).shuffle_grouping("spout")
    builder.set_bolt("b", NotingCommitter).shuffle_grouping("a")
    builder.set_bolt("c", Noting).shuffle_grouping("a").shuffle_grouping("b")
    builder.set_bolt("d", Noting).shuffle_grouping("c")
    builder.set_bolt("e", Noting).shuffle_grouping("spout")
    spec = check(builder.build()).runnable().topology.spec
    assert spec.commit_phase == {"b", "c", "d"}
    assert spec.acker_tasks == 0
