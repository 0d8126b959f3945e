"""Another number of tasks: what each of them gets of what those of before have kept.

Keys of state and of timers go to the task that the fields grouping sends their values to, by links
to the segments that have them: nothing is copied, and none of it is read. Where that is not known,
or something is kept that is the task's own, nothing is changed, and the message says what to do.
Trees, messages and results are none of it: they have ended before, see `RunningTopology`.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from fulmen.api.components import Component
from fulmen.checkpoint import Manifest, Ref, Store, Update, load_many
from fulmen.checkpoint.rewriting import Journals
from fulmen.engine.driver.checkpoints import kept_entries
from fulmen.engine.driver.checkpoints.known_homes import (
    OF_ALL_TUPLES,
    SAY_HOW,
    TIMERS_STAY,
    KnownHomes,
    engine_of,
    not_known,
)
from fulmen.engine.driver.checkpoints.layout import Layout, changed_tasks
from fulmen.engine.driver.checkpoints.redistribution import (
    NotDivided,
    changed_fields,
    dealt_partitions,
    redistributed,
)
from fulmen.engine.keyed.homes import BY_PLACE, HomeRule, task_range
from fulmen.engine.state.committed_entries import entries_in, sample_of
from fulmen.engine.state.entries.keyed_state import KeyedState, is_of, segment_journals
from fulmen.engine.state.journals import (
    EARLY,
    ENGINE,
    FAILED,
    FIELDS,
    MARK,
    PARTITIONS,
    PENDING,
    RESULTS,
    RESULTS_AGAIN,
    RESULTS_FAILED,
    ROWS,
    STATE,
    TIMERS,
)
from fulmen.engine.state.messages.failed_messages import FailedMessages
from fulmen.engine.state.messages.kept_results import KeptResults
from fulmen.engine.state.messages.pending_messages import PendingMessages
from fulmen.engine.state.values.renamed_classes import use_renamed
from fulmen.engine.tasks.parts.home_evidence import HOMES
from fulmen.engine.tasks.transactional.known_maps import KnownMaps
from fulmen.errors import CheckpointMismatch, GroupingError, repr_of
from fulmen.plan import task_key
from fulmen.topology.code.loading import load_class
from fulmen.topology.resource.spec import BoltSpec, ComponentSpec, Topology
from fulmen.windows import WindowedBolt

SAMPLE = 1000
"""So many keys of each task are looked at before they move."""
_READ = {ENGINE, FIELDS, FAILED, PENDING, RESULTS, RESULTS_AGAIN, RESULTS_FAILED}
_OF_TASKS = {*_READ, ROWS, MARK}
"""Journals that stay with their tasks, or have nothing in them by then."""


@dataclass
class Rescaled:
    """What a commit has to do for other numbers of tasks.

    Attributes:
        tasks: The number of tasks of each component that gets another one.
        removed: The tasks of before.
        links: What the tasks get of it: task key -> journal -> where its payloads are.
        updates: What is written anew.
        retired: Tasks that go and may come back -> their numbers in root ids, and the last
            sequence number that they have given.
    """

    tasks: dict[str, int] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    links: dict[str, dict[str, list[Ref]]] = field(default_factory=dict)
    updates: dict[str, dict[str, Update]] = field(default_factory=dict)
    retired: dict[str, tuple[int, int]] = field(default_factory=dict)


def rescaled(
    known: Layout,
    topology: Topology,
    manifest: Manifest,
    store: Store,
    code_folder: Path | None,
    *,
    is_over: bool = True,
) -> Rescaled:
    """Plan other numbers of tasks.

    Args:
        known: What the checkpoint belongs to.
        topology: What is to go on with it.
        manifest: The last commit.
        store: The checkpoint's.
        code_folder: Where the classes are.
        is_over: Whether all trees have ended. If not, it is only looked whether it can be done.

    Raises:
        CheckpointMismatch: What is kept can't be divided: of all components, with the reasons.
    """
    plan, problems = Rescaled(), list[str]()
    use_renamed(topology.spec.state_classes)
    specs = {one.name: one for one in topology.spec.components}
    for name, tasks in changed_tasks(known, topology).items():
        old, plan.tasks[name] = tasks
        one = _Component(specs[name], tasks, known, manifest, store, code_folder)
        what = f"component {name!r} can't have {tasks[1]} instead of {old} tasks"
        problems += (f"{what}: {text}" for text in one.plan(plan, is_over=is_over))
    if problems:
        raise CheckpointMismatch(
            f"checkpoint {store.uri}: {'; '.join(problems)}. Nothing was changed. Leave numTasks as"
            " it was, or give the component another name, which begins with nothing"
        )
    return plan


class _Component:
    """One component whose number of tasks changes."""

    def __init__(
        self,
        spec: ComponentSpec,
        tasks: tuple[int, int],
        known: Layout,
        manifest: Manifest,
        store: Store,
        code_folder: Path | None,
    ) -> None:
        """`tasks`: how many it had, and will have."""
        old, self._new = tasks
        self._spec, self._old, self._known = spec, old, known
        self._number = manifest.number + 1
        self._manifest, self._store = manifest, store
        self._keys = [task_key(spec.name, i) for i in range(old)]
        self._refs = [manifest.tasks.get(key, {}) for key in self._keys]
        loaded = load_many(store, manifest, self._keys, _READ.__contains__)
        self._loaded: list[Journals] = [loaded[key] for key in self._keys]
        self._class: type[Component] = load_class(spec.class_, code_folder)

    def plan(self, plan: Rescaled, *, is_over: bool) -> list[str]:
        """Add what becomes of it. Returns why nothing can."""
        if not any(self._refs):
            self._retire(plan, {})
            return []
        engines = [engine_of(journals) for journals in self._loaded]
        problems = list(self._unfinished()) if is_over else []
        is_divided = "redistribute" in _own(self._class)
        links: list[dict[str, list[Ref]]] = [{} for _ in range(self._new)]
        updates: list[dict[str, Update]] = [{} for _ in range(self._new)]
        if is_divided:
            problems += self._divide_by_class(updates)
        else:
            problems += self._divide_fields(links)
        problems += self._divide_keys(links, engines, is_divided)
        problems += self._divide_early(links)
        problems += self._divide_rest(links, is_divided)
        problems += self._deal_partitions(updates)
        if problems:
            return problems
        plan.removed += self._keys
        maps = KnownMaps.dealt([KnownMaps.of(engine) for engine in engines], self._new)
        for task in range(self._new):
            key = task_key(self._spec.name, task)
            updates[task][ENGINE] = self._engine(task, engines, maps[task])
            plan.links[key], plan.updates[key] = links[task], updates[task]
        of_keys = zip(self._keys, engines, strict=True)
        self._retire(plan, {key: e.get("sequence", 0) for key, e in of_keys})
        return []

    # What is the tasks' own

    def _unfinished(self) -> Iterator[str]:
        for task, journals in enumerate(self._loaded):
            results = KeptResults.restore(journals) if journals.get(RESULTS) else None
            pending = PendingMessages.restore(journals.get(PENDING, ())).count
            if pending or (results is not None and (results.pending or results.failed.resting)):
                yield f"task {task} has messages or results that are pending"
            if self._refs[task].get(ROWS):
                yield f"task {task} has rows that are committed, and perhaps not written yet"

    def _engine(self, task: int, engines: Sequence[Mapping[str, Any]], maps: KnownMaps) -> Update:
        """The engine's own record of a task."""
        engine = maps.put_into(engines[task] if task < self._old else self._left_behind(task))
        engine.pop("routes", None)  # they are about other tasks
        classes: dict[Any, Any] = {}
        for one in engines:
            classes |= one.get("classes", {})
        if classes:
            engine["classes"] = classes
        if any(HOMES in one for one in engines):
            engine[HOMES] = KnownHomes.of(engines).record()
        key = task_key(self._spec.name, task)
        if task >= self._old and (retired := self._known.retired.get(key)) is not None:
            engine["origin"], engine["sequence"] = retired
        return Update(pickle.dumps(engine, 5), None, self._number)

    def _left_behind(self, task: int) -> Mapping[str, Any]:
        """What a new task has all the same: the id of a sink, from before going back."""
        key = task_key(self._spec.name, task)
        if key not in self._manifest.tasks:
            return {}
        return engine_of(load_many(self._store, self._manifest, [key], _READ.__contains__)[key])

    def _retire(self, plan: Rescaled, sequences: Mapping[str, int]) -> None:
        origins = self._known.all_origins
        for key in self._keys[self._new :]:
            if key in origins:
                before = self._known.retired.get(key, (0, 0))[1]
                plan.retired[key] = origins[key], max(before, sequences.get(key, 0))

    def _divide_rest(self, links: list[dict[str, list[Ref]]], is_divided: bool) -> Iterator[str]:
        names = {j.partition(".")[0] for refs in self._refs for j in refs if j not in _OF_TASKS}
        for name in sorted(names - {STATE, TIMERS, EARLY, PARTITIONS}):
            _add(links, kept_entries.adopted(self._refs, name, self._new))
        for task, refs in enumerate(self._refs[: self._new]):
            for journal in _OF_TASKS - {ENGINE, FIELDS} - ({FAILED} if is_divided else set()):
                if journal in refs:
                    links[task][journal] = [*refs[journal]]
        if is_divided or isinstance(self._spec, BoltSpec):
            return
        for task, journals in enumerate(self._loaded[self._new :], self._new):
            if FailedMessages.restore(journals).resting:
                yield (
                    f"task {task} has messages that have failed and come again, and the class does"
                    " not say which task then has them"
                )

    def _divide_early(self, links: list[dict[str, list[Ref]]]) -> Iterator[str]:
        """Give what a sink has written before its time to the task that the final rows come to."""
        if not any(segment_journals(refs, EARLY) for refs in self._refs):
            return
        if self._is_global:
            _add(links, kept_entries.adopted(self._refs, EARLY, self._new))
            return
        for task, (_, place), _ in entries_in(self._store, self._manifest, self._spec.name, EARLY):
            first, end = task_range(task, self._old)
            if place is None or not first <= place < end:
                yield (
                    f"task {task} has written early results, and no task can be told for their"
                    " final ones, as they are not grouped by fields. Let one run end with"
                    " --end-of-input before, or group the inputs by fields"
                )
                return
        _add(links, kept_entries.dealt(self._refs, EARLY, self._new, BY_PLACE))

    def _deal_partitions(self, updates: list[dict[str, Update]]) -> Iterator[str]:
        """Give each partition of a transactional spout's source to the task that emits it then."""
        if not any(segment_journals(refs, PARTITIONS) for refs in self._refs):
            return
        loaded = load_many(self._store, self._manifest, self._keys, partial(is_of, PARTITIONS))
        try:
            _add_records(updates, dealt_partitions([*loaded.values()], self._new, self._number))
        except NotDivided as error:
            yield str(error)

    # Fields

    def _divide_fields(self, links: list[dict[str, list[Ref]]]) -> Iterator[str]:
        for task, journals in enumerate(self._loaded):
            changed = changed_fields(journals) if journals.get(FIELDS) else ()
            if changed:
                yield (
                    f"field {changed[0]!r} of task {task} has changed since open or prepare, and is"
                    f" the task's own.{SAY_HOW}"
                )
                return
        have = [refs[FIELDS] for refs in self._refs if FIELDS in refs]
        for task in range(self._new if have else 0):
            links[task][FIELDS] = [*have[task % len(have)]]

    def _divide_by_class(self, updates: list[dict[str, Update]]) -> Iterator[str]:
        def wanted(journal: str) -> bool:
            return journal in (FIELDS, FAILED) or is_of(STATE, journal)

        loaded = load_many(self._store, self._manifest, self._keys, wanted)
        tasks = [loaded[key] for key in self._keys]
        try:
            divided = redistributed(self._class, tasks, self._new, self._number)
        except NotDivided as error:
            yield str(error)
            return
        _add_records(updates, divided)

    # State and timers

    @property
    def _grouped_by(self) -> int:
        """By how many fields its inputs are grouped; 0: by none, or by different numbers."""
        inputs = self._spec.inputs if isinstance(self._spec, BoltSpec) else ()
        by = {len(i.grouping.fields) for i in inputs if i.grouping.type == "fields"}
        return by.pop() if len(by) == 1 else 0

    @property
    def _is_global(self) -> bool:
        """Whether all tuples go to its first task, however many there are."""
        inputs = self._spec.inputs if isinstance(self._spec, BoltSpec) else ()
        kinds = [(i.grouping.type, bool(i.grouping.fields)) for i in inputs]
        return bool(kinds) and all(k == ("fields", False) or k[0] == "global" for k in kinds)

    def _divide_keys(
        self,
        links: list[dict[str, list[Ref]]],
        engines: Sequence[Mapping[str, Any]],
        is_divided: bool,
    ) -> Iterator[str]:
        """Divide `self.state`, if its class has not, and timers."""
        homes = KnownHomes.of(engines).with_class(self._class, self._grouped_by)
        problems = [] if is_divided else [*self._divide(links, STATE, "self.state", homes)]
        timers = [*self._divide(links, TIMERS, "timers", homes)]
        if issubclass(self._class, WindowedBolt) and not is_divided and problems:
            yield OF_ALL_TUPLES
        elif is_divided and timers:
            yield TIMERS_STAY
        else:
            yield from problems + timers

    def _divide(
        self, links: list[dict[str, list[Ref]]], name: str, what: str, homes: KnownHomes
    ) -> Iterator[str]:
        if not any(segment_journals(refs, name) for refs in self._refs):
            return
        if self._is_global:
            _add(links, kept_entries.adopted(self._refs, name, self._new))
            return
        rule = homes.rule(name)
        why = self._why_not(name, what, homes)
        if why is None and rule is not None:
            try:
                _add(links, kept_entries.dealt(self._refs, name, self._new, rule))
            except ValueError as error:
                why = f"{what} was divided by another part of its keys before ({error})"
        if why is not None and not self._is_empty(name):
            yield why

    def _why_not(self, name: str, what: str, homes: KnownHomes) -> str | None:
        """Why a keyed state can't be divided; None: it can."""
        if not self._grouped_by:
            return f"{what} is by task, as no input is grouped by fields.{SAY_HOW}"
        if homes.part(name) is None:
            return not_known(what, homes.state if name == STATE else homes.timers)
        if (rule := homes.rule(name)) is None:
            return (
                f"{what} has keys that are not made of the fields that all inputs are grouped by,"
                " so no task can be told for them. Give the component a `key`, and group its inputs"
                " by that"
            )
        if wrong := self._elsewhere(name, rule):
            return f"{what} has the key {wrong}, which is not in the task that its inputs go to"
        return None

    def _is_empty(self, name: str) -> bool:
        """Whether all that its segments say is that keys are no more."""
        loaded = load_many(self._store, self._manifest, self._keys, partial(is_of, name))
        return not any(KeyedState.restore(journals, name=name) for journals in loaded.values())

    def _elsewhere(self, name: str, rule: HomeRule) -> str:
        """A key of a sample that the rule is wrong for, and its task; empty: there is none."""
        for task, key in sample_of(self._store, self._manifest, self._spec.name, name, SAMPLE):
            first, end = task_range(task, self._old)
            if rule.is_of_many(key):
                continue
            try:
                [position] = rule.positions([key]).tolist()
            except (LookupError, TypeError, GroupingError):
                position = end
            if not first <= position < end:
                return f"{repr_of(key)} of task {task}"
        return ""


def _own(cls: type[Component]) -> set[str]:
    """What a class has, or those that it is derived from, but not Fulmen's own base."""
    return {name for base in cls.__mro__ if base is not Component for name in vars(base)}


def _add(links: list[dict[str, list[Ref]]], more: Sequence[Mapping[str, list[Ref]]]) -> None:
    for task, journals in enumerate(more):
        links[task].update(journals)


def _add_records(
    updates: list[dict[str, Update]], more: Sequence[Mapping[str, tuple[bytes | None, int]]]
) -> None:
    for task, records in enumerate(more):
        updates[task] |= {j: Update(data, None, at) for j, (data, at) in records.items()}
