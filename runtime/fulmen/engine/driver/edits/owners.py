"""Which task of a component a key belongs to that none of them has yet.

A checkpoint does not say what the keys of a state are made of. Their tasks have found out, by what
they wrote: see `KnownHomes`.
"""

from __future__ import annotations

from typing import Any, Final

from fulmen.checkpoint import Manifest, Store, tasks_in
from fulmen.engine.driver.checkpoints.known_homes import KnownHomes
from fulmen.engine.state.committed_entries import sample_of
from fulmen.errors import GroupingError, StateError

SAMPLE: Final = 1000
"""So many keys of each task are looked at for their types."""


class Owners:
    """Says which task of a component a new key of its state belongs to.

    Attributes:
        component: Whose state it is.
        tasks: How many tasks there are.
        samples: Some keys that are there.
        kinds: The `kind_of_key` of these.
    """

    def __init__(self, store: Store, manifest: Manifest, component: str, name: str) -> None:
        """Look at some keys that the state has, and at what is known of them."""
        self.component = component
        self.tasks = tasks_in(manifest)[component]
        self._rule = KnownHomes.read(store, manifest, component).rule(name)
        self.samples = [k for _, k in sample_of(store, manifest, component, name, SAMPLE)]
        self.kinds = set(map(kind_of_key, self.samples))

    def task_of(self, key: Any) -> int | None:
        """The task; None: it can't be told."""
        if self.tasks == 1:
            return 0
        if self._rule is None or self._rule.is_of_many(key):
            return None
        try:
            [position] = self._rule.positions([key]).tolist()
        except (LookupError, TypeError, GroupingError):
            return None
        return int(position) * self.tasks >> 32

    def place(self, key: Any, task: int | None) -> int:
        """The task that a new key is put into.

        Args:
            key: The key.
            task: The one that the person has named.

        Raises:
            StateError: It is of another type than those that are there, its task can't be told, or
                it is another one than `task`.
        """
        if self.kinds and kind_of_key(key) not in self.kinds:
            names = ", ".join(sorted({type(one).__name__ for one in self.samples}))
            raise StateError(
                f"{key!r} is a key of type {type(key).__name__}, and those that {self.component!r}"
                f" has are of type {names}, such as {self.samples[0]!r}. A text that looks like"
                " something else is written with quotes within quotes: '\"1\"'"
            )
        if task is not None and task >= self.tasks:
            raise StateError(
                f"component {self.component!r} has {self.tasks} tasks, counted from 0: there is no"
                f" {task}"
            )
        owner = self.task_of(key)
        if owner is None and task is None:
            raise StateError(
                f"component {self.component!r} has {self.tasks} tasks, and its keys don't show"
                f" which of them {key!r} belongs to. Name it with --task"
            )
        if owner is not None and task not in (None, owner):
            raise StateError(
                f"the key {key!r} belongs to task {owner} of {self.component!r}, by how its keys"
                f" are grouped, and not to task {task}: tuples with it would not find it there"
            )
        return owner if owner is not None else task or 0


def kind_of_key(key: Any) -> Any:
    """The type of a key; of a tuple those of its parts."""
    return tuple(map(kind_of_key, key)) if isinstance(key, tuple) else type(key)
