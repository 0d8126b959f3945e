"""`fulmen top`: what topologies do at the moment, live in the terminal."""

import sys
import time
from collections.abc import Callable
from functools import partial

import click
from pydantic import ValidationError
from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from fulmen.cli.bad_input import BadInput
from fulmen.cli.cluster.driver_figures import read_pod, read_url
from fulmen.cli.cluster.kubectl import Json, Kubectl, cluster_command, optional_topology_name
from fulmen.cli.cluster.topology import state_of
from fulmen.cli.display.output import open_console
from fulmen.cli.display.served_figures import TopologyView
from fulmen.cli.display.top_view import topology_picture
from fulmen.cli.display.topologies import NO_TOPOLOGIES, scaling_sentence, topologies_table
from fulmen.errors import FulmenError

REFRESH_SECONDS = 2.0
STATES_WITHOUT_FIGURES = ("Pending", "Starting", "Suspended")

Picture = Callable[[], RenderableType]
"""What there is to see."""


@click.command(short_help="Show what topologies do, live.")
@optional_topology_name
@click.option("--once", is_flag=True, help="Print the figures once. Default without a terminal.")
@click.option(
    "--url",
    metavar="URL",
    help="Show the topology of a `fulmen run --metrics-port` at this URL, without a cluster.",
)
@cluster_command
def top(kubectl: Kubectl, name: str | None, once: bool, url: str | None) -> None:
    """Show what the topology NAME does on a cluster, or all of a namespace, until Ctrl-C.

    Counts are since the driver started, capacity is that of the last ten minutes, latencies are
    those of the last seconds. Pending are messages that a spout has not been told the end of. Of a
    transactional topology, txid is the last transaction that is committed.
    The figures come from the driver through the API server, so you need the right to get
    pods/proxy. With FULMEN_METRICS_TOKEN in the environment they come through a port-forward, so
    you need the right to create pods/portforward.
    """
    if url is not None and (name or kubectl.flags):
        raise BadInput("--url is for a topology without a cluster: leave the rest out.")
    picture: Picture
    if url is not None:
        picture = partial(_of_url, url)
    elif name is not None:
        picture = partial(_of_topology, kubectl, name)
    else:
        picture = partial(_of_namespace, kubectl)
    if once or not sys.stdout.isatty():
        open_console().print(picture())
    else:
        show(picture, open_console())


def show(picture: Picture, console: Console) -> None:
    """Draw it again and again. What may pass, such as a driver that starts, does not end it."""
    with Live(console=console, auto_refresh=False) as live:
        try:
            while True:
                live.update(_picture_or_error(picture), refresh=True)
                time.sleep(REFRESH_SECONDS)
        except KeyboardInterrupt:  # how it is meant to end
            return


def _picture_or_error(picture: Picture) -> RenderableType:
    try:
        return picture()
    except BadInput:
        raise
    except FulmenError as error:
        return Text(str(error), "red")


def _of_namespace(kubectl: Kubectl) -> RenderableType:
    topologies = kubectl.topologies()
    return topologies_table(topologies, time.time()) if topologies else Text(NO_TOPOLOGIES)


def _of_topology(kubectl: Kubectl, name: str) -> RenderableType:
    topology = kubectl.get(name)
    status, state = topology.get("status", {}), state_of(topology)
    pod, message = status.get("driverPod"), status.get("message", "")
    if not pod or state in STATES_WITHOUT_FIGURES:
        raise FulmenError(f"topology {name!r} is {state}, so there are no figures: {message}")
    try:
        view = read_driver(kubectl, topology)
    except BadInput:
        raise
    except FulmenError as error:
        raise FulmenError(
            f"topology {name!r} is {state} ({message}), but its driver's pod {pod!r} gives no"
            f" figures. {error}"
        ) from error
    return topology_picture(view, state, scaling_sentence(topology))


def read_driver(kubectl: Kubectl, topology: Json) -> TopologyView:
    """Read the figures from the driver's pod in the status. FulmenError if there are none."""
    return read_view(read_pod(kubectl, topology), f"pod {topology['status']['driverPod']!r}")


def _of_url(url: str) -> RenderableType:
    view = read_view(read_url(url), url)
    return topology_picture(view, view.state)


def read_view(text: str, source: str) -> TopologyView:
    """Parse a driver's figures. FulmenError if they are none of ours."""
    try:
        return TopologyView.model_validate_json(text)
    except ValidationError as error:
        raise FulmenError(f"{source} gives no figures of a topology.") from error
