"""Estimates how busy a topology would be with other numbers of workers, by its load. Pure.

A batch takes as long as the slowest worker of each of its stages, one stage after another. A
stage's work is divided among the workers, but no finer than by tasks: a task that works more than
all others stays one task, and a spout whose source has three parts has work for three tasks.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from typing import Final

from fulmen.kube.load import ComponentLoad, Load, StageLoad
from fulmen.topology.resource.scaling import executors_on
from fulmen.topology.resource.spec import TopologySpec

EVEN: Final = 1.5
"""A task that works so many times as much as the mean of its component has keys which come more
often than others."""


class Limit(Enum):
    """A reason why further workers don't help a component."""

    TASKS = auto()
    """It has no more tasks."""
    HOT_TASK = auto()
    """One of its tasks has most of the work."""
    SOURCE = auto()
    """Some tasks of the spout have nothing to emit: its source has too few parts."""


@dataclass(frozen=True)
class Forecast:
    """Estimates from a load.

    Attributes:
        load: The measured load.
        spec: The topology, with `parallelism` as its author wrote it.
    """

    load: Load
    spec: TopologySpec

    @property
    def now(self) -> float:
        """The share of the time that batches took for work."""
        return sum(stage.slowest for stage in self.load.stages)

    def at(self, workers: int) -> float:
        """The estimate for a number of workers."""
        if workers == self.load.workers:
            return self.now
        return sum(self._stage(stage, workers) for stage in self.load.stages)

    def _stage(self, stage: StageLoad, workers: int) -> float:
        """The slowest worker's share: as uneven as it is now."""
        before = self._even(stage, self.load.workers)
        return stage.slowest * self._even(stage, workers) / before if before else stage.slowest

    def _even(self, stage: StageLoad, workers: int) -> float:
        shares = [stage.workers / min(workers, self._parts(stage))]
        return max([*shares, *(self._most(part, workers) for part in stage.components)])

    def _parts(self, stage: StageLoad) -> int:
        """Among how many workers a stage can be divided."""
        return max([1, *(part.active for part in stage.components)])

    def _most(self, part: ComponentLoad, workers: int) -> float:
        """A component's work on the busiest worker: its busiest task is there."""
        if part.tasks == 1:
            return part.busiest
        others = (part.seconds - part.busiest) / (part.tasks - 1)
        return part.busiest + others * (self.tasks_on(part, workers) - 1)

    def tasks_on(self, part: ComponentLoad, workers: int) -> int:
        """The number of a component's tasks on the worker with the most of them."""
        executors = executors_on(workers, self._parallelism.get(part.name, 1), part.tasks)
        return min(part.tasks, -(-executors // workers) * -(-part.tasks // executors))

    @cached_property
    def _parallelism(self) -> dict[str, int]:
        return {component.name: component.parallelism for component in self.spec.components}

    def needed(self, numbers: Iterable[int], target: float) -> int | None:
        """The first of these numbers of workers with which batches take at most so much time."""
        return next((n for n in numbers if self.at(n) <= target), None)

    def bottleneck(self, workers: int) -> tuple[Limit, ComponentLoad] | None:
        """The component that would still hold up batches with so many workers, and why."""
        slowest = max(self.load.stages, key=lambda s: self._stage(s, workers), default=None)
        if slowest is None or not slowest.components:
            return None
        part = max(slowest.components, key=lambda part: (self._most(part, workers), part.active))
        if part.busiest > EVEN * part.seconds / part.tasks:
            return Limit.HOT_TASK, part
        if not part.seconds and part.active < part.tasks:
            return Limit.SOURCE, part
        return Limit.TASKS, part
