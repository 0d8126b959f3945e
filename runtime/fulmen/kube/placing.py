"""The placement of executors on workers, as drivers and the operator tell it."""

from collections.abc import Collection, Mapping

from fulmen.kube.contract.reports import Hosted, executor_name
from fulmen.plan import Plan, make_plan
from fulmen.plan.model import DRIVER
from fulmen.topology.resource.spec import Topology


def planned(topology: Topology, pinned: Collection[str]) -> tuple[Hosted, ...]:
    """The placement when all workers are there. `pinned`: the spouts that the driver hosts."""
    plan = make_plan(topology, pinned=pinned)
    workers = [*([DRIVER] if plan.pinned else []), *range(plan.workers)]
    return hosted(plan, dict.fromkeys(workers, ""))


def hosted(plan: Plan, workers: Mapping[int, str]) -> tuple[Hosted, ...]:
    """The executors on workers by a plan. `workers`: worker -> the name of its pod."""
    return tuple(
        Hosted(
            worker=worker,
            pod=pod,
            executors=tuple(
                executor_name(e.component, e.first, e.last) for e in plan.executors_on(worker)
            ),
        )
        for worker, pod in workers.items()
    )
