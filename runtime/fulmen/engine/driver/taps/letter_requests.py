"""Requests about dead letters of a running topology: sent again, removed, or messages of files.

A request is in the header of each batch until all of its tasks have taken it in a batch that
counts. Each of them takes it once: what comes to nothing is forgotten with the batch. The commit of
the batch has what was taken in the log of changes, too.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fulmen.checkpoint import Manifest, Store, read_newest
from fulmen.engine.driver.edits.changes import Author, StateChange
from fulmen.engine.driver.edits.letters import Senders, change_of, senders, senders_of, shares
from fulmen.engine.protocol.letter_orders import LetterKey, LetterOrder
from fulmen.engine.protocol.summary import Summary
from fulmen.engine.state.letters.dead_letters import LetterId
from fulmen.engine.state.letters.kept_letters import KeptLetters, read_letters
from fulmen.engine.state.letters.message_lines import MessagePart
from fulmen.errors import FulmenError
from fulmen.plan import task_key, task_of_key

MOST_REQUESTS = 32
ENDED = "the topology has ended"


class LettersRefused(FulmenError):
    """Nothing can be done with dead letters now."""


class TakenLetters(NamedTuple):
    """What has become of a request.

    Attributes:
        taken: How many letters or messages tasks have taken.
        is_all: Whether all tasks have: else the rest follows.
        sent_in: The commit that has sent these messages before; 0: they are sent now.
    """

    taken: int
    is_all: bool
    sent_in: int = 0


@dataclass
class _Open:
    """A request that is under way.

    Attributes:
        action: What is to be done: "replay", "drop" or "send".
        author: Who wants it.
        letters: The key of each task that has not taken it -> its letters.
        messages: The same of messages that are no letters yet.
        part: The part of a file that these are.
        taken: How many letters other tasks have.
        lost: How many messages can't be sent, as their component is gone.
    """

    action: str
    author: Author
    letters: dict[str, Sequence[LetterKey]] = field(default_factory=dict)
    messages: dict[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    part: str = ""
    taken: int = 0
    lost: int = 0

    @property
    def waiting(self) -> Collection[str]:
        """The keys of the tasks that have not taken it."""
        return self.letters.keys() | self.messages.keys()

    def order(self, number: int) -> LetterOrder:
        """What tasks are asked for."""
        drops = self.action == "drop"
        return LetterOrder(number, self.author.told, drops, {**self.letters}, {**self.messages})

    def took(self, key: str, count: int) -> None:
        """A task has taken it."""
        self.letters.pop(key, None)
        self.messages.pop(key, None)
        self.taken += count

    def follow(self, tasks: Collection[str]) -> None:
        """Have the messages of tasks that are gone sent by the first one of their component."""
        for key in [key for key in self.waiting if key not in tasks]:
            self.letters.pop(key, None)
            messages = self.messages.pop(key, ())
            first = task_key(task_of_key(key)[0], 0)
            if first in tasks:
                self.messages[first] = [*self.messages.get(first, ()), *messages]
            else:
                self.lost += len(messages)


class LetterRequests:
    """The requests to one driver, whether its topology runs already or not."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._numbers = itertools.count(1)
        self._open: dict[int, _Open] = {}
        self._store: Store | None = None

    # Those who ask

    def read(self) -> KeptLetters:
        """The letters, as the last commit left them.

        Raises:
            LettersRefused: The topology does not run.
            CheckpointError: They can't be read.
        """
        return read_letters(self._running())

    def senders(self) -> Senders:
        """From where messages can be sent. Raises what `read` does."""
        return senders(self._running())

    def ask(
        self, ids: Collection[str], author: Author, wait_seconds: float, *, drops: bool = False
    ) -> TakenLetters:
        """Have letters sent again, or removed, and wait until that is committed.

        Args:
            ids: Those of the letters.
            author: Who wants it, and why.
            wait_seconds: For how long.
            drops: Whether they are to be removed.

        Raises:
            LettersRefused: The topology does not run, or there are too many requests.
        """
        letters: dict[str, list[LetterKey]] = {}
        for kept in self.read().letters:
            if str(kept.id) in ids:
                letters.setdefault(task_key(kept.component, kept.task), []).append(kept.id.key)
        if not letters:
            return TakenLetters(0, is_all=True)
        asked = _Open("drop" if drops else "replay", author, {**letters})
        with self._changed:
            return self._wait(asked, wait_seconds)

    def send(self, part: MessagePart, author: Author, wait_seconds: float) -> TakenLetters:
        """Have messages sent, unless they were sent before, and wait until that is committed.

        Args:
            part: The messages, each of which is sent from one of `senders`.
            author: Who wants it, and why.
            wait_seconds: For how long.

        Raises:
            LettersRefused: As for `ask`; or a component is gone meanwhile.
        """
        with self._changed:
            known = senders_of(read_newest(self._running()))
            if part.id in known.sent:
                return TakenLetters(0, is_all=True, sent_in=known.sent[part.id])
            for number, one in self._open.items():
                if one.part == part.id:  # whoever asked has not waited for the answer
                    return self._wait_for(number, one, wait_seconds)
            dealt = shares(part.messages, known.tasks)
            entries = {key: [one.entry() for one in letters] for key, letters in dealt.items()}
            asked = _Open("send", author, messages={**entries}, part=part.id)
            return self._wait(asked, wait_seconds)

    def _wait(self, asked: _Open, wait_seconds: float) -> TakenLetters:
        self._running()
        if len(self._open) >= MOST_REQUESTS:
            raise LettersRefused(f"{MOST_REQUESTS} requests are under way. Try again later.")
        number = next(self._numbers)
        self._open[number] = asked
        return self._wait_for(number, asked, wait_seconds)

    def _wait_for(self, number: int, one: _Open, wait_seconds: float) -> TakenLetters:
        until = time.monotonic() + wait_seconds
        while one.waiting and number in self._open:
            if not self._changed.wait(max(0.0, until - time.monotonic())):
                break
        if one.waiting and number not in self._open:
            raise LettersRefused(f"{ENDED}, and {one.taken} letters were taken.")
        if one.lost:
            raise LettersRefused(
                f"{one.lost} messages were not sent, as their component is not in the topology any"
                f" more; {one.taken} were."
            )
        return TakenLetters(one.taken, not one.waiting)

    def _running(self) -> Store:
        if self._store is None:
            raise LettersRefused("the topology has not started yet, or has ended.")
        return self._store

    # The driver's thread

    def begin(self, store: Store) -> None:
        """The topology runs."""
        self._store = store

    def orders(self) -> tuple[LetterOrder, ...]:
        """What the next batch is to do."""
        if not self._open:
            return ()
        with self._changed:
            return tuple(one.order(number) for number, one in self._open.items())

    def changes(
        self, manifest: Manifest, summaries: Sequence[Summary], at: str
    ) -> Sequence[StateChange]:
        """What the log of changes is to say of a batch that counts.

        Args:
            manifest: Of the commit before.
            summaries: Of all parts of the batch.
            at: Now.
        """
        taken: dict[int, dict[str, list[LetterKey]]] = {}
        for summary in summaries:
            for (number, key), letters in summary.letters.items():
                if letters:
                    taken.setdefault(number, {}).setdefault(key, []).extend(letters)
        with self._changed:
            return [
                self._change(self._open[number], of_tasks, at, manifest.number + 1)
                for number, of_tasks in taken.items()
                if number in self._open
            ]

    def _change(
        self, one: _Open, taken: Mapping[str, Sequence[LetterKey]], at: str, number: int
    ) -> StateChange:
        components = {task_of_key(key)[0] for key in taken}
        ids = [str(LetterId(*key)) for keys in taken.values() for key in keys]
        sent = [one.part] if one.part else []
        author = Author(one.author.name, one.author.because, at=at)
        return change_of(one.action, components, ids, sent).by(author, number)

    def committed(self, summaries: Sequence[Summary], tasks: Collection[str]) -> None:
        """A batch has counted.

        Args:
            summaries: Of all its parts.
            tasks: The keys of all tasks that there are: no other will ever take anything.
        """
        if not self._open:
            return
        with self._changed:
            for summary in summaries:
                for (number, key), letters in summary.letters.items():
                    if (one := self._open.get(number)) is not None and key in one.waiting:
                        one.took(key, len(letters))
            for number, one in [*self._open.items()]:
                one.follow(tasks)
                if not one.waiting:
                    del self._open[number]
            self._changed.notify_all()

    def end(self) -> None:
        """The topology has ended."""
        with self._changed:
            self._store = None
            self._open = {}
            self._changed.notify_all()
