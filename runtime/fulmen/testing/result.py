"""The outcome of a topology's run: its report, emits, state and fields, as committed."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from fulmen.checkpoint import Store, load, read_manifest
from fulmen.checkpoint.rewriting import Journals
from fulmen.engine.protocol.summary import ErrorReport
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.state.fields import fields_of
from fulmen.plan import task_key
from fulmen.testing.transactions import TransactionResults


@dataclass(repr=False)
class Result:
    """The outcome of a topology's run: only what was committed.

    Attributes:
        report: The report that `fulmen run` prints.
        errors: What components reported, and the exceptions they raised.
        notes: What a person who runs the topology would be told, such as batches run again.
        checkpoint: Give it to another `run`, to go on from here.
        batches: How many batches counted.
        emits: The component, stream and values of each emitted tuple, if they were asked for.
        has_emits: Whether they were asked for.
        number: The number of the last commit.
        transactions: What became of a transactional topology's transactions.
    """

    checkpoint: Store
    report: dict[str, Any] = field(default_factory=dict)
    errors: list[ErrorReport] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    batches: int = 0
    emits: list[tuple[str, str, Sequence[Any]]] = field(default_factory=list, repr=False)
    has_emits: bool = False
    number: int = 0
    transactions: TransactionResults = field(default_factory=TransactionResults)

    def __repr__(self) -> str:
        """What ended how, and the errors: in a notebook a cell shows it."""
        trees = ", ".join(f"{n:,} {what.replace('_', ' ')}" for what, n in self.trees.items() if n)
        told = dict.fromkeys(f"{error.component}: {error.message}" for error in self.errors)
        return "\n".join((f"<run of {self.batches:,} batches: {trees or 'no trees'}>", *told))

    @property
    def trees(self) -> dict[str, int]:
        """Counts of tuple trees: acked, failed, timed out, pending, and so on."""
        trees: dict[str, int] = self.report["trees"]
        return trees

    @property
    def metrics(self) -> dict[str, dict[str, Any]]:
        """Metrics of one's own: component -> name -> value, over all its tasks.

        A counter and a gauge are a number, the sum of all tasks. A histogram has `count`, `sum` and
        `buckets`. With labels the name is written as Prometheus does: `rows{table="a"}`.
        """
        return {name: of["metrics"] for name, of in self.report["components"].items()}

    def emitted(self, component: str, stream: str | None = None) -> list[Sequence[Any]]:
        """The values of what a component emitted: the tuples of each task in their order.

        Args:
            component: A spout or bolt.
            stream: One of its streams. Default: all of them.

        Raises:
            ValueError: `run` was not called with `emits=True`.
        """
        if not self.has_emits:
            raise ValueError("what components emit is not known: call run(..., emits=True)")
        return [
            values for name, on, values in self.emits if name == component and stream in (None, on)
        ]

    def state(self, component: str, task: int | None = None) -> dict[Any, Any]:
        """`self.state` of a component, as committed.

        Args:
            component: A spout or bolt.
            task: The number of one task, from 0; None: all tasks' together.

        Raises:
            ValueError: There is no such component or task, or several tasks have the same key.
        """
        found: dict[Any, Any] = {}
        for of_task in self._states(component, task):
            if both := found.keys() & of_task.keys():
                raise ValueError(
                    f"several tasks of {component!r} have the key {min(both, key=repr)!r}: give"
                    " `task`, the number of one of them"
                )
            found |= of_task
        return found

    def fields(self, component: str, task: int = 0) -> dict[str, Any]:
        """The durable fields of one task's instance, as committed."""
        (key,) = self._keys(component, task)
        return fields_of(self._load(key))

    def collected(self, component: str) -> list[Any]:
        """The values that a `CollectBolt` received, task by task, in their order."""
        return [state[i] for state in self._states(component) for i in range(len(state))]

    def acked(self, component: str) -> list[Hashable]:
        """The message ids that a `ListSpout`'s `ack` was called with, task by task."""
        return self._heard(component, "acked")

    def failed(self, component: str) -> list[tuple[Hashable, str]]:
        """The message ids and reasons that a `ListSpout`'s `fail` was called with."""
        return self._heard(component, "failed")

    def _heard(self, component: str, what: str) -> list[Any]:
        states = self._states(component)
        return [s[kind, n] for s in states for kind, n in sorted(s) if kind == what]

    def _states(self, component: str, task: int | None = None) -> Iterator[KeyedState]:
        for key in self._keys(component, task):
            yield KeyedState.restore(self._load(key))

    def _keys(self, component: str, task: int | None) -> list[str]:
        components = self.report["components"]
        if component not in components:
            raise ValueError(f"there is no component {component!r}: there are {[*components]}")
        tasks = range(components[component]["tasks"])
        if task is not None and task not in tasks:
            raise ValueError(f"{component!r} has {len(tasks)} tasks, from 0, and no task {task}")
        return [task_key(component, i) for i in tasks if task in (None, i)]

    def _load(self, key: str) -> Journals:
        return load(self.checkpoint, read_manifest(self.checkpoint, self.number), key)
