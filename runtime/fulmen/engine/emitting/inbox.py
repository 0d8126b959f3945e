"""Tuples that wait for the tasks of one stage in one worker."""

from __future__ import annotations

from collections import defaultdict

from fulmen.engine.tuples.chunk import Chunk, merge


class Inbox:
    """Chunks that came from other stages and workers, or from tasks beside those they are for.

    Attributes:
        waiting: How many tuples have come since tasks were run last.
    """

    def __init__(self) -> None:
        self.waiting = 0
        self._chunks: dict[int, list[Chunk]] = defaultdict(list)

    def receive(self, task: int, chunk: Chunk) -> None:
        """Keep a chunk until its task is run."""
        self._chunks[task].append(chunk)
        self.waiting += len(chunk)

    def take(self, task: int) -> list[Chunk]:
        """All that waits for a task."""
        return merge(self._chunks.pop(task, []))
