"""The logs of several containers as one, in the order of their times. Pure."""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter

from fulmen.cli.bad_input import BadInput
from fulmen.cli.cluster.kubectl import Json
from fulmen.kube.contract import COMPONENT_LABEL
from fulmen.topology.problems import did_you_mean, there_are

BEGINNING = datetime.fromisoformat("1970-01-01T00:00:00Z")


@dataclass(frozen=True, order=True)
class Container:
    """The container of some logs.

    Attributes:
        pod: The pod.
        name: The container.
        waits: Why it has not begun; empty if it has.
        is_only: Whether the pod has no other.
        has_ended: Whether it logs nothing more.
    """

    pod: str
    name: str
    waits: str = field(default="", compare=False)
    is_only: bool = field(default=True, compare=False)
    has_ended: bool = field(default=False, compare=False)

    @property
    def title(self) -> str:
        """The beginning of its lines."""
        return self.pod if self.is_only else f"{self.pod}/{self.name}"


@dataclass(frozen=True)
class Line:
    """A line of a log.

    Attributes:
        time: When it was written.
        stamp: The same as Kubernetes says it; empty if it says none.
        source: Who wrote it.
        text: All of it, without the time in front.
    """

    time: datetime
    stamp: str
    source: Container
    text: str


@dataclass
class LogReader:
    """Reads what `kubectl logs --timestamps` prints of one container, line by line."""

    source: Container
    _last: datetime = BEGINNING

    def line(self, raw: str) -> Line:
        """A line. One without a time is of the time of the line before it; time never goes back."""
        stamp, space, text = raw.rstrip("\n").partition(" ")
        try:
            time = datetime.fromisoformat(stamp)
            self._last = max(self._last, time)
        except (ValueError, TypeError):  # kubectl's own words, or a time without a zone
            return Line(self._last, "", self.source, raw.rstrip("\n"))
        return Line(self._last, stamp, self.source, text if space else "")


def merged(logs: Mapping[Container, str]) -> Iterator[Line]:
    """Merge logs by the times of lines; the order within a log stays."""
    read = (map(LogReader(source).line, _split(text)) for source, text in logs.items())
    return heapq.merge(*read, key=attrgetter("time"))


def _split(log: str) -> list[str]:
    """Lines as a log has them: they may have other characters that Python ends a line at."""
    return log.removesuffix("\n").split("\n") if log else []


def containers(
    topology: Json, pods: Sequence[Json], component: str | None = None, role: str | None = None
) -> list[Container]:
    """The containers whose logs to read, by pod and in the order in which a pod's containers start.

    Args:
        topology: Whose pods they are.
        pods: All of them.
        component: Only the pods that host it now.
        role: Only `driver`, `worker` or `preflight`.
    """
    hosts = None if component is None else hosts_of(topology, component)
    found: list[Container] = []
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"])):
        name, labels = pod["metadata"]["name"], pod["metadata"].get("labels", {})
        if role in (None, labels.get(COMPONENT_LABEL)) and (hosts is None or name in hosts):
            found += _containers_of(pod)
    return found


def hosts_of(topology: Json, component: str) -> set[str]:
    """The pods that host executors of a component. BadInput if there is no such component."""
    status = topology.get("status", {})
    names = [c["name"] for c in status.get("components", ())]
    if component not in names:
        cure = did_you_mean(component, names) or there_are(names)
        raise BadInput(f"--component: there is no component {component!r}. {cure}")
    rows = status.get("assignment", ())
    start = f"{component}["
    return {
        row["pod"]
        for row in rows
        if row.get("pod") and any(e.startswith(start) for e in row.get("executors", ()))
    }


def _containers_of(pod: Json) -> Iterator[Container]:
    spec, status = pod["spec"], pod.get("status", {})
    names = [c["name"] for kind in ("initContainers", "containers") for c in spec.get(kind, ())]
    states = {
        state["name"]: state.get("state", {})
        for kind in ("initContainerStatuses", "containerStatuses")
        for state in status.get(kind, ())
    }
    for name in names:
        state = states.get(name, {})
        waits = ""
        if not state.keys() & {"running", "terminated"}:
            waits = state.get("waiting", {}).get("reason") or status.get("phase", "Pending")
        ended = "terminated" in state
        yield Container(pod["metadata"]["name"], name, waits, len(names) == 1, ended)
