"""`fulmen activate`, `deactivate` and `kill`: Storm's commands for a topology on a cluster."""

import time
from typing import Any

import click

from fulmen.cli.cluster.kubectl import Json, Kubectl, Replaced, cluster_command, topology_name
from fulmen.cli.cluster.topology import command_of, progress, state_of
from fulmen.cli.streams import echo, tell
from fulmen.errors import FulmenError
from fulmen.topology.resource.spec import TopologySpec

_LOOK_SECONDS = 1.0


@click.command(short_help="Start the spouts of a topology, on a cluster.")
@topology_name
@cluster_command
def activate(kubectl: Kubectl, name: str) -> None:
    """Start the spouts of the topology NAME, after `deactivate` or when it is suspended."""
    _ask(kubectl, name, "Active")


@click.command(short_help="Stop the spouts of a topology, on a cluster.")
@topology_name
@cluster_command
def deactivate(kubectl: Kubectl, name: str) -> None:
    """Stop the spouts of the topology NAME. Its bolts continue, and its pods stay."""
    _ask(kubectl, name, "Inactive")


@click.command(short_help="End and delete a topology, on a cluster.")
@topology_name
@click.option(
    "-w",
    "--wait",
    type=click.IntRange(0),
    metavar="SECONDS",
    help="The longest time to wait for pending trees. Default: messageTimeoutSeconds.",
)
@cluster_command
def kill(kubectl: Kubectl, name: str, wait: int | None) -> None:
    """Suspend the topology NAME, so that its pending trees end, and delete it.

    Delete it as soon as it is suspended, or when the time is over.
    """
    before = kubectl.patch(name, {"spec": {"state": "Suspended"}})
    seconds = message_timeout(before) if wait is None else wait
    echo(f"topology {name!r}: asked to suspend, waiting for at most {seconds} s.")
    try:
        after = _wait_suspended(kubectl, before, seconds)
    except Replaced:  # there is nothing left of it that could continue
        raise
    except (FulmenError, KeyboardInterrupt):
        cure = f"{command_of('activate', kubectl, name)} lets it continue."
        tell(f"topology {name!r} is not deleted, but asked to suspend: {cure}")
        raise
    kubectl.delete(after)
    echo(epitaph(before, after, seconds))


def message_timeout(topology: Json) -> int:
    """`spec.messageTimeoutSeconds`, or its default."""
    default = TopologySpec.model_fields["message_timeout_seconds"].default
    return int(topology["spec"].get("messageTimeoutSeconds", default))


def is_suspended(topology: Json) -> bool:
    """Whether it is, by this very spec."""
    seen = topology.get("status", {}).get("observedGeneration", 0)
    return state_of(topology) == "Suspended" and bool(seen == topology["metadata"]["generation"])


def epitaph(before: Json, after: Json, seconds: int) -> str:
    """Say how a topology that was deleted after so many seconds ended, and its trees."""
    name = before["metadata"]["name"]
    keeps = _keeps_checkpoint(before["spec"].get("checkpoint") or {})
    again = "a topology made again with that checkpoint continues"
    checkpoint = f"Its checkpoint stays: {again}." if keeps else "Its checkpoint is deleted, too."
    if is_suspended(after):
        ran = state_of(before) in ("Active", "Inactive", "Rebalancing", "Draining")
        trees = " Its pending trees had ended." if ran else ""
        return f"topology {name!r} is deleted.{trees} {checkpoint}"
    rest = "stays pending in its checkpoint" if keeps else "is lost with its checkpoint"
    return (
        f"topology {name!r} is deleted, although it was not suspended, but {state_of(after)}, after"
        f" {seconds} s. A driver that still runs has {message_timeout(before)} s more for its"
        f" pending trees; a tree that has not ended by then {rest}. {checkpoint}"
    )


def _keeps_checkpoint(checkpoint: dict[str, Any]) -> bool:
    """Whether it outlives the topology: only a claim that was made for it may be deleted."""
    own = bool(checkpoint.get("uri") or checkpoint.get("persistentVolumeClaim"))
    return own or checkpoint.get("deletionPolicy") != "Delete"


def _ask(kubectl: Kubectl, name: str, state: str) -> None:
    topology = kubectl.patch(name, {"spec": {"state": state}})
    echo(progress(kubectl, topology, state))


def _wait_suspended(kubectl: Kubectl, topology: Json, seconds: float) -> Json:
    """Wait until it is suspended, or the time is over; the topology as it is then."""
    deadline = time.monotonic() + seconds
    while not is_suspended(topology) and (left := deadline - time.monotonic()) > 0:
        time.sleep(min(_LOOK_SECONDS, left))
        topology = kubectl.again(topology)
    return topology
