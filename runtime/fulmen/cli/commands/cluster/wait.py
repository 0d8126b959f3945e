"""`fulmen wait`: until a topology on a cluster is as its spec asks for, or fails."""

import time
from typing import NoReturn

import click

from fulmen.cli.bad_input import BadInput
from fulmen.cli.cluster.kubectl import Json, Kubectl, cluster_command, topology_name
from fulmen.cli.cluster.topology import Rollout, command_of, outcome_of
from fulmen.cli.streams import echo, tell
from fulmen.errors import FulmenError
from fulmen.kube.contract import PAUSED_ANNOTATION

_LOOK_SECONDS = 1.0
TIME_IS_OVER = 3
"""The exit code if the topology is neither ready nor failed in time."""
PAUSED = 4
"""The exit code if somebody has paused it: nothing failed, and nothing will happen."""


@click.command(short_help="Wait until a topology is ready, on a cluster.")
@topology_name
@click.option(
    "--timeout",
    type=click.IntRange(0),
    metavar="SECONDS",
    default=600,
    show_default=True,
    help="The longest time to wait.",
)
@cluster_command
def wait(kubectl: Kubectl, name: str, timeout: int) -> None:
    """Wait until the topology NAME is as its newest spec asks for.

    The exit code is 0 then, 1 if that will not happen without you, 3 if the time is over, and 4 if
    the topology is paused. stderr has what is waited for, as it changes.
    """
    topology = kubectl.get(name)
    outcome = _until_end(kubectl, topology, timeout)
    if outcome.end == "Ready":
        echo(f"topology {name!r} is ready: {outcome.message}")
        return
    hint = f"{command_of('why', kubectl, name)} says more."
    if outcome.end == "Failed":
        raise FulmenError(f"topology {name!r} will not be ready: {outcome.message}. {hint}")
    if outcome.end == "Paused":
        flags = "".join(f" {flag}" for flag in kubectl.flags)
        cure = f"`kubectl annotate topology {name}{flags} {PAUSED_ANNOTATION}-` lets it go on."
        _end(PAUSED, f"topology {name!r} is paused: {outcome.message}. {cure}")
    _end(
        TIME_IS_OVER, f"topology {name!r} is not ready after {timeout} s: {outcome.message}. {hint}"
    )


def _end(code: int, message: str) -> NoReturn:
    tell(f"Error: {message}")
    click.get_current_context().exit(code)


def _until_end(kubectl: Kubectl, topology: Json, seconds: float) -> Rollout:
    """Wait for the end; give the outcome, or the last one when the time was over."""
    deadline, told, away = time.monotonic() + seconds, "", ""
    while True:
        outcome = outcome_of(topology)
        if outcome.end is not None or (left := deadline - time.monotonic()) <= 0:
            return outcome
        if outcome.message != told:
            told = outcome.message
            tell(told)
        time.sleep(min(_LOOK_SECONDS, left))
        try:
            topology = kubectl.again(topology)
        except BadInput:
            raise
        except FulmenError as error:  # it may answer again
            if str(error) != away:
                away = str(error)
                tell(away)
        else:
            away = ""
