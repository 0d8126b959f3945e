"""A pinned spout's task in the driver, and the thread that calls it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np

from fulmen.checkpoint.rewriting import Update
from fulmen.engine.hosted.exit_guard import hosting
from fulmen.engine.hosted.spout_turn import SpoutTurn
from fulmen.engine.protocol.callbacks.calls import CALLS
from fulmen.engine.protocol.deliveries import NOTHING_ENDED, Deliveries
from fulmen.engine.protocol.header import Header
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.state.letters.dead_letters import (
    FailureCause,
    LetterKind,
    LostMessage,
    MessageFailure,
)
from fulmen.engine.tasks.parts.message_trees import CRASH_REASON
from fulmen.engine.tasks.spouts.spout_task import SpoutTask


class TaskThread:
    """Runs one call after another. A call that waits for ever does not keep the process alive."""

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        while True:
            future, call = self._calls.get()
            try:
                with hosting():
                    result = call()
                future.set_result(result)
            except BaseException as e:  # noqa: BLE001 (whoever waits for the result gets it)
                CALLS.end()  # it has come back, if not well
                future.set_exception(e)

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        """Have `call` called in the thread."""
        future: Future[Any] = Future()
        self._calls.put((future, call))
        return future


@dataclass
class HostedTask:
    """A pinned task and its thread.

    Attributes:
        origin: Its number in root ids.
        thread: Calls all of its methods.
        task: The task.
        rng: For its thread alone.
        turn: Has begun, and was not part of a batch yet.
        handed: How trees ended, as that turn was told.
        waiting: How trees ended, to be told to the next turn.
        dropping: What is kept of dropped tuples once the attempt at hand is committed.
    """

    origin: int
    thread: TaskThread
    task: SpoutTask
    rng: np.random.Generator
    turn: Future[SpoutTurn] | None = None
    handed: Deliveries = NOTHING_ENDED
    waiting: Deliveries = NOTHING_ENDED
    dropping: KeyedState | None = None

    def committed(self) -> None:
        """Note that the last attempt was committed."""
        if self.dropping is not None:
            self.task.messages.letters.replace_entries(self.dropping)
            self.dropping = None

    def drop(self, turn: SpoutTurn, header: Header) -> Mapping[str, Update]:
        """Keep the message that an attempt drops: what the commit has to write, by journal."""
        letters = self.task.messages.letters
        kept = letters.entries.twin()  # the attempt may come to nothing
        reason = f"{CRASH_REASON}: {header.cause}".rstrip(": ")
        failure = MessageFailure(1, reason, FailureCause("", header.traceback))
        new = [
            letters.letter(LostMessage(stream, values), LetterKind.KILLS_WORKERS, failure)
            for stream, values in turn.next_messages()
        ]
        letters.add(kept, new, header.number)
        self.dropping = kept
        return kept.updates(header.number)

    @property
    def owed(self) -> Deliveries:
        """Deliveries that must stay in the checkpoint, because their state is not there yet."""
        return self.handed.plus(self.waiting)
