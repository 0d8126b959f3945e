"""What a task is told about itself and its topology."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fulmen.api.declarer import Stream

T = TypeVar("T")


@dataclass
class Batch:
    """The batch that is being run.

    Attributes:
        number: The commit that it is to become. A batch that is run again has the same number.
        attempt: Identifies this attempt of it, at random; empty before the first batch.
    """

    number: int = 0
    attempt: str = ""


@dataclass(frozen=True)
class TopologyContext:
    """Given to `open` and `prepare`; Storm's TopologyContext.

    Attributes:
        topology: Name of the topology.
        component: Name of this component.
        task_id: Id of this task, unique in the topology.
        task_index: Number of this task among those of its component, from 0.
        worker: Number of the worker that hosts the task, from 0; -1 in the driver.
        config: The topology's configuration (`spec.config`), without the component's own.
        component_tasks: The task ids of every component, ascending.
        streams: The output streams of every component.
        sources: The (component, stream) pairs that this component subscribes to.
        options: The component's own `config` as its class's `config_model`; None: it has none.
        batch: The batch that is being run. Always the same object, whose attributes change.
    """

    topology: str
    component: str
    task_id: int
    task_index: int
    worker: int
    config: Mapping[str, Any] = field(default_factory=dict)
    component_tasks: Mapping[str, range] = field(default_factory=dict)
    streams: Mapping[str, Mapping[str, Stream]] = field(default_factory=dict)
    sources: tuple[tuple[str, str], ...] = ()
    options: Any = None
    batch: Batch = field(default_factory=Batch)

    def tasks(self, component: str) -> list[int]:
        """The task ids of `component`, ascending; empty if there is no such component."""
        return list(self.component_tasks.get(component, ()))

    def component_of(self, task_id: int) -> str:
        """The component that a task is an instance of.

        Raises:
            KeyError: No component has that task.
        """
        for name, tasks in self.component_tasks.items():
            if task_id in tasks:
                return name
        raise KeyError(task_id)

    def shared(self, name: str, make: Callable[[], T]) -> T:
        """What all tasks and instances of this topology in this process have in common.

        A connection pool, a model or a cache: made when it is first asked for, kept as long as the
        process, and never written to the checkpoint. Several threads may use it.

        Args:
            name: Which; one name for one kind of object.
            make: Makes it.
        """
        with _LOCK:
            key = (self.topology, name)
            if key not in _SHARED:
                _SHARED[key] = make()
            found: T = _SHARED[key]
            return found


_SHARED: dict[tuple[str, str], Any] = {}
_LOCK = threading.RLock()
