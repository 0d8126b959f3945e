"""`fulmen list`: the topologies of a namespace, or of all namespaces, on a cluster."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import click
from pydantic import ValidationError

from fulmen.cli.cluster.driver_figures import read_pod
from fulmen.cli.cluster.kubectl import Json, Kubectl, cluster_command
from fulmen.cli.cluster.topology import state_of
from fulmen.cli.display.output import open_console
from fulmen.cli.display.topologies import NO_TOPOLOGIES, Speed, TableColumns, topologies_table
from fulmen.cli.streams import echo, tell
from fulmen.errors import FulmenError

_AT_ONCE = 8
"""How many drivers are asked side by side."""


@click.command("list", short_help="List topologies, on a cluster.")
@click.option("-A", "--all-namespaces", is_flag=True, help="List those of all namespaces.")
@click.option(
    "--figures",
    "with_figures",
    is_flag=True,
    help="Ask every driver for its throughput and latency. Needs the right to get pods/proxy.",
)
@cluster_command
def list(kubectl: Kubectl, all_namespaces: bool, with_figures: bool) -> None:
    """List the topologies of a namespace: state, workers, age, and what to know about each."""
    topologies = kubectl.topologies(*(["--all-namespaces"] if all_namespaces else []))
    if not topologies:
        echo(NO_TOPOLOGIES)
        return
    speeds = _speeds(kubectl, topologies) if with_figures else None
    columns = TableColumns(all_namespaces, speeds)
    open_console().print(topologies_table(topologies, time.time(), columns))


def _speeds(kubectl: Kubectl, topologies: Sequence[Json]) -> dict[str, Speed]:
    running = [t for t in topologies if state_of(t) in ("Active", "Inactive", "Rebalancing")]
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        speeds = threads.map(lambda topology: _speed(kubectl, topology), running)
        pairs = zip(running, speeds, strict=True)
        return {t["metadata"]["uid"]: speed for t, speed in pairs if speed is not None}


def _speed(kubectl: Kubectl, topology: Json) -> Speed | None:
    """Ask its driver; None, and a line on stderr, if there is no answer."""
    name = topology["metadata"]["name"]
    try:
        return Speed.model_validate_json(read_pod(kubectl, topology))
    except (FulmenError, KeyError, ValidationError) as error:
        why = f" {error}" if isinstance(error, FulmenError) else ""
        tell(f"topology {name!r}: its driver gives no figures.{why}")
        return None
