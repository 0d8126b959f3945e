"""`fulmen ui`: the page of a topology on a cluster, through a port-forward of kubectl."""

import re
import subprocess
import time
import webbrowser
from collections import deque

import click

from fulmen.cli.bad_input import BadInput
from fulmen.cli.cluster_topology import state_of
from fulmen.cli.kubectl import Json, Kubectl, cluster_command, error_of, topology_name
from fulmen.errors import FulmenError
from fulmen.kube.contract import METRICS_PORT

_AGAIN_SECONDS = 1.0
_LAST_LINES = 3
_FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) ")


@click.command(short_help="Open the page of a topology, on a cluster.")
@topology_name
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="The port on this machine. Default: any that is free.",
)
@click.option("--no-browser", is_flag=True, help="Print the address only.")
@cluster_command
def ui(kubectl: Kubectl, name: str, port: int, no_browser: bool) -> None:
    """Open the page that shows what the topology NAME does, until Ctrl-C.

    The page comes from the driver through `kubectl port-forward`, so you need the right to create
    pods/portforward. When another driver takes over, the same address leads to that one.
    """
    topology, is_open = kubectl.get(name), False
    try:
        while True:
            try:
                with _Forward(kubectl.of(topology), driver_of(topology), port) as forward:
                    port = forward.port
                    if not is_open:
                        _show(f"http://127.0.0.1:{port}/", no_browser)
                        is_open = True
                    forward.wait()
            except BadInput:
                raise
            except FulmenError as error:
                if not is_open:
                    raise
                click.echo(str(error), err=True)
            time.sleep(_AGAIN_SECONDS)
            topology = kubectl.again(topology)
    except KeyboardInterrupt:  # how it is meant to end
        return


def driver_of(topology: Json) -> str:
    """The pod with the page. FulmenError if there is none now."""
    status, state = topology.get("status", {}), state_of(topology)
    pod = status.get("driverPod")
    if not pod or state in ("Pending", "Suspended"):
        name, message = topology["metadata"]["name"], status.get("message", "")
        raise FulmenError(f"topology {name!r} is {state}, so there is no page: {message}")
    return str(pod)


def _show(address: str, no_browser: bool) -> None:
    click.echo(address)
    if not no_browser and not webbrowser.open(address):
        click.echo("there is no browser here: open the address yourself.", err=True)


class _Forward:
    """A port-forward, for as long as it is open.

    Args:
        kubectl: In the namespace of the pod.
        pod: Where to.
        port: On this machine; 0: any that is free.

    Attributes:
        port: On this machine.

    Raises:
        FulmenError: It can't be made.
    """

    def __init__(self, kubectl: Kubectl, pod: str, port: int) -> None:
        self._pod = pod
        ports = f"{port or ''}:{METRICS_PORT}"
        where = ["--address=127.0.0.1", f"pod/{pod}", ports]
        self._process = kubectl.start("port-forward", *where)
        assert self._process.stdout is not None
        said: list[str] = []
        for line in self._process.stdout:  # warnings may come first
            if found := _FORWARDING.match(line):
                self.port = int(found[1])
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

    def __enter__(self) -> "_Forward":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
