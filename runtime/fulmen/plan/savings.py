"""Which groupings would save stages of a batch. Pure.

A shuffle grouping deals a task's tuples to all tasks of the bolt, so most of them go to another
worker, and a stage ends there. A local-or-shuffle grouping deals them to those of the same worker:
no stage ends, and tuples do not become bytes. Which of the two is right only the author knows: a
worker then has as much work for the bolt as it has tuples. Where a worker has tasks of the bolt and
none that emit to it, it would have no work at all: then nothing is said.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from fulmen.plan.model import Plan
from fulmen.plan.stages import Hosts, cut_stages, is_local
from fulmen.topology.resource.spec import BoltSpec, Grouping, Topology

STAGE_MILLIS = 8.0
STAGE_MILLIS_OF_A_WORKER = 2.0
"""See "A model up to 100 workers" in docs/performance.md."""


@dataclass(frozen=True)
class Saving:
    """Shuffle groupings of a bolt which end stages that local-or-shuffle would not end.

    Attributes:
        bolt: The bolt.
        sources: The components whose tuples are shuffled to it.
        stages: How many stages a batch would have less.
    """

    bolt: str
    sources: tuple[str, ...]
    stages: int


def stage_millis(workers: int) -> float:
    """What an additional stage costs a small batch, in milliseconds."""
    return STAGE_MILLIS + STAGE_MILLIS_OF_A_WORKER * workers


def savings(topology: Topology, plan: Plan) -> Iterator[Saving]:
    """What local-or-shuffle would save, bolt by bolt, each by itself."""
    hosts = {
        name: [plan.worker_of(task) for task in tasks]
        for name, tasks in plan.component_tasks.items()
    }
    for bolt in topology.spec.bolts:
        changed = _kept_local(bolt, hosts)
        bolts = tuple(changed if other is bolt else other for other in topology.spec.bolts)
        spec = topology.spec.model_copy(update={"bolts": bolts})
        other = topology.model_copy(update={"spec": spec})
        saved = len(plan.stages) - len(cut_stages(other, hosts, plan.pinned))
        if saved > 0:
            sources = tuple(
                dict.fromkeys(
                    before.from_
                    for before, after in zip(bolt.inputs, changed.inputs, strict=True)
                    if before != after and not is_local(before, bolt.name, hosts)
                )
            )
            yield Saving(bolt.name, sources, saved)


def _kept_local(bolt: BoltSpec, hosts: Hosts) -> BoltSpec:
    """The bolt with local-or-shuffle instead of shuffle, where no worker would go idle."""
    local = Grouping(type="local-or-shuffle")
    workers = set(hosts[bolt.name])
    inputs = tuple(
        i.model_copy(update={"grouping": local})
        if i.grouping.type == "shuffle" and set(hosts[i.from_]) == workers
        else i
        for i in bolt.inputs
    )
    return bolt.model_copy(update={"inputs": inputs})
