"""Components that were renamed: what the checkpoint has of them moves to their new names.

A rename is one commit of its own, before anything is restored: it moves references, and copies
nothing. The layout says which renames were asked for last, so an entry of the spec that stays there
does nothing more, also if it swaps two names, or if a new component takes the old one. An entry
that is gone again, with the component of the new name, is undone: so a topology that is set back
to its version of before finds its state.

Stores and brokers know a component by the name that it had first, see `Layout.known_as`: names of
files, owners of maps, claims. So nothing of it has to be renamed there.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from itertools import chain, count

from fulmen.checkpoint import LAYOUT, Manifest, Ref
from fulmen.engine.batches.ledger import TRANSACTIONS, ledger_of
from fulmen.engine.driver.checkpoints.layout import Layout
from fulmen.engine.time.watermarks import SECTION as TIME
from fulmen.engine.time.watermarks import Watermarks
from fulmen.errors import CheckpointMismatch
from fulmen.plan import task_key, task_of_key
from fulmen.topology.resource.spec import ACKER, Topology


@dataclass(frozen=True)
class Renaming:
    """A commit that renames components.

    Attributes:
        moves: The old name of each component that moves, and its new one.
        layout: The layout with the new names.
        links: Task key -> journal -> the payloads that it takes over.
        removed_tasks: The tasks of the old names.
        sections: Those that change.
        transient: All those of the commit.
    """

    moves: Mapping[str, str]
    layout: Layout
    links: Mapping[str, Mapping[str, list[Ref]]]
    removed_tasks: Collection[str]
    sections: Mapping[str, bytes]
    transient: Mapping[str, bytes]

    def after(self, manifest: Manifest) -> Manifest:
        """The state after the commit, for those who look what comes then."""
        looked_at = copy(manifest)
        looked_at.number = manifest.number + 1
        left = {k: of for k, of in manifest.tasks.items() if k not in self.removed_tasks}
        looked_at.tasks = {**left, **{key: dict(of) for key, of in self.links.items()}}
        looked_at.sections = {**manifest.sections, **self.sections}
        looked_at.transient = dict(self.transient)
        return looked_at


def renaming_of(known: Layout, topology: Topology, manifest: Manifest, uri: str) -> Renaming | None:
    """Plan the renames that a topology asks for, and that are not done yet; None: there are none.

    Args:
        known: What the checkpoint belongs to.
        topology: What is to go on with it.
        manifest: The last commit.
        uri: Of the checkpoint, for messages.

    Raises:
        CheckpointMismatch: A component of the old name stays, or the new name has state of its own.
    """
    wanted = topology.spec.renames
    names = {component.name for component in topology.spec.components}
    have_state = {task_of_key(key)[0] for key in manifest.tasks} | {*known.emitters}
    there = {*known.tasks, *known.kept, *known.emitters}
    moves = dict(_undone(known, wanted, names, there))
    moves |= {
        old: new
        for old, new in wanted.items()
        if known.renamed.get(old) != new and old in there and new in names
    }
    for old, new in moves.items():
        _check(old, new, moves, names, have_state, uri)
    known_as = _known_as(known, moves, names, there)
    if not moves and (known.renamed, known.known_as) == (wanted, known_as):
        return None
    layout = _renamed(known, moves, have_state)
    layout = replace(layout, renamed=wanted, known_as=known_as)
    moved = {key: _moved_key(key, moves) for key in manifest.tasks}
    moved = {key: new for key, new in moved.items() if new != key}
    transient, sections = dict(manifest.transient), {}
    if moves and TRANSACTIONS in transient:
        transient[TRANSACTIONS] = ledger_of(transient).renamed(moves).encode()
    if moves and (time := manifest.sections.get(TIME)) is not None:
        sections[TIME] = Watermarks.decode(time).renamed(moves).encode()
    sections[LAYOUT] = json.dumps(layout.to_json()).encode()
    return Renaming(
        moves,
        layout,
        {new: {j: [*of] for j, of in manifest.tasks[key].items()} for key, new in moved.items()},
        list(moved),
        sections,
        transient,
    )


def _undone(
    known: Layout, wanted: Mapping[str, str], names: Collection[str], there: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Renames that are to be taken back, from the new name to the old one."""
    for old, new in known.renamed.items():
        is_gone = wanted.get(old) != new and new not in names and new not in wanted
        if is_gone and old in names and old not in there and new in there:
            yield new, old


def _check(
    old: str,
    new: str,
    moves: Mapping[str, str],
    names: Collection[str],
    have_state: Collection[str],
    uri: str,
) -> None:
    entry = f"checkpoint {uri}: spec.renames.{old} is {new!r}, but"
    if old in names and old not in moves.values():
        raise CheckpointMismatch(
            f"{entry} {old!r} is still in the topology, and the checkpoint has its state. Remove"
            f" the entry, or the component {old!r}"
        )
    if new in have_state and new not in moves and old in have_state:
        raise CheckpointMismatch(
            f"{entry} the checkpoint has state of both. Nothing was changed. Remove one of them,"
            " with the topology stopped, and start it again. To go on with the state of"
            f" {old!r}: `fulmen state forget CHECKPOINT {new} --because TEXT`. To go on with that"
            f" of {new!r}: `fulmen state forget CHECKPOINT {old} --because TEXT`"
        )


def _renamed(known: Layout, moves: Mapping[str, str], have_state: Collection[str]) -> Layout:
    """The layout with new names. A component without state gives way to one that takes its name."""
    gone = {new for new in moves.values() if new not in moves and new not in have_state}

    return known.with_names(lambda name: None if name in gone else moves.get(name, name))


def _moved_key(key: str, moves: Mapping[str, str]) -> str:
    name, index = task_of_key(key)
    return task_key(moves[name], index) if name in moves else key


def _known_as(
    known: Layout, moves: Mapping[str, str], names: Collection[str], there: Collection[str]
) -> dict[str, str]:
    """The names by which others know components. Two never have the same one."""
    first = {name: known.known_as.get(name, name) for name in there if name != ACKER}
    known_as = {moves.get(name, name): one for name, one in first.items()}
    for name in sorted(names):
        if name not in known_as:
            taken = {*known_as.values()}
            free = (one for one in chain([name], _numbered(name)) if one not in taken)
            known_as[name] = next(free)
    return {name: one for name, one in known_as.items() if one != name}


def _numbered(name: str) -> Iterator[str]:
    return (f"{name}-{n}" for n in count(2))
