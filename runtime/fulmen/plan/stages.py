"""Which components of a topology can run in one Spark stage.

A stage ends only where a tuple may leave its worker. What matters is the plan, not the grouping
alone: if all tasks of both ends are on one worker, or a local-or-shuffle grouping finds a target on
each worker that emits, then every tuple stays where it is and no shuffle is needed.

A bolt that finishes when a transaction is committed must not begin to before all tasks of the bolts
in front of it have: one of them may fail the transaction, on another worker.
"""

from collections.abc import Mapping, Sequence

from fulmen.plan.model import DRIVER
from fulmen.topology.resource.component_order import depth_order
from fulmen.topology.resource.spec import ACKER, Input, Topology

Hosts = Mapping[str, Sequence[int]]
"""The worker of each task of each component, by ascending task ids."""


def cut_stages(topology: Topology, hosts: Hosts, pinned: Sequence[str]) -> list[list[str]]:
    """The components of each stage: ackers last, and each after its sources in the same stage.

    Raises:
        ValueError: The inputs form a cycle.
    """
    inputs: dict[str, tuple[Input, ...]] = {c.name: () for c in topology.spec.components}
    inputs |= {bolt.name: bolt.inputs for bolt in topology.spec.bolts}
    commit_phase = topology.spec.commit_phase
    order = depth_order({name: [i.from_ for i in items] for name, items in inputs.items()})
    stage: dict[str, int] = dict.fromkeys(pinned, -1)
    for name in order:
        if name not in stage:
            # what is to wait for all of its sources may not use that a grouping keeps tuples local
            stays = _is_on_one_worker if name in commit_phase else _stays
            after = (stage[i.from_] + (not stays(i, name, hosts)) for i in inputs[name])
            stage[name] = max(after, default=0)
    if ACKER in hosts:
        stage[ACKER] = max(stage[name] + (not _same_host(hosts, name, ACKER)) for name in order)
        order = [*order, ACKER]
    count = max(stage.values()) + 1
    return [[name for name in order if stage[name] == number] for number in range(count)]


def _stays(edge: Input, target: str, hosts: Hosts) -> bool:
    """Whether no tuple of an edge can leave the worker that emits it."""
    sources, targets = set(hosts[edge.from_]), hosts[target]
    if DRIVER in sources:
        return False
    if edge.grouping.type == "local-or-shuffle" and sources <= set(targets):
        return True
    if edge.grouping.type == "global":
        targets = targets[:1]
    return len(sources) == 1 and sources == set(targets)


def _is_on_one_worker(edge: Input, target: str, hosts: Hosts) -> bool:
    return _same_host(hosts, edge.from_, target)


def _same_host(hosts: Hosts, first: str, second: str) -> bool:
    workers = {*hosts[first], *hosts[second]}
    return len(workers) == 1 and DRIVER not in workers
