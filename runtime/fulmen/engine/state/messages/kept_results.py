"""Results of a bolt task, which it has emitted by itself, such as at a window's end. Durable.

No spout can emit it again. So it is kept until its tree is acked, and is a message of its own, as a
spout's: it rests after a failure, is emitted again, and is counted. It is known by the sequence
number of its first emit, its number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import Any

from fulmen.checkpoint.rewriting import Journals, Update
from fulmen.engine.state.journals import RESULTS, RESULTS_AGAIN, RESULTS_FAILED
from fulmen.engine.state.messages.failed_messages import FailedMessages
from fulmen.engine.state.messages.pending_messages import PendingMessages
from fulmen.engine.state.pickling import dumps
from fulmen.engine.tuples.chunk import Ranges
from fulmen.errors import PASSED_ON, error_text, repr_of

Result = tuple[str, Any, Any]
"""The stream, the values, and what it needs besides to be emitted again: the key of the task that
it was emitted to directly, the schema of the Arrow batch that it was in, or None."""


class KeptResults:
    """The results of one task.

    Attributes:
        failed: Those that have failed, by number.
    """

    def __init__(self) -> None:
        self.failed = FailedMessages(None, RESULTS_FAILED, inf)
        self._results = PendingMessages()
        self._again = PendingMessages()
        self._new: list[int] = []

    def __len__(self) -> int:
        return self._results.count

    @property
    def pending(self) -> int:
        """The number of results on their way: those that rest are not."""
        return self._results.count - self.failed.resting

    def pending_numbers(self) -> Iterator[int]:
        """The sequence numbers of those that are on their way, or were when they rested last."""
        yield from self._results.numbers()
        yield from self._again.numbers()

    def emitted(self, sequence: int, some: Sequence[Result] | Sequence[int]) -> None:
        """They are pending.

        Args:
            sequence: The sequence number of the first of them.
            some: New ones, or the numbers of those that were emitted again.
        """
        if len(some) and isinstance(some[0], int):
            self._again.add(sequence, some)
        else:
            self._results.add(sequence, some)
            self._new += range(sequence, sequence + len(some))

    def deliver(self, acked: Ranges, failed: Sequence[tuple[int, str]], clock: float) -> None:
        """End trees: results that are acked are forgotten, the others rest.

        Args:
            acked: Ranges of sequence numbers.
            failed: Sequence numbers and reasons.
            clock: Batch clock, in seconds.
        """
        self._results.forget(acked)
        if self._again.count:  # else there is nothing to write of it
            self.acked(self._again.end(acked)[0])
        if not failed:
            return
        reasons = dict(failed)
        ended = dict(self._again.end_singly(sorted(reasons))) if self._again.count else {}
        sequences = {ended.get(sequence, sequence): sequence for sequence in reasons}
        results = list(self._results.find(sorted(sequences)))
        self.acked([number for number, result in results if result is None])
        rest = [(sequences[number], number) for number, result in results if result is not None]
        self.failed.add([(n, number, reasons[n]) for n, number in rest], clock, rests=True)

    def acked(self, numbers: Sequence[int]) -> None:
        """Forget results that were acked, though they had failed before."""
        if not numbers:
            return
        self.failed.acked(numbers)
        self._results.end_singly(sorted(numbers))

    def due(self, clock: float, at_most: int) -> Iterator[tuple[int, Result]]:
        """Results to emit again, as their pause is over, with their numbers."""
        numbers = [number for number, _ in self.failed.take(clock, at_most)]
        results = dict(self._results.find(sorted(numbers)))
        self.failed.acked([number for number in numbers if number not in results])  # taken out
        yield from ((number, results[number]) for number in numbers if number in results)

    def updates(self, number: int) -> dict[str, Update]:
        """The records for commit `number`, by journal; empty if nothing changed."""
        records: dict[str, Update] = {}
        for journal, messages in ((RESULTS, self._results), (RESULTS_AGAIN, self._again)):
            if (update := messages.record(number)) is not None:
                records[journal] = update
        self._new = []
        return records | self.failed.updates(number)

    def let_go_of_unreadable(self) -> Iterator[str]:
        """Keep no more of this batch's results than can be pickled. Says what is wrong with others.

        Their trees are tracked all the same.
        """
        for sequence, result in list(self._results.find(self._new)):
            try:
                dumps(result, {})
            except PASSED_ON:
                raise
            except BaseException as error:  # noqa: BLE001 (an author's object may raise anything)
                self._results.replace(sequence, None)
                yield f"{repr_of(result[1])} ({error_text(error)})"

    @staticmethod
    def restore(journals: Journals) -> KeptResults:
        """Restore a task's from the checkpoint."""
        restored = KeptResults()
        restored._results = PendingMessages.restore(journals.get(RESULTS, ()))
        restored._again = PendingMessages.restore(journals.get(RESULTS_AGAIN, ()))
        restored.failed = FailedMessages.restore(journals, None, RESULTS_FAILED, inf)
        return restored
