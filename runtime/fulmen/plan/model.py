"""A plan: which worker hosts which executor, and in which stage each component runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

DRIVER = -1
"""The "worker" of what the driver hosts: pinned spouts."""


@dataclass(frozen=True, order=True)
class Executor:
    """Consecutive tasks of one component that run one after another, by their ids."""

    component: str
    first: int
    last: int

    @property
    def tasks(self) -> range:
        """Its task ids."""
        return range(self.first, self.last + 1)


@dataclass(frozen=True)
class Plan:
    """Where a topology's tasks run. Equal plans run alike.

    Every question is answered from a table that is made once, since workers ask for each tuple's
    task.

    Attributes:
        workers: How many workers the topology asks for. They are numbered from 0; a worker that was
            lost may host nothing.
        executors: All executors, by ascending task ids.
        assignment: The worker of each of them; -1 is the driver.
        stages: The components of each stage of a batch, each after those of its stage that it
            receives from.
        pinned: The spouts that the driver hosts; they are in no stage.
    """

    workers: int
    executors: tuple[Executor, ...]
    assignment: tuple[int, ...]
    stages: tuple[tuple[str, ...], ...]
    pinned: tuple[str, ...] = ()

    @property
    def task_count(self) -> int:
        """The number of tasks, and the highest task id."""
        return len(self.task_workers) - 1

    @cached_property
    def task_workers(self) -> tuple[int, ...]:
        """The worker of each task, by task id. Entry 0 is no task."""
        pairs = zip(self.executors, self.assignment, strict=True)
        return (DRIVER, *(worker for executor, worker in pairs for _ in executor.tasks))

    @cached_property
    def component_tasks(self) -> Mapping[str, range]:
        """The task ids of each component, in the order of the ids."""
        tasks: dict[str, range] = {}
        for executor in self.executors:
            start = tasks.get(executor.component, executor.tasks).start
            tasks[executor.component] = range(start, executor.last + 1)
        return tasks

    @cached_property
    def _components(self) -> tuple[str, ...]:
        return ("", *(executor.component for executor in self.executors for _ in executor.tasks))

    @cached_property
    def _stages(self) -> Mapping[str, int]:
        stages = {name: i for i, stage in enumerate(self.stages) for name in stage}
        return stages | dict.fromkeys(self.pinned, -1)

    def tasks(self, component: str) -> range:
        """The task ids of a component. KeyError if there is no such component."""
        return self.component_tasks[component]

    def component_of(self, task: int) -> str:
        """The component of a task."""
        return self._components[task]

    def worker_of(self, task: int) -> int:
        """The worker that hosts a task; -1 is the driver."""
        return self.task_workers[task]

    def stage_of(self, component: str) -> int:
        """The stage of a component; -1 for pinned spouts. KeyError if there is no such name."""
        return self._stages[component]

    def key_of(self, task: int) -> str:
        """The name of a task in the checkpoint: its component, and its place among its tasks."""
        component = self._components[task]
        return task_key(component, task - self.component_tasks[component].start)

    def executors_on(self, worker: int) -> tuple[Executor, ...]:
        """The executors that a worker hosts, by ascending task ids; -1 is the driver."""
        return self._hosted.get(worker, ())

    def executor_of(self, task: int) -> Executor:
        """The executor that runs a task."""
        return self._executors[task]

    def workers_of(self, component: str) -> frozenset[int]:
        """The workers that host tasks of a component; -1 is the driver."""
        return frozenset(self.task_workers[task] for task in self.component_tasks[component])

    @cached_property
    def _executors(self) -> Mapping[int, Executor]:
        return {task: executor for executor in self.executors for task in executor.tasks}

    @cached_property
    def _hosted(self) -> Mapping[int, tuple[Executor, ...]]:
        hosted: dict[int, list[Executor]] = {}
        for executor, worker in zip(self.executors, self.assignment, strict=True):
            hosted.setdefault(worker, []).append(executor)
        return {worker: tuple(executors) for worker, executors in hosted.items()}

    def to_json(self) -> dict[str, Any]:
        """The plan as plain values. `from_json` makes an equal plan of it."""
        return {
            "workers": self.workers,
            "executors": [
                {"component": e.component, "first": e.first, "last": e.last, "worker": worker}
                for e, worker in zip(self.executors, self.assignment, strict=True)
            ],
            "stages": [list(stage) for stage in self.stages],
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Plan":
        """The plan that `to_json` described. Anything else in `content` is ignored."""
        executors = content["executors"]
        pinned = dict.fromkeys(e["component"] for e in executors if e["worker"] == DRIVER)
        return cls(
            workers=content["workers"],
            executors=tuple(Executor(e["component"], e["first"], e["last"]) for e in executors),
            assignment=tuple(e["worker"] for e in executors),
            stages=tuple(tuple(stage) for stage in content["stages"]),
            pinned=tuple(pinned),
        )


def task_key(component: str, index: int) -> str:
    """The name in the checkpoint of a task, by its place among the tasks of its component."""
    return f"{component}/{index}"


def task_of_key(key: str) -> tuple[str, int]:
    """The component of the task with this name in the checkpoint, and its place there."""
    component, _, index = key.rpartition("/")
    return component, int(index)
