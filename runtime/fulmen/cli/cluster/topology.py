"""A topology on a cluster: what it does, and the commands that show or change it."""

from dataclasses import dataclass
from typing import Literal

from fulmen.cli.cluster.kubectl import Json, Kubectl
from fulmen.kube.contract import PAUSED_ANNOTATION


def state_of(topology: Json) -> str:
    """The topology's state in its status."""
    return str(topology.get("status", {}).get("state", "Pending"))


def condition(topology: Json, kind: str) -> Json:
    """A condition of its status; empty if the operator has not written it."""
    conditions = topology.get("status", {}).get("conditions", ())
    return next((found for found in conditions if found["type"] == kind), {})


def is_paused(topology: Json) -> bool:
    """Whether the operator is told to change nothing of it."""
    annotations = topology["metadata"].get("annotations") or {}
    return bool(annotations.get(PAUSED_ANNOTATION) == "true")


@dataclass(frozen=True)
class Rollout:
    """The rollout of a topology's newest spec.

    Attributes:
        end: Whether it is there; None: it may still come to that, or fail. A paused one does
            neither.
        message: What a person should know.
    """

    end: Literal["Ready", "Failed", "Paused"] | None
    message: str


def outcome_of(topology: Json) -> Rollout:
    """Whether the topology is as its newest spec asks for, or will never be without help."""
    state = state_of(topology)
    if is_paused(topology):
        return Rollout("Paused", f"the annotation {PAUSED_ANNOTATION} keeps it as it is")
    if topology.get("status", {}).get("observedGeneration", 0) < topology["metadata"]["generation"]:
        return Rollout(None, "the operator has not looked at its newest spec yet")
    accepted, ready = condition(topology, "SpecAccepted"), condition(topology, "Ready")
    reconciling, stalled = condition(topology, "Reconciling"), condition(topology, "Stalled")
    if stalled.get("status") == "True":
        why = accepted if accepted.get("status") == "False" else stalled
        return Rollout("Failed", _said(why))
    if reconciling.get("status") == "True" or accepted.get("status") != "True":
        why = accepted if accepted.get("status") != "True" else ready
        return Rollout(None, _with_state(state, why))
    if ready.get("status") == "True":
        return Rollout("Ready", f"{state}: {ready['message']}" if ready.get("message") else state)
    return Rollout(None, _with_state(state, ready))


def _with_state(state: str, found: Json) -> str:
    """The condition's message, and the state if that is not its reason."""
    said = _said(found)
    if not said:
        return state
    return said if found["reason"] == state else f"{state}: {said}"


def _said(found: Json) -> str:
    """A condition's reason, and its message if it has one."""
    reason, message = found.get("reason", ""), found.get("message", "")
    return f"{reason}: {message}" if message else str(reason)


def progress(kubectl: Kubectl, topology: Json, asked: str) -> str:
    """Say what was asked of a topology, and how to see its progress."""
    name = topology["metadata"]["name"]
    flags = "".join(f" {flag}" for flag in kubectl.flags)
    return (
        f"topology {name!r}: asked for {asked}; it is {state_of(topology)} now."
        f" {command_of('top', kubectl, name)} or `kubectl get topo {name}{flags}` shows the"
        " progress."
    )


def command_of(command: str, kubectl: Kubectl, name: str) -> str:
    """A command line of `fulmen` for a topology, with the options that lead to it."""
    return f"`{' '.join(['fulmen', command, name, *kubectl.flags])}`"
