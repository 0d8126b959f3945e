"""A stream grouping of your own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from fulmen.api.context import TopologyContext


class CustomStreamGrouping(ABC):
    """Chooses the tasks that receive each tuple.

    The spec names it: `grouping: {type: custom, class: module.Class}`.

    There is one instance for each emitting task and subscription. It is made anew whenever the
    emitting task is restored, so a choice must not depend on what was chosen before.
    """

    config: dict[str, Any]
    """The grouping's `config` in the spec; set before `prepare` is called."""

    def prepare(
        self, context: TopologyContext, stream: tuple[str, str], target_tasks: Sequence[int]
    ) -> None:
        """Called once, before the first choice. An exception stops the topology.

        Args:
            context: The context of the emitting task.
            stream: The (component, stream) whose tuples are to be grouped.
            target_tasks: Ids of the subscribing component's tasks, ascending.
        """

    @abstractmethod
    def choose_tasks(self, task_id: int, values: Sequence[Any]) -> Sequence[int]:
        """Choose the target tasks of a tuple: none, one or many.

        An exception, or an id that is not among the target tasks, fails the trees of the tuple and
        is reported; with `onError: crash` it stops the topology.

        Args:
            task_id: Id of the emitting task.
            values: The tuple's values, in the order of the stream's fields.

        Returns:
            Ids of target tasks. With none, nobody receives the tuple through this grouping.
        """
