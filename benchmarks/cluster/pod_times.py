"""When each pod of a topology got how far, and what a start's time is spent on.

Kubernetes' own times are whole seconds. So each change of a pod is noted as it is seen, and lines
of the driver's log bear the time at which the container's runtime got them.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from benchmarks.cluster.kubectl import NAMESPACE, kubectl

MADE, PLACED, RUNNING = "made", "placed", "running"
BEGINS = "topology "
COMMITTED = "the first batch was committed"


class PodTimes:
    """Watches the pods of the namespace as long as it is open."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, str], float] = {}
        self._watch: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> PodTimes:
        path = f"/api/v1/namespaces/{NAMESPACE}/pods?watch=1"
        self._watch = subprocess.Popen(["kubectl", "get", "--raw", path], stdout=subprocess.PIPE)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._watch is not None
        self._watch.terminate()
        self._watch.wait()
        self._thread.join()

    def _read(self) -> None:
        assert self._watch is not None
        assert self._watch.stdout is not None
        for line in self._watch.stdout:
            event = json.loads(line)
            if event["type"] != "ERROR":  # its object is no pod
                self.see(event["object"], time.time())

    def see(self, pod: Mapping[str, Any], now: float) -> None:
        """A pod has changed, as of now."""
        meta = pod["metadata"]
        component = meta.get("labels", {}).get("app.kubernetes.io/component", "")
        for what in _reached(pod):
            self._seen.setdefault((component, meta["name"], what), now)

    def of(self, component: str, what: str, since: float) -> list[float]:
        """When pods that were made since then got that far, in order.

        Args:
            component: "driver" or "worker".
            what: How far: MADE, PLACED or RUNNING.
            since: By the wall clock, in seconds.
        """
        seen = dict(self._seen)
        return sorted(
            at
            for (of, name, got), at in seen.items()
            if (of, got) == (component, what) and seen[component, name, MADE] >= since
        )


def _reached(pod: Mapping[str, Any]) -> Iterable[str]:
    yield MADE
    status = pod.get("status", {})
    if any(
        condition["type"] == "PodScheduled" and condition["status"] == "True"
        for condition in status.get("conditions", ())
    ):
        yield PLACED
    containers = status.get("containerStatuses", ())
    if containers and all("waiting" not in container["state"] for container in containers):
        yield RUNNING


def log_times(pod: str) -> dict[str, float]:
    """When the log of a driver's pod told that it began, and that a first batch was committed."""
    found: dict[str, float] = {}
    for line in kubectl("logs", pod, "--timestamps").splitlines():
        stamp, _, text = line.partition(" ")
        for what in (BEGINS, COMMITTED):
            if what in text:
                found.setdefault(what, datetime.fromisoformat(stamp).timestamp())
    return found


def parts(
    began: float, times: PodTimes, log: Mapping[str, float], workers: int, acked: float
) -> dict[str, float]:
    """What the time from a call to the next ack was spent on: seconds of each part, in order.

    Args:
        began: The call, by the wall clock.
        times: Of the pods.
        log: Of the driver's, from `log_times`.
        workers: How many worker pods there are to be.
        acked: When the ack was seen.
    """
    drivers = {what: times.of("driver", what, began)[:1] for what in (MADE, PLACED, RUNNING)}
    of_workers = {
        what: times.of("worker", what, began)[:workers] for what in (MADE, PLACED, RUNNING)
    }
    moments: list[tuple[str, list[float]]] = [
        ("operator", drivers[MADE]),
        ("placing the driver's pod", drivers[PLACED]),
        ("its volumes, image and container", drivers[RUNNING]),
        ("the driver's Python and code", [log[BEGINS]] if BEGINS in log else []),
        ("its checkpoint and JVM", of_workers[MADE][:1]),
        ("placing workers' pods", of_workers[PLACED]),
        ("their images and containers", of_workers[RUNNING]),
        ("their JVMs and Python, the first batch", [log[COMMITTED]] if COMMITTED in log else []),
        ("batches until the ack is seen", [acked]),
    ]
    spent, last = {}, began
    for part, found in moments:
        if found:  # else it counts for the next one
            moment = max(last, found[-1])
            spent[part] = round(moment - last, 2)
            last = moment
    return spent
