"""The tasks of one stage on one worker: made with their state, kept from batch to batch, closed.

They carry the tag of the attempt that they were last part of. A batch says which tag it builds on;
tasks with any other one are behind or ahead (their attempt was not committed), and are restored
from the checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np

from fulmen.checkpoint import Manifest, Store, load_many, read_layout, read_manifest
from fulmen.checkpoint.rewriting import Journals
from fulmen.engine.acking.acker_task import AckerTask
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.engine.protocol.summary import ErrorReport, Summary
from fulmen.engine.state.entries.disk_journals import DiskJournals, is_on_disk
from fulmen.engine.state.entries.keyed_state import is_of
from fulmen.engine.state.journals import OLDER
from fulmen.engine.tasks.bolts.bolt_task import BoltTask
from fulmen.engine.tasks.kinds import kind_of
from fulmen.engine.tasks.spouts.spout_task import SpoutTask
from fulmen.engine.tasks.task import Task
from fulmen.engine.worker.state_folders import StateFolders
from fulmen.topology.resource.spec import ACKER


def _is_loaded(journal: str) -> bool:
    return not is_of(OLDER, journal)


def _is_no_segment(journal: str) -> bool:
    return _is_loaded(journal) and not is_on_disk(journal)


class LiveTasks:
    """The instances of stage `stage` on worker `partition` (-1: the driver)."""

    def __init__(
        self,
        placed: PlacedTopology,
        stage: int,
        partition: int,
        store: Store,
        clock: Callable[[], float],
        rng: np.random.Generator,
    ) -> None:
        """Keep what tasks are made of. The first batch makes them."""
        self.placed = placed
        self.stage = stage
        self.partition = partition
        self.store = store
        self.tag: str | None = None
        self._clock = clock
        self._rng = rng
        plan = placed.plan
        names = plan.pinned if stage < 0 else plan.stages[stage]
        self.components = [
            name for name in names if any(plan.worker_of(t) == partition for t in plan.tasks(name))
        ]
        self._left_out: tuple[int, ...] = ()
        self._has_looked_ahead = False  # so bolts have changed, and the checkpoint has not
        self._tasks: dict[int, Task] = {}
        self._executors: dict[str, list[list[BoltTask]]] = {}  # of each bolt
        self._ackers: dict[int, AckerTask] = {}

    @property
    def _spouts(self) -> list[SpoutTask]:
        return [task for task in self._tasks.values() if isinstance(task, SpoutTask)]

    @property
    def _bolts(self) -> list[BoltTask]:
        return [task for task in self._tasks.values() if isinstance(task, BoltTask)]

    def tasks_of(self, component: str) -> list[int]:
        """The component's tasks on this worker."""
        return [
            t
            for t in self.placed.plan.tasks(component)
            if self.placed.plan.worker_of(t) == self.partition
        ]

    def is_at_base(self, header: Header) -> bool:
        """Whether every task has the state that the batch builds on."""
        return self.tag == header.base_of(self.stage)

    def prepare(self, header: Header, summary: Summary) -> None:
        """Have every task at the state that the batch builds on.

        Args:
            header: The header of the batch.
            summary: Takes the keys of the tasks whose state was read from the checkpoint, and what
                went wrong when the instances before were closed.

        Raises:
            ComponentFailed: An author's `open` or `prepare` raised.
        """
        is_at_base, left_out = self.is_at_base(header), self._left_out
        self.tag, self._left_out = None, header.left_out  # a tag, when the batch has run to its end
        has_looked_ahead, self._has_looked_ahead = self._has_looked_ahead, False
        undone = self._undone(header) if is_at_base else ()
        if is_at_base and left_out == header.left_out and not has_looked_ahead and not undone:
            return
        started = self._clock()
        for task in header.left_out:
            self._tasks.pop(task, None)  # not closed: that is a call of its own as well
        if not is_at_base:
            summary.errors += self.close()
        elif has_looked_ahead:
            summary.errors += self._forget_ahead()
        elif undone:
            summary.errors += self._forget(undone)
        there = {*self._tasks, *self._ackers, *header.left_out}
        missing = {
            name: [t for t in self.tasks_of(name) if t not in there] for name in self.components
        }
        wanted = {name: tasks for name, tasks in missing.items() if tasks or not is_at_base}
        keys = {task: self.placed.plan.key_of(task) for tasks in wanted.values() for task in tasks}
        number = header.number - 1
        manifest = read_manifest(self.store, number)
        of_disk = {name: self.placed.plan.tasks(name) for name in wanted if self._is_on_disk(name)}
        on_disk = {keys[t] for name in of_disk for t in wanted[name]}
        in_memory = [key for key in keys.values() if key not in on_disk]
        loaded = dict(load_many(self.store, manifest, in_memory, _is_loaded))
        others = load_many(self.store, manifest, on_disk, _is_no_segment)
        folders = self._folders(manifest) if of_disk else None
        for name, of_all in of_disk.items():
            assert folders is not None
            for key in (keys[task] for task in wanted[name]):
                folder = folders.of_task(key, len(of_all))
                loaded[key] = DiskJournals(others[key], self.store, manifest, key, folder)
        restored = {key for key in keys.values() if loaded.get(key)}
        restored |= {key for key in on_disk if manifest.tasks.get(key)}
        summary.restored += sorted(restored)
        for name, tasks in wanted.items():
            self._make(name, {task: loaded.get(keys[task], {}) for task in tasks}, number)
            if folders is not None and name in of_disk and header.ahead is None:
                folders.keep_only(name, len(of_disk[name]))
        summary.restore_seconds += self._clock() - started

    def _is_on_disk(self, component: str) -> bool:
        if component == ACKER:
            return False
        return self.placed.topology.spec.keeps_on_disk(self.placed.component(component))

    def _folders(self, manifest: Manifest) -> StateFolders:
        return StateFolders(self.store.uri, read_layout(manifest).get("identity", ""))

    def _make(self, component: str, journals: Mapping[int, Journals], number: int) -> None:
        if component == ACKER:
            self._ackers = {task: AckerTask(task, own) for task, own in journals.items()}
            return
        plan, kind = self.placed.plan, kind_of(self.placed, component)
        # one by one: if one fails, others are to be closed
        for task, own in journals.items():
            self._tasks[task] = kind(self.placed, task, own, number, self._rng)
        if issubclass(kind, BoltTask):
            bolts = {bolt.task: bolt for bolt in self._bolts}
            for task in journals:
                bolts[task].executor = plan.executor_of(task).first
            executors = [e for e in plan.executors_on(self.partition) if e.component == component]
            self._executors[component] = [
                [bolts[t] for t in range(e.first, e.last + 1)] for e in executors
            ]

    def _forget_ahead(self) -> list[ErrorReport]:
        """Let go of bolts that have looked ahead: they are made anew as the checkpoint has them."""
        ahead = [t for t in self._bolts if t.was_called and not t.writes_rows]
        return self._forget({task.component for task in ahead})

    def _undone(self, header: Header) -> set[str]:
        """Bolts with changes of a transaction that has failed: the checkpoint has none of them."""
        work = header.transactions
        return {
            task.component
            for task in self._tasks.values()
            if task.uncommitted is not None and task.uncommitted.is_undone(work)
        }

    def _forget(self, components: Collection[str]) -> list[ErrorReport]:
        """Let go of the tasks of bolts. Returns what went wrong."""
        errors: list[ErrorReport] = []
        for component in [name for name in self._executors if name in components]:
            for task in (t for executor in self._executors.pop(component) for t in executor):
                errors += task.close()
                del self._tasks[task.task]
        return errors

    def close(self) -> list[ErrorReport]:
        """Let go of all instances. Returns what went wrong, for somebody to be told."""
        errors = [error for task in self._tasks.values() for error in task.close()]
        self._tasks, self._executors, self._ackers = {}, {}, {}
        self.tag = None
        return errors
