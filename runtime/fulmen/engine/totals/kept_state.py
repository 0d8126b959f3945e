"""Sentences about state that nobody uses: its component is not in the topology."""

from collections.abc import Mapping

from fulmen.checkpoint import Manifest, read_layout, tasks_in
from fulmen.plan import task_of_key
from fulmen.topology.resource.spec import ACKER, Topology

CURE = (
    "If it was renamed, give it its name back. `fulmen state CHECKPOINT COMPONENT --forget` removes"
    " its state."
)


def kept_beside(manifest: Manifest, topology: Topology) -> dict[str, int]:
    """Components with state that are not in a topology, and how many tasks they have."""
    names = {component.name for component in topology.spec.components}
    names |= {ACKER, *read_layout(manifest).get("emitters", {})}
    gone = {task_of_key(key)[0] for key in manifest.tasks} - names
    return {name: n for name, n in tasks_in(manifest).items() if name in gone}


def lost_source(manifest: Manifest, topology: Topology) -> list[str]:
    """About transactional spouts that are not in a topology: their state is not kept."""
    before = read_layout(manifest).get("emitters", {})
    gone = sorted(set(before).difference(source.name for source in topology.spec.transactional))
    return [
        f"the transactional spout {name!r} of the checkpoint is not in the topology. Where it was"
        " in its source is lost with the first batch, and a spout that takes its place begins with"
        " nothing. If it was renamed, give it its name back."
        for name in gone
    ]


def kept_sentences(kept: Mapping[str, int]) -> list[str]:
    """Make a sentence for each component.

    Args:
        kept: Components that are not in the topology, and how many tasks they had.
    """
    return [
        f"component {name!r} is not in the topology, and the checkpoint keeps its state"
        f" ({tasks} task{'' if tasks == 1 else 's'})"
        for name, tasks in kept.items()
    ]
