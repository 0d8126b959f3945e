"""The cost of each stage in a batch, and which groupings would save it. Pure.

A shuffle grouping deals a task's tuples to all tasks of the bolt, so most of them go to another
worker, and a stage ends there. A local-or-shuffle grouping deals them to those of the same worker:
no stage ends, and tuples do not become bytes. Which of the two is right only the author knows: a
worker then has as much work for the bolt as it has tuples. Where a worker has tasks of the bolt and
none that emit to it, it would have no work at all: then nothing is said.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from fulmen.plan.model import Plan
from fulmen.plan.stages import Hosts, cut_stages
from fulmen.topology.resource.spec import ACKER, BoltSpec, Grouping, Topology

STAGE_MILLIS = 4.0
STAGE_MILLIS_OF_A_WORKER = 0.5
"""See "A model up to 100 workers" in docs/performance.md."""


@dataclass(frozen=True)
class Saving:
    """Shuffle groupings of a bolt that end a stage, which local-or-shuffle would not."""

    bolt: str
    sources: tuple[str, ...]


@dataclass(frozen=True)
class StageCost:
    """The cost of a stage.

    Attributes:
        stage: Its number, from 1.
        millis: What it adds to a batch of few tuples, in milliseconds.
        savings: Local-or-shuffle in all these places would save it. Empty: nothing would.
        is_ackers: Only the ackers are in it: small batches leave it out if all of their trees end.
    """

    stage: int
    millis: float
    savings: tuple[Saving, ...]
    is_ackers: bool


def stage_costs(topology: Topology, plan: Plan) -> Iterator[StageCost]:
    """Give the cost of each stage, and what would save it."""
    hosts = {
        name: [plan.worker_of(task) for task in tasks]
        for name, tasks in plan.component_tasks.items()
    }
    millis = STAGE_MILLIS + STAGE_MILLIS_OF_A_WORKER * plan.workers
    for index, stage in enumerate(plan.stages):
        yield StageCost(
            stage=index + 1,
            millis=millis,
            savings=_savings(topology, plan, hosts, stage),
            is_ackers=index > 0 and stage == (ACKER,),
        )


def _savings(
    topology: Topology, plan: Plan, hosts: Hosts, stage: Collection[str]
) -> tuple[Saving, ...]:
    """The fewest bolts of a stage that have to keep their input local, so that it is saved."""
    bolts = [bolt for bolt in topology.spec.bolts if bolt.name in stage]
    needed = [bolt for bolt in bolts if _kept_local(bolt, hosts) != bolt]
    if not _saves(topology, plan, hosts, needed):
        return ()
    for bolt in list(needed):
        others = [other for other in needed if other is not bolt]
        if _saves(topology, plan, hosts, others):
            needed = others
    return tuple(Saving(bolt.name, _shuffled_to(bolt, hosts)) for bolt in needed)


def _saves(topology: Topology, plan: Plan, hosts: Hosts, local: Collection[BoltSpec]) -> bool:
    """Whether a batch has fewer stages if these bolts keep their input local."""
    bolts = tuple(
        _kept_local(bolt, hosts) if bolt in local else bolt for bolt in topology.spec.bolts
    )
    spec = topology.spec.model_copy(update={"bolts": bolts})
    other = topology.model_copy(update={"spec": spec})
    return len(cut_stages(other, hosts, plan.pinned)) < len(plan.stages)


def _shuffled_to(bolt: BoltSpec, hosts: Hosts) -> tuple[str, ...]:
    """The components whose tuples are shuffled to the bolt and need not be."""
    after = _kept_local(bolt, hosts).inputs
    return tuple(
        dict.fromkeys(was.from_ for was, now in zip(bolt.inputs, after, strict=True) if was != now)
    )


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
