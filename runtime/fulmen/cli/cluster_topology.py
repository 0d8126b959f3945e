"""A topology on a cluster: what it does, and the commands that show or change it."""

from fulmen.cli.kubectl import Json, Kubectl


def state_of(topology: Json) -> str:
    """What the operator says that it does."""
    return str(topology.get("status", {}).get("state", "Pending"))


def progress(kubectl: Kubectl, topology: Json, asked: str) -> str:
    """What was asked of a topology, and how to see what becomes of it."""
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
