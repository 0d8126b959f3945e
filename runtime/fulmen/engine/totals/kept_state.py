"""Sentences about state that nobody uses: its component is not in the topology."""

from collections.abc import Mapping

from fulmen.checkpoint import Manifest, read_layout, tasks_in
from fulmen.engine.protocol.placed_topology import UnusedState
from fulmen.plan import task_of_key
from fulmen.topology.resource.spec import ACKER, Topology

CURE = (
    "If it was renamed, say so in spec.renames, as {old: new}, or give it its name back. `fulmen"
    " state forget CHECKPOINT COMPONENT --because TEXT` removes its state."
)


def kept_beside(manifest: Manifest, topology: Topology) -> dict[str, UnusedState]:
    """Components with state that are not in a topology."""
    names = {component.name for component in topology.spec.components}
    names |= {ACKER, *topology.spec.renames}  # these are taken over
    have_state = {task_of_key(key)[0] for key in manifest.tasks}
    gone = {*have_state, *read_layout(manifest).get("emitters", {})} - names
    return {name: UnusedState(n) for name, n in tasks_in(manifest).items() if name in gone}


def kept_sentences(kept: Mapping[str, UnusedState]) -> list[str]:
    """Make a sentence for each component.

    Args:
        kept: Components that are not in the topology.
    """
    return [
        f"component {name!r} is not in the topology, and the checkpoint keeps its state"
        f" ({one.tasks} task{'' if one.tasks == 1 else 's'}){one.until and f' until {one.until}'}"
        for name, one in kept.items()
    ]
