"""Makes a plan of a topology."""

from collections.abc import Collection, Mapping

from fulmen.plan.assignment import schedule
from fulmen.plan.model import DRIVER, Executor, Plan
from fulmen.plan.stages import cut_stages
from fulmen.plan.tasks import executors_of
from fulmen.topology.resource.spec import Topology


def make_plan(
    topology: Topology,
    *,
    pinned: Collection[str] = (),
    workers: Collection[int] | None = None,
    previous: Plan | None = None,
) -> Plan:
    """Place every task of a topology, and cut its graph into stages. Equal arguments, equal plans.

    Args:
        topology: A valid topology.
        pinned: The spouts that are hosted by the driver.
        workers: The numbers of the workers that are there. Default: all that the topology asks for.
        previous: Where executors run now: as many as Storm's scheduler leaves alone stay there.
            Default: none runs yet, or the placement is to be made from scratch, as Storm does when
            a user rebalances.

    Raises:
        ValueError: `workers` is empty, or has numbers that the topology does not ask for.
    """
    wanted = topology.spec.workers
    slots = sorted(set(range(wanted) if workers is None else workers))
    if not slots or slots[0] < 0 or slots[-1] >= wanted:
        raise ValueError(f"workers {slots}: need worker numbers from 0 to {wanted - 1}")
    executors = executors_of(topology)
    placed = schedule(
        [e for e in executors if e.component not in pinned],
        slots,
        _carried_over(executors, previous),
        topology.spec.slots,
    )
    assignment = [placed.get(e, DRIVER) for e in executors]
    hosts: dict[str, list[int]] = {}
    for executor, worker in zip(executors, assignment, strict=True):
        hosts.setdefault(executor.component, []).extend([worker] * len(executor.tasks))
    driver_hosted = [spout.name for spout in topology.spec.spouts if spout.name in pinned]
    return Plan(
        workers=wanted,
        executors=tuple(executors),
        assignment=tuple(assignment),
        stages=tuple(map(tuple, cut_stages(topology, hosts, driver_hosted))),
        pinned=tuple(driver_hosted),
    )


def is_placed_like(topology: Topology, other: Topology) -> bool:
    """Whether the two have the same executors on the same workers."""
    return make_plan(topology) == make_plan(other)


def _carried_over(executors: Collection[Executor], previous: Plan | None) -> Mapping[Executor, int]:
    """Find where executors run now. They are told apart by their tasks' places in their component.

    Task ids won't do: more ackers, or a new component, shift the ids of all that come after.
    """
    if previous is None:
        return {}
    now = {
        _places(e, previous.tasks(e.component).start): worker
        for e, worker in zip(previous.executors, previous.assignment, strict=True)
    }
    starts: dict[str, int] = {}
    for e in executors:
        starts.setdefault(e.component, e.first)
    carried = {e: now.get(_places(e, starts[e.component])) for e in executors}
    return {e: worker for e, worker in carried.items() if worker is not None}


def _places(executor: Executor, start: int) -> Executor:
    return Executor(executor.component, executor.first - start, executor.last - start)
