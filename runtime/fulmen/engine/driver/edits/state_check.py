"""Whether new code can read what a checkpoint has: looked at before it takes the old one's place.

Each task has noted the classes of what it keeps, so it takes little to see whether all of them are
still there. Where one is not, its values are looked for, within limits: they may all be gone. Of
the rest only a sample is read.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from fulmen.checkpoint import Manifest, Store, load_many, read_newest
from fulmen.checkpoint.rewriting import Journals
from fulmen.engine.driver.checkpoints.layout import layout_of
from fulmen.engine.driver.checkpoints.renames import renaming_of
from fulmen.engine.driver.checkpoints.rescale import rescaled
from fulmen.engine.driver.edits.repair import Removed, unreadable_in
from fulmen.engine.state.journals import ENGINE
from fulmen.engine.state.key_finder import tasks_of
from fulmen.engine.state.values.renamed_classes import use_renamed
from fulmen.engine.state.values.value_classes import ValueClasses
from fulmen.errors import CheckpointMismatch
from fulmen.topology.problems import Problem
from fulmen.topology.resource.spec import Topology
from fulmen.topology.validation.check import with_checkpoint_tasks

SECONDS = 60.0
"""For so long values of classes that are not there are looked for."""
SAMPLE_JOURNALS = 8
"""Of a component whose classes are all there, so many journals are read."""
SECTIONS = ("spouts", "transactional", "bolts")


def mistakes_in_state(
    store: Store, topology: Topology, clock: Callable[[], float] = time.monotonic
) -> list[Problem]:
    """Find what the classes of this process can't read of what a checkpoint has for a topology.

    Numbers of tasks that can't be are told as well.

    Args:
        store: The checkpoint's.
        topology: What is to go on with it. Its classes can be imported.
        clock: In seconds.

    Raises:
        CheckpointError: The checkpoint can't be read.
    """
    manifest = read_newest(store)
    known = layout_of(manifest)
    owners = (topology.whole_name, topology.spec.checkpoint.take_over)
    if known is None or manifest.topology not in owners:
        return []  # it is refused
    try:
        renaming = renaming_of(known, topology, manifest, store.uri)
    except CheckpointMismatch as error:
        return [Problem("spec.renames", str(error))]
    if renaming is not None:
        known, manifest = renaming.layout, renaming.after(manifest)
    use_renamed(topology.spec.state_classes)
    topology = with_checkpoint_tasks(topology, known.tasks)
    try:
        rescaled(known, topology, manifest, store, None, is_over=False)
    except CheckpointMismatch as error:
        return [Problem("spec", str(error))]
    until = clock() + SECONDS
    look = _Look(store, manifest, lambda: clock() < until)
    return [
        problem
        for section in SECTIONS
        for i, component in enumerate(getattr(topology.spec, section))
        for problem in look.at(component.name, f"spec.{section}[{i}]")
    ]


class _Look:
    """Looks at components, one after another."""

    def __init__(self, store: Store, manifest: Manifest, has_time: Callable[[], bool]) -> None:
        self._store, self._manifest, self._has_time = store, manifest, has_time

    def at(self, name: str, path: str) -> Iterator[Problem]:
        """The problems of one component."""
        tasks = tasks_of(self._manifest, name)
        engines = load_many(self._store, self._manifest, tasks, lambda journal: journal == ENGINE)
        missing: dict[str, str] = {}
        for key in tasks:
            classes = _classes_of(engines[key])
            if (moved := classes.moved()) is not None:
                yield Problem(path, f"component {name!r}: {moved}")
                return
            missing |= classes.missing()
        removed, is_all = self._unreadable(tasks, is_sample=not missing)
        if removed is not None:
            message = f"task {removed.task}: {removed.where} {removed.key}: {removed.reason}"
            yield Problem(path, f"component {name!r}, {message}", _cure(name, missing))
        elif missing and not is_all:
            (one, why), *_ = missing.items()
            message = (
                f"component {name!r} has had values of class {one}, which can't be found any more"
                f" ({why}). None was found in {SECONDS:.0f} seconds, but not all was looked at"
            )
            yield Problem(path, message, _cure(name, missing), "warning")

    def _unreadable(self, tasks: Mapping[str, int], is_sample: bool) -> tuple[Removed | None, bool]:
        """The first value that can't be read, and whether all was looked at that was to be."""
        for key, task in list(tasks.items())[: 1 if is_sample else None]:
            journals = [journal for journal in self._manifest.tasks[key] if journal != ENGINE]
            for some in _parts(journals[: SAMPLE_JOURNALS if is_sample else None]):
                if not self._has_time():
                    return None, False
                wanted = frozenset(some).__contains__
                [loaded] = load_many(self._store, self._manifest, [key], wanted).values()
                if found := unreadable_in(loaded, task):
                    return found[0], True
        return None, True


def _classes_of(journals: Journals) -> ValueClasses:
    engine: dict[str, Any] = pickle.loads(journals[ENGINE][-1]) if journals.get(ENGINE) else {}
    return ValueClasses(engine.get("classes", {}), engine.get("other_classes", ()))


def _parts(journals: Sequence[str]) -> Iterator[Sequence[str]]:
    """Some journals at a time: those that belong together, and segments one by one."""
    yield [journal for journal in journals if "." not in journal]
    yield from ([journal] for journal in journals if "." in journal)


def _cure(name: str, missing: Collection[str]) -> str:
    renamed = (
        f"If {' or '.join(missing)} was renamed or moved, say so in spec.stateClasses, as"
        " {old: new}. "
    )
    shows = f"`fulmen state get CHECKPOINT {name} --kind unreadable` shows all that can't be read."
    return f"{renamed if missing else ''}{shows}"
