"""The work that tasks have left: trees, messages, failed ones that rest. Pure."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence

from fulmen.engine.protocol.figures.statistics import (
    PENDING_MESSAGES,
    PENDING_RESULTS,
    PENDING_TREES,
)
from fulmen.engine.protocol.summary import Summary


class Unfinished:
    """Each task's last word. A batch that leaves a stage out changes nothing of its tasks.

    Attributes:
        exhausted: Whether each spout task has said that it has nothing more; None: it never says.
    """

    def __init__(self) -> None:
        self.exhausted: dict[int, bool | None] = {}
        self._trees: dict[int, int] = {}
        self._messages: dict[int, int] = {}
        self._resting: dict[int, float] = {}  # when the first of them comes again
        self._run = ""
        # parts of that run, by stage and worker
        self._want_batch: set[tuple[int, int]] = set()
        self._have_early_rows: set[tuple[int, int]] = set()

    def committed(self, run: str, summaries: Sequence[Summary]) -> None:
        """A batch counted.

        Args:
            run: Of the placement. In a new one all tasks are made anew, and want what they want.
            summaries: Of all its parts.
        """
        if run != self._run:
            self._run, self._want_batch, self._have_early_rows = run, set(), set()
        parts = {(s.stage, s.partition) for s in summaries}
        self._want_batch -= parts
        self._have_early_rows -= parts
        for summary in summaries:
            part = summary.stage, summary.partition
            if summary.wants_batch:
                self._want_batch.add(part)
            if summary.has_early_rows:
                self._have_early_rows.add(part)
            self.exhausted |= summary.exhausted
            for (what, task), n in summary.levels.items():
                if what == PENDING_TREES:
                    self._trees[task] = n
                elif what in (PENDING_MESSAGES, PENDING_RESULTS):
                    self._messages[task] = n
                    self._resting.pop(task, None)
            self._resting |= {task: r.due for task, r in summary.resting.items()}

    @property
    def trees(self) -> int:
        """How many trees acker tasks hold."""
        return sum(self._trees.values())

    def messages(self, left_out: Container[int]) -> int:
        """How many messages and results are pending, without tasks that are left out."""
        return sum(n for task, n in self._messages.items() if task not in left_out)

    def are_exhausted(self, tasks: Iterable[int]) -> bool:
        """Whether all have said so; one whose first turn has not ended has not."""
        return all(self.exhausted.get(task) for task in tasks)

    def awaits_end_of(self, tasks: Iterable[int]) -> bool:
        """Whether one of them has said that it will have nothing more, and has not come to that."""
        return any(self.exhausted.get(task) is False for task in tasks)

    def rests(self, task: Callable[[int], bool]) -> list[float]:
        """When those come again that have failed, by the batch clock: the first of each task."""
        return [due for one, due in self._resting.items() if task(one)]

    def wants_batch(self, run: str) -> bool:
        """Whether tasks have something to do whatever spouts have; in a new run they may have."""
        return run != self._run or bool(self._want_batch)

    def has_early_rows(self, run: str) -> bool:
        """Whether sinks have rows that were given before their time, or may have."""
        return run != self._run or bool(self._have_early_rows)
