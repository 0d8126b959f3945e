"""A way to the driver of a topology on a cluster, through a port-forward of kubectl."""

import re
import subprocess
from collections import deque

from fulmen.cli.cluster.kubectl import Json, Kubectl, error_of
from fulmen.cli.cluster.topology import state_of
from fulmen.errors import FulmenError
from fulmen.kube.contract import METRICS_PORT

_LAST_LINES = 3
_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ")


def driver_of(topology: Json, lacking: str) -> str:
    """The pod that shows what a topology does. FulmenError if there is none now."""
    status, state = topology.get("status", {}), state_of(topology)
    pod = status.get("driverPod")
    if not pod or state in ("Pending", "Suspended"):
        name, message = topology["metadata"]["name"], status.get("message", "")
        raise FulmenError(f"topology {name!r} is {state}, so {lacking}: {message}")
    return str(pod)


class Forward:
    """A port-forward to a pod, for as long as it is open. FulmenError if it can't be made."""

    def __init__(
        self, kubectl: Kubectl, pod: str, port: int = 0, *, to: int = METRICS_PORT
    ) -> None:
        """Make it.

        Args:
            kubectl: The way to the cluster.
            pod: Its name.
            port: Of this machine. 0: any free one.
            to: The port of the pod.
        """
        self._pod = pod
        ports = f"{port or ''}:{to}"
        where = ["--address=127.0.0.1", f"pod/{pod}", ports]
        self._process = kubectl.start("port-forward", *where)
        assert self._process.stdout is not None
        said: list[str] = []
        for line in self._process.stdout:  # warnings may come first
            if found := _FORWARDING.match(line):
                self.port, self.url = int(found[1]), f"http://127.0.0.1:{found[1]}"
                return
            said.append(line)
        self._process.communicate()
        raise self._error("".join(said))

    def wait(self) -> None:
        """Wait until it ends, which is an error."""
        assert self._process.stdout is not None
        last = deque(self._process.stdout, _LAST_LINES)  # there is one for each connection
        raise self._error("".join(line for line in last if not line.startswith("Handling")))

    def _error(self, output: str) -> FulmenError:
        found = error_of(output)
        return type(found)(f"the way to pod {self._pod!r} has ended. {found}")

    def __enter__(self) -> "Forward":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
