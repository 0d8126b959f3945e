"""Components that are not in the topology any more: what is kept of them, until it is forgotten.

It is kept until the component is back, `renames` takes it over, a person removes it, or the time of
`spec.forgetRemovedAfter` is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fulmen.checkpoint import Manifest
from fulmen.engine.batches.ledger import Ledger
from fulmen.engine.driver.checkpoints.kept_sources import metadata_of
from fulmen.engine.driver.checkpoints.layout import CheckpointChange, KeptComponent, Layout
from fulmen.engine.state.journals import ROWS
from fulmen.plan import task_of_key
from fulmen.topology.resource.spec import ACKER

SPOUT, BOLT = "a spout", "a bolt"


def kept_components(
    before: Layout, layout: Layout, manifest: Manifest, ledger: Ledger, now: float
) -> dict[str, KeptComponent]:
    """The components that are gone and have state. `now`: in wall clock seconds."""
    kinds = kinds_of(before)
    known = {
        name: KeptComponent(n, kinds.get(name, BOLT), since=now) for name, n in before.tasks.items()
    }
    for name in before.emitters:
        metadata, tasks = metadata_of(ledger, name), known[name].tasks
        known[name] = KeptComponent(tasks, kinds[name], metadata, ledger.committed, now)
    have_state = {task_of_key(key)[0] for key in manifest.tasks}
    all_of = {**before.kept, **known}
    gone = all_of.keys() - {ACKER, *layout.tasks}
    return {n: all_of[n] for n in sorted(gone) if n in have_state or all_of[n].metadata}


def kinds_of(layout: Layout) -> dict[str, str]:
    """What sources are, for people."""
    kinds = {task_of_key(key)[0]: SPOUT for key in layout.origins}
    return kinds | {name: kind_of_transactional(has) for name, has in layout.emitters.items()}


def kind_of_transactional(has_partitions: bool) -> str:
    """What a transactional spout is, for people."""
    partitions = "with" if has_partitions else "without"
    return f"a transactional spout {partitions} partitions"


def due(layout: Layout, manifest: Manifest, seconds: float | None, now: float) -> list[str]:
    """The kept components whose time is over.

    Args:
        layout: Of the checkpoint.
        manifest: Of the same.
        seconds: How long they are kept; None: for good.
        now: In wall clock seconds.
    """
    if seconds is None:
        return []
    over = [name for name, kept in layout.kept.items() if now >= kept.since + seconds]
    unwritten = set(with_unwritten_rows(manifest, over))
    return [name for name in over if name not in unwritten]


def with_unwritten_rows(manifest: Manifest, names: Iterable[str]) -> Iterator[str]:
    """Those of these components that have rows which are committed and perhaps not written."""
    names = {*names}
    for key, journals in manifest.tasks.items():
        if task_of_key(key)[0] in names and journals.get(ROWS):
            yield task_of_key(key)[0]


def without_components(
    layout: Layout, manifest: Manifest, names: Iterable[str]
) -> CheckpointChange:
    """The change that removes all that a checkpoint has of components."""
    names = {*names}
    for name in names:
        layout = layout.without(name)
    removed = [key for key in manifest.tasks if task_of_key(key)[0] in names]
    return CheckpointChange(layout, removed)
