"""`fulmen ui`: the page of a topology on a cluster, through a port-forward of kubectl."""

import time
import webbrowser

import click

from fulmen.cli.bad_input import BadInput
from fulmen.cli.cluster.kubectl import Kubectl, cluster_command, topology_name
from fulmen.cli.cluster.port_forward import Forward, driver_of
from fulmen.cli.streams import echo, tell
from fulmen.errors import FulmenError

_AGAIN_SECONDS = 1.0
_PAGE = "there is no page"


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
    show = echo if no_browser else _open
    try:
        while True:
            try:
                with Forward(kubectl.of(topology), driver_of(topology, _PAGE), port) as forward:
                    port = forward.port
                    if not is_open:
                        show(f"{forward.url}/")
                        is_open = True
                    forward.wait()
            except BadInput:
                raise
            except FulmenError as error:
                if not is_open:
                    raise
                tell(str(error))
            time.sleep(_AGAIN_SECONDS)
            topology = kubectl.again(topology)
    except KeyboardInterrupt:  # how it is meant to end
        return


def _open(address: str) -> None:
    echo(address)
    if not webbrowser.open(address):
        tell("there is no browser here: open the address yourself.")
