"""Which worker hosts which executor: Storm's examples, and any other case against its algorithm."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fulmen.plan import is_placed_like, make_plan
from support.cli.topologies import blue_green_yellow, topology


def integer_divided(total, pieces):
    base = total // pieces
    rest = total % pieces
    result = {base: pieces - rest}
    if rest != 0:
        result[base + 1] = rest
    return result


def interleave_all(columns):
    """The first of each, then the second of each, ..."""
    result = []
    columns = [list(column) for column in columns]
    while any(columns):
        result += [column.pop(0) for column in columns if column]
    return result


def sort_slots(available):
    """One slot of each node in turn; nodes by the number of free slots, most first."""
    nodes = {}
    for node, port in sorted(available):
        nodes.setdefault(node, []).append((node, port))
    by_count = sorted(nodes.values(), key=len, reverse=True)
    return interleave_all(by_count)


class Cluster:
    def __init__(self, slots, assignment):
        self.slots = set(slots)
        self.assignment = dict(assignment)  # executor -> slot

    def available(self):
        return self.slots - set(self.assignment.values())

    def alive(self):
        slots = {}
        for executor, slot in self.assignment.items():
            slots.setdefault(slot, set()).add(executor)
        return slots

    def free(self, slot):
        for executor in [e for e, s in self.assignment.items() if s == slot]:
            del self.assignment[executor]


def bad_slots(alive, num_executors, num_workers):
    if num_workers == 0:
        return set()
    distribution = integer_divided(num_executors, num_workers)
    keep = set()
    for slot in sorted(alive):
        count = len(alive[slot])
        if distribution.get(count, 0) > 0:
            keep.add(slot)
            distribution[count] -= 1
    return set(alive) - keep


def default_schedule(cluster, executors, num_workers):
    used = len(set(cluster.assignment.values()))
    unassigned = set(executors) - set(cluster.assignment)
    if not (used < num_workers or unassigned):
        return
    available = cluster.available()
    alive = cluster.alive()
    alive_executors = {e for assigned in alive.values() for e in assigned}
    can_be_reassigned = {slot for slot in alive if slot in cluster.slots}
    to_use = min(num_workers, len(can_be_reassigned) + len(available))
    bad = set()
    if to_use > len(alive) or alive_executors != set(executors):
        bad = bad_slots(alive, len(executors), to_use)
    for slot in bad:
        cluster.free(slot)
    even_schedule(cluster, executors, num_workers)


def even_schedule(cluster, executors, num_workers):
    available = sort_slots(cluster.available())
    alive = cluster.alive()
    to_use = min(num_workers, len(available) + len(alive))
    reassign_slots = available[: max(0, to_use - len(alive))]
    reassign_executors = sorted(set(executors) - set(cluster.assignment))
    if reassign_slots:
        for number, executor in enumerate(reassign_executors):
            cluster.assignment[executor] = reassign_slots[number % len(reassign_slots)]


def compute_executors(components):
    """Executors of all components; each is name -> (tasks, parallelism)."""
    result = {}
    next_task = 1
    for name in sorted(components):
        num_tasks, parallelism = components[name]
        tasks = list(range(next_task, next_task + num_tasks))
        next_task += num_tasks
        if parallelism == 0:
            continue
        distribution = integer_divided(num_tasks, parallelism)
        for size in sorted(distribution, reverse=True):
            for _ in range(distribution[size]):
                if size > 0:
                    chunk, tasks = tasks[:size], tasks[size:]
                    result[chunk[0], chunk[-1]] = name
    return result


def hosted(plan, worker):
    return [(e.component, e.first, e.last) for e in plan.executors_on(worker)]


def test_blue_green_yellow():
    plan = make_plan(blue_green_yellow(ackers=0))
    assert (plan.task_count, len(plan.executors)) == (12, 10)
    assert hosted(plan, 0) == [
        ("blue", 1, 1),
        ("green", 3, 4),
        ("yellow", 7, 7),
        ("yellow", 9, 9),
        ("yellow", 11, 11),
    ]
    assert hosted(plan, 1) == [
        ("blue", 2, 2),
        ("green", 5, 6),
        ("yellow", 8, 8),
        ("yellow", 10, 10),
        ("yellow", 12, 12),
    ]


@pytest.mark.parametrize(
    ("ackers", "executors", "tasks"),
    [(0, (5, 5), (6, 6)), (1, (6, 5), (7, 6)), (None, (6, 6), (7, 7))],
)
def test_blue_green_yellow_with_ackers(ackers, executors, tasks):
    plan = make_plan(blue_green_yellow(ackers=ackers))
    assert (len(plan.executors_on(0)), len(plan.executors_on(1))) == executors
    assert (plan.task_workers[1:].count(0), plan.task_workers[1:].count(1)) == tasks
    assert [plan.worker_of(t) for t in plan.component_tasks.get("__acker", ())] == [0, 1][
        : sum(executors) - 10
    ]


def test_rebalanced_blue_green_yellow():
    before = blue_green_yellow(ackers=0)
    after = topology(
        {"blue": (3, 2)},
        {"green": ((2, 4), {"blue": "shuffle"}), "yellow": ((10, 6), {"green": "shuffle"})},
        workers=5,
        ackers=0,
    )
    plan = make_plan(after)
    assert plan.executors == make_plan(before).executors
    assert [len(plan.executors_on(worker)) for worker in range(5)] == [2, 2, 2, 2, 2]


def test_a_lost_worker_and_its_return():
    # 10 executors on 2 workers: all go to the one that is left, and are dealt anew when it is back
    full = blue_green_yellow(ackers=0)
    first = make_plan(full)
    alone = make_plan(full, workers=[0], previous=first)
    assert set(alone.assignment) == {0}
    assert make_plan(full, workers=[0, 1], previous=alone) == first


def test_what_need_not_move_stays():
    three = topology({"a": 5}, {}, workers=3, ackers=0)
    first = make_plan(three)
    assert first.assignment == (0, 1, 2, 0, 1)
    # without worker 2, the even division is 2 + 3: worker 0 keeps its 2, 1 is dealt the rest
    second = make_plan(three, workers=[0, 1], previous=first)
    assert second.assignment == (0, 1, 1, 0, 1)
    # three again, 2 + 2 + 1: worker 0 keeps its 2, 1 is emptied, and 1 and 2 are dealt the rest
    third = make_plan(three, previous=second)
    assert third.assignment == (0, 1, 2, 0, 1)


def test_nothing_moves_when_nothing_changes():
    spec = topology({"a": 7}, {"b": (3, {"a": "shuffle"})}, workers=3)
    previous = make_plan(spec, workers=[0, 2])
    assert make_plan(spec, workers=[0, 2], previous=previous) == previous


def test_a_complete_plan_stays_however_uneven_it_is():
    six = topology(dict.fromkeys("abcdef", 1), {}, workers=2, ackers=0)
    four = topology(dict.fromkeys("acef", 1), {}, workers=2, ackers=0)
    first = make_plan(six)
    assert first.assignment == (0, 1, 0, 1, 0, 1)
    assert make_plan(four, previous=first).assignment == (0, 0, 0, 1)


def test_an_executor_with_other_tasks_than_before_is_another_one():
    two = topology({"a": (2, 4)}, {}, workers=2, ackers=0)
    three = topology({"a": (3, 4)}, {}, workers=2, ackers=0)
    alone = make_plan(two, workers=[1])
    after = make_plan(three, previous=alone)
    assert hosted(after, 1) == [("a", 1, 2)]
    assert hosted(after, 0) == [("a", 3, 3), ("a", 4, 4)]


def test_topologies_with_the_same_executors_on_the_same_workers_are_placed_alike():
    assert is_placed_like(blue_green_yellow(), blue_green_yellow(messageTimeoutSeconds=7))
    assert not is_placed_like(blue_green_yellow(), blue_green_yellow(ackers=1))


def test_more_ackers_shift_ids_but_not_places():
    one = topology({"a": 2}, {"b": (2, {"a": "shuffle"})}, workers=3, ackers=1)
    two = topology({"a": 2}, {"b": (2, {"a": "shuffle"})}, workers=3, ackers=2)
    before, after = make_plan(one), make_plan(two, previous=make_plan(one))
    # 5 executors are 2 + 2 + 1, 6 are 2 + 2 + 2: two workers keep theirs
    for worker in (0, 1):
        assert [(c, i - 1) for c, i, _ in hosted(after, worker) if c != "__acker"] == [
            (c, i) for c, i, _ in hosted(before, worker) if c != "__acker"
        ]


def test_pinned_spouts_are_hosted_by_the_driver():
    plan = make_plan(blue_green_yellow(), pinned=["blue"])
    assert hosted(plan, -1) == [("blue", 3, 3), ("blue", 4, 4)]
    assert [len(plan.executors_on(worker)) for worker in (0, 1)] == [5, 5]
    assert plan.pinned == ("blue",)


def test_a_spout_that_is_no_longer_pinned_is_dealt():
    plan = make_plan(blue_green_yellow())
    assert make_plan(blue_green_yellow(), previous=make_plan(blue_green_yellow())) == plan
    before = make_plan(blue_green_yellow(), pinned=["blue"])
    after = make_plan(blue_green_yellow(), previous=before)
    assert -1 not in after.assignment


def test_more_workers_than_executors():
    plan = make_plan(topology({"a": 2}, {}, workers=4, ackers=0))
    assert plan.assignment == (0, 1)
    assert plan.executors_on(3) == ()


def test_few_executors_are_spread_over_pods_first():
    made = topology({"a": 3}, {}, workers=6, ackers=0)
    spread = made.model_copy(update={"spec": made.spec.model_copy(update={"slots": 2})})
    assert make_plan(spread).assignment == (0, 2, 4)
    assert make_plan(spread, workers=[1, 2, 3]).assignment == (2, 1, 3)


@pytest.mark.parametrize("workers", [[], [2], [-1, 0]])
def test_workers_that_can_not_be(workers):
    with pytest.raises(ValueError, match="need worker numbers from 0 to 1"):
        make_plan(blue_green_yellow(), workers=workers)


# ---- against Storm's algorithm ------------------------------------------------------------------

names = st.sampled_from(["a", "B", "c1", "_d", "e.f", "x-y", "Zebra"])
sizes = st.tuples(st.integers(1, 9), st.none() | st.integers(1, 12))


@st.composite
def topologies(draw):
    components = draw(st.dictionaries(names, sizes, min_size=1, max_size=5))
    (first, size), *rest = components.items()
    workers, ackers = draw(st.integers(1, 6)), draw(st.none() | st.integers(0, 4))
    bolts = {name: (size, {first: "shuffle"}) for name, size in rest}
    made = topology({first: size}, bolts, workers=workers, ackers=ackers)
    slots = draw(st.integers(1, 4))
    return made.model_copy(update={"spec": made.spec.model_copy(update={"slots": slots})})


def expected(spec, slots, existing):
    """Executors as (first, last), with their component and worker, as Storm would have it."""
    components = {c.name: (c.tasks, c.parallelism) for c in spec.spec.components}
    components["__acker"] = (spec.spec.acker_tasks, spec.spec.acker_tasks)
    executors = compute_executors(components)
    alive = {e: w for e, w in existing.items() if w in slots}
    cluster = Cluster(
        [(worker // spec.spec.slots, worker) for worker in slots],
        {e: (worker // spec.spec.slots, worker) for e, worker in alive.items()},
    )
    default_schedule(cluster, executors, spec.spec.workers)
    return {e: (executors[e], cluster.assignment[e][1]) for e in executors}


def found(plan):
    return {
        (e.first, e.last): (e.component, worker)
        for e, worker in zip(plan.executors, plan.assignment, strict=True)
    }


@given(topologies(), st.data())
def test_placed_as_storm_would(spec, data):
    plan, existing = None, {}
    for _ in range(4):  # from scratch first, then workers come and go
        every = st.sets(st.integers(0, spec.spec.workers - 1), min_size=1)
        slots = data.draw(every)
        plan = make_plan(spec, workers=slots, previous=plan)
        assert found(plan) == expected(spec, slots, existing)
        existing = {e: worker for e, (_, worker) in found(plan).items()}


@given(topologies(), st.data())
def test_rebalanced_as_storm_would(spec, data):
    more = data.draw(st.integers(1, 6))
    changed = spec.model_copy(update={"spec": spec.spec.model_copy(
        update={"workers": more, "ackers": spec.spec.acker_tasks}
    )})  # fmt: skip
    before = make_plan(spec)
    existing = {e: worker for e, (_, worker) in found(before).items()}
    after = make_plan(changed, previous=before)
    assert found(after) == expected(changed, range(more), existing)


@given(topologies(), st.data())
def test_pinned_spouts_take_no_place(spec, data):
    spout = spec.spec.spouts[0].name
    plan = make_plan(spec, pinned=[spout])
    assert {plan.worker_of(task) for task in plan.tasks(spout)} == {-1}
    loads = [len(plan.executors_on(worker)) for worker in range(spec.spec.workers)]
    assert max(loads) - min(loads) <= 1
