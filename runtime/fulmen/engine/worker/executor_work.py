"""Executors: their tasks run over chunks, and one thread sends what they emit."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from fulmen.engine.emitting.outbox import Outbox
from fulmen.engine.protocol.callbacks.processes import run_delay_seconds, waited_for
from fulmen.engine.tasks.bolts.bolt_task import BoltTask
from fulmen.engine.tuples.chunk import Chunk

Work = list[tuple[BoltTask, Chunk]]
"""Chunks that an executor's tasks have to execute."""


def run_work(work: Work, outbox: Outbox) -> None:
    """Do it here."""
    for task, chunk in work:
        task.run(chunk)
        task.send(chunk, outbox)
    _send_waiting(work, outbox)


def _send_waiting(work: Work, outbox: Outbox) -> None:
    for task in dict.fromkeys(task for task, _ in work):
        task.send_waiting(outbox)


def _run(one: tuple[BoltTask, Chunk]) -> float:
    """Have a task run. Returns for how many seconds of that there was no processor."""
    task, chunk = one
    before = run_delay_seconds()
    task.run(chunk)
    return run_delay_seconds() - before


class ExecutorThreads:
    """Threads for executors of bolts that wait for something outside."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None  # made when it is needed
        self._count = 0

    def run(self, queues: Sequence[Work], outbox: Outbox) -> None:
        """Have executors wait side by side, with a chunk each."""
        if self._pool is None or self._count < len(queues):
            self._count = len(queues)
            self._pool = ThreadPoolExecutor(self._count, "fulmen-executor")
        work = [one for queue in queues for one in queue]
        while any(queues):
            turn = [queue.pop(0) for queue in queues if queue]
            waited_for(max(self._pool.map(_run, turn)))
            for task, chunk in turn:
                task.send(chunk, outbox)
        _send_waiting(work, outbox)
