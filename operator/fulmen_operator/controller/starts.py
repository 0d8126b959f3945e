"""Chooses the drivers that may start: few at once in a namespace, in order of request.

Drivers that start together on a full node take each other's processor, and none comes up. No
namespace waits for another one. In its own, a driver that does not come up holds up others for some
minutes at most; one that waits for a node or an image does not hold up any. Topologies that ran
before come first, and those whose driver has failed last. One that stops asking is forgotten.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final, NamedTuple

from fulmen.kube import contract
from fulmen_operator.model import (
    Key,
    Object,
    component_of,
    condition_of,
    is_terminating,
    label,
    seconds_since,
    status_of,
)
from fulmen_operator.reasons import Reason
from fulmen_operator.reconcile.pod_states import ending_of, is_ready, waiting_for

LONGEST_START: Final = 300
"""Seconds after which a driver is not taken for one that starts any more."""
MADE_SECONDS: Final = 10
"""Seconds within which the watch tells of a new pod."""
ASK_SECONDS: Final = 2
LONGEST_ASK: Final = 120
"""The longest time between two requests of a waiting driver. The next in line ask often, those
behind them less: each look takes the operator some milliseconds, and a thousand may wait in a
namespace."""
FORGOTTEN_AFTER: Final = 3 * LONGEST_ASK


class _Place(NamedTuple):
    group: int
    number: int


def group_of(topology: Object) -> int:
    """0: it ran, and its driver was lost. 1: it is new. 2: its last driver has failed."""
    status = status_of(topology)
    if (status.get("restarts") or {}).get("failures"):
        return 2
    return 0 if status.get("lastBatch") else 1


class Starts:
    """The drivers that wait, and those that may start. `clock`: seconds that only grow."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._number = 0
        self._places: dict[Key, _Place] = {}
        self._asked: dict[Key, float] = {}
        self._let: dict[Key, float] = {}

    def seconds_to_wait(
        self, key: Key, pods: Iterable[Object], each_node: int, group: int, now: datetime
    ) -> float | None:
        """Ask whether a topology's driver may start now.

        Args:
            key: The topology.
            pods: All pods of topologies of its namespace.
            each_node: How many drivers may start at once for each node that these pods are on.
            group: A lower group comes first.
            now: The time of the cluster.

        Returns:
            None: it may. Else the seconds until the next request.
        """
        pods, asked = list(pods), self._clock()
        self._number += 1
        number = self._places.get(key, _Place(group, self._number)).number
        place = self._places[key] = _Place(group, number)
        self._asked[key] = asked
        self._forget_old(asked)
        nodes = {node for pod in pods if (node := (pod.get("spec") or {}).get("nodeName"))}
        starting = {label(pod, contract.TOPOLOGY_LABEL) for pod in pods if _is_starting(pod, now)}
        starting |= {other.name for other in self._let if other.namespace == key.namespace}
        room = each_node * max(1, len(nodes)) - len(starting - {key.name})
        before = sum(
            other.namespace == key.namespace and its < place for other, its in self._places.items()
        )
        if before < room:
            self.forget(key)
            self._let[key] = asked
            return None
        return min(LONGEST_ASK, ASK_SECONDS * (1 + (before - max(room, 0)) / each_node))

    def forget(self, key: Key) -> None:
        """A topology does not wait."""
        self._places.pop(key, None)
        self._asked.pop(key, None)

    def _forget_old(self, now: float) -> None:
        for key in [k for k, asked in self._asked.items() if now - asked > FORGOTTEN_AFTER]:
            self.forget(key)
        self._let = {key: let for key, let in self._let.items() if now - let < MADE_SECONDS}


def _is_starting(pod: Object, now: datetime) -> bool:
    if component_of(pod) != contract.DRIVER or is_ready(pod) or is_terminating(pod):
        return False
    if ending_of(pod, contract.DRIVER_CONTAINER, now):
        return False
    trouble = waiting_for(pod, now)
    if trouble is not None and trouble[0] != Reason.VOLUMES_NOT_MOUNTED:  # a full node is slow
        return False
    placed = condition_of(pod, "PodScheduled").get("lastTransitionTime")
    since = str(placed or pod["metadata"]["creationTimestamp"])
    return seconds_since(since, now) < LONGEST_START
