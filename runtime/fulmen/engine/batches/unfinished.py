"""What tasks still have, as they said last: trees, messages, failed ones that rest. Pure."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence

from fulmen.engine.protocol.summary import Summary


class Unfinished:
    """What each task said last. A batch that leaves a stage out changes nothing of its tasks."""

    def __init__(self) -> None:
        self._trees: dict[int, int] = {}
        self._messages: dict[int, int] = {}
        self._exhausted: dict[int, bool | None] = {}
        self._resting: dict[int, float] = {}  # when the first of them comes again

    def committed(self, summaries: Sequence[Summary]) -> None:
        """A batch counted."""
        for summary in summaries:
            self._trees |= summary.pending
            self._exhausted |= summary.exhausted
            for messages in (summary.spout_pending, summary.result_pending):
                self._messages |= messages
                for task in messages:
                    self._resting.pop(task, None)
            self._resting |= {task: r.due for task, r in summary.resting.items()}

    @property
    def trees(self) -> int:
        """How many trees acker tasks hold."""
        return sum(self._trees.values())

    def messages(self, left_out: Container[int]) -> int:
        """How many messages and results are pending, without tasks that are left out."""
        return sum(n for task, n in self._messages.items() if task not in left_out)

    @property
    def exhausted(self) -> dict[int, bool | None]:
        """Whether each spout task has said that it has nothing more; None: it never says."""
        return self._exhausted

    def are_exhausted(self, tasks: Iterable[int]) -> bool:
        """Whether all have said so; one whose first turn has not ended has not."""
        return all(self._exhausted.get(task) for task in tasks)

    def awaits_end_of(self, tasks: Iterable[int]) -> bool:
        """Whether one of them has said that it will have nothing more, and has not come to that."""
        return any(self._exhausted.get(task) is False for task in tasks)

    def rests(self, task: Callable[[int], bool]) -> list[float]:
        """When those come again that have failed, by the batch clock: the first of each task."""
        return [due for one, due in self._resting.items() if task(one)]
