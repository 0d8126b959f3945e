"""An acker task: keeps the pending trees of its share of the roots from batch to batch."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from fulmen.checkpoint.rewriting import Journals, RewritePolicy, Update
from fulmen.engine.acking.messages import Messages
from fulmen.engine.acking.trees import Trees, TreesOutcome, step
from fulmen.engine.tuples.chunk import EMPTY_IDS, Ids, ended

TREES: Final = "trees"
"""The journal of an acker's task: the trees that are pending."""


class AckerTask:
    """One task of `__acker`.

    Attributes:
        trees: The trees that are pending.
        executed: Messages applied in this batch, as Storm counts them: one for each root of each
            ack.
    """

    def __init__(self, task: int, journals: Journals) -> None:
        self.task = task
        records = journals.get(TREES, ())
        self.trees = restore(records)
        self.executed: dict[str, int] = {}
        self._policy = RewritePolicy(len(records))
        self._changed: npt.NDArray[np.bool_] | None = None
        self._ended: Ids = EMPTY_IDS

    def run(self, messages: Messages, clock: float, timeout_seconds: float) -> TreesOutcome:
        """Apply the messages of a batch, and find what timed out."""
        done = [one for one in messages.ranges if one.values is None]
        if len(done) < len(messages.ranges):
            messages.inits.append(ended([one for one in messages.ranges if one.values is not None]))
        messages.compact()
        self.executed = {
            "__ack_init": sum(len(roots) for roots, _, _ in messages.inits)
            + sum(one.n for one in done),
            "__ack_ack": sum(
                len(roots) if counts is None else int(counts.sum())
                for roots, _, counts in messages.acks
            )
            + messages.acked_in_ranges,
            "__ack_fail": len(messages.fails),
            "__ack_reset_timeout": len(messages.resets),
        }
        outcome = replace(step(self.trees, messages, clock, timeout_seconds), done=done)
        self.trees, self._changed, self._ended = (
            outcome.trees,
            outcome.changed,
            outcome.ended_before,
        )
        return outcome

    def updates(self, number: int) -> dict[str, Update]:
        """The records for commit `number`; empty if nothing changed."""
        changed = self._changed
        if changed is None or not (changed.any() or len(self._ended)):
            return {}
        self._changed = None
        if self._policy.rewrite(len(self.trees), int(changed.sum()) + len(self._ended)):
            return {TREES: (record(self.trees), number)}
        return {TREES: (record(self.trees.take(changed), self._ended), 0)}


def record(trees: Trees, ended: Ids | None = None) -> bytes:
    """A record of the journal, as `restore` reads it.

    Args:
        trees: All that are pending, or those that a batch has changed.
        ended: In the latter case: the roots that it ended.
    """
    columns = tuple(column.tobytes() for column in trees.columns())
    return pickle.dumps((columns, None if ended is None else ended.tobytes()), 5)


def restore(records: Iterable[bytes]) -> Trees:
    """The pending trees that these records, in their order, tell of."""
    trees = Trees()
    for data in records:
        columns, ended = pickle.loads(data)
        pairs = zip(columns, Trees().columns(), strict=True)
        new = Trees(*(np.frombuffer(column, empty.dtype) for column, empty in pairs))
        if ended is None:
            trees = new
            continue
        gone = np.concatenate([np.frombuffer(ended, np.uint64), new.roots])
        trees = Trees.joined([trees.take(~np.isin(trees.roots, gone)), new])
    return trees
