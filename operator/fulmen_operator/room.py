"""Decides which of the topologies without room for their pods gives its driver's room back. Pure.

Several topologies that are applied at once may each get a driver, and none of them a worker. So the
oldest keeps its driver, and younger ones give theirs back until it has its workers.
"""

from collections.abc import Callable, Iterable
from typing import Final

from fulmen_operator.model import Object, condition_of, name_of, uid_of
from fulmen_operator.reasons import Reason

UNSCHEDULABLE: Final = "Unschedulable"
"""Kubernetes' reason for a pod that finds no node."""


def reason_of(topology: Object) -> str:
    """The reason of its condition Ready; empty if it has none."""
    return str(condition_of(topology, "Ready").get("reason", ""))


def waits(topology: Object) -> bool:
    """Whether its pods have found no room for longer than a start may take."""
    return reason_of(topology) in (UNSCHEDULABLE, Reason.WAITS_FOR_ROOM)


def older_waiting(topology: Object, all_of: Callable[[str], Iterable[Object]]) -> str:
    """An older waiting topology: its namespace and name. Empty if this one does not wait."""
    if not waits(topology):
        return ""
    older = [one for one in all_of("Topology") if _age(one) < _age(topology) and waits(one)]
    first = min(older, key=_age, default=None)
    return f"{first['metadata']['namespace']}/{name_of(first)}" if first else ""


def _age(topology: Object) -> tuple[str, str]:
    return str(topology["metadata"]["creationTimestamp"]), uid_of(topology)
