"""The dead letters of a task: kept, and sent again when somebody asks for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from typing_extensions import override

from fulmen.checkpoint.rewriting import Journals
from fulmen.engine.protocol.deliveries import Deliveries
from fulmen.engine.protocol.figures.statistics import LETTERS_KEPT
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.letter_orders import LetterKey
from fulmen.engine.protocol.summary import Summary
from fulmen.engine.state import journals as journals_of
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.state.letters import dead_letters, letter_entries
from fulmen.engine.state.letters.dead_letters import (
    UNKNOWN,
    DeadLetter,
    FailureCause,
    LetterKind,
    LetterState,
    LostMessage,
    MessageFailure,
)
from fulmen.engine.state.letters.letter_entries import LetterRoom
from fulmen.engine.tasks.task import Task
from fulmen.engine.tasks.task_part import Journaled
from fulmen.errors import PASSED_ON, error_text

VALUES_SHARE = 10
"""The values of one letter have at most such a part of the bytes that there are for all."""
MOVED = "it was on its way when its component got another number of tasks, or came back"
ACKERS_OFF = "acking was turned off while it was on its way"


class WantedLetter(NamedTuple):
    """A letter that is to be sent again.

    Attributes:
        key: Which it is.
        letter: What is kept of it.
        values: Its values.
        msg_id: Its message id; None: it was not tracked.
    """

    key: LetterKey
    letter: DeadLetter
    values: list[Any]
    msg_id: Any


class DeadLetters(Journaled):
    """The dead letters of one task.

    Attributes:
        entries: As they are in the checkpoint.
    """

    def __init__(self, task: Task, journals: Journals) -> None:
        self.entries = KeyedState.restore(journals, name=journals_of.LETTERS)
        super().__init__(task.guarded, "dead letters", lambda n: self.entries.updates(n))
        self._task = task
        self._header: Header | None = None
        self._taken: dict[int, tuple[LetterKey, ...]] = {}
        rules = task.placed.topology.spec.dead_letters
        tasks = len(task.placed.plan.tasks(task.component))
        self.room = LetterRoom(max(1, rules.keep // tasks), max(1, rules.max_bytes // tasks))
        self._wanted: deque[LetterKey] = deque()
        self._sent: dict[int, LetterKey] = {}
        self._returnable: dict[tuple[str, Any], LetterKey] | None = None
        self._origin = task.placed.origins.get(task.placed.plan.key_of(task.task), -1)
        for one, letter in letter_entries.letters_in(self.entries):
            if letter.state is LetterState.WANTED:
                self._wanted.append(one.key)
            elif letter.state is LetterState.KEPT:
                continue
            elif letter.origin == self._origin:
                self._sent[letter.sequence] = one.key
            else:  # another task hears how its tree ends
                self.keep_again(one.key, MOVED)
        if not task.placed.acking:  # nobody will tell how their trees end
            for number in [*self._sent]:
                self._back(number, ACKERS_OFF)

    def begin_batch(self, header: Header) -> None:
        """Begin a batch: take what people want done."""
        self._header, self._taken = header, {}
        if header.looks_ahead:  # what it changes is not kept
            return
        own = self._task.placed.plan.key_of(self._task.task)
        for order in header.letters:
            if own in order.messages:
                letters = map(DeadLetter.of, order.messages[own])
                task, number = self._task.task, header.number
                done = letter_entries.send(self.entries, letters, number, task, order.by)
                self._wanted += [one.key for one in done]
            elif (keys := order.letters.get(own)) is None:
                continue
            elif order.drops:
                done = letter_entries.drop(self.entries, keys)
                self._forget({one.key for one in done})
            else:
                done = letter_entries.want(self.entries, keys, order.by)
                self._wanted += [one.key for one in done]
            self._taken[order.number] = tuple(one.key for one in done)
            self._returnable = None

    def _forget(self, gone: Collection[LetterKey]) -> None:
        self._wanted = deque(key for key in self._wanted if key not in gone)
        self._sent = {number: key for number, key in self._sent.items() if key not in gone}

    @property
    @override
    def wants_batch(self) -> bool:
        return bool(self._wanted) and self._may_send

    @property
    def _may_send(self) -> bool:
        return self._header is not None and self._header.active and not self._header.looks_ahead

    @override
    def tell(self, summary: Summary) -> None:
        task = self._task.task
        summary.levels[LETTERS_KEPT, task] = letter_entries.count_of(self.entries)
        for number, keys in self._taken.items():
            summary.letters[number, self._task.placed.plan.key_of(task)] = keys

    # New ones

    def keep(
        self,
        kind: LetterKind,
        messages: Sequence[LostMessage],
        failures: Sequence[tuple[int, str]],
        cause: FailureCause | None = None,
    ) -> list[DeadLetter]:
        """Keep messages.

        Args:
            kind: Why they are letters.
            messages: The messages.
            failures: How often each has failed, and why the last time.
            cause: Where; None: as it was told with that reason.

        Returns:
            The letters, of the last ones: of so many as there is room for at most.
        """
        first = max(0, len(messages) - self.room.most)
        letters = []
        for lost, (number, reason) in zip(messages[first:], failures[first:], strict=True):
            where = letter_entries.cause_of(self.entries, reason) if cause is None else cause
            letters.append(self.letter(lost, kind, MessageFailure(number, reason, where)))
        self.add(self.entries, letters, self._task.context.batch.number, left_out=first)
        return letters

    def letter(self, lost: LostMessage, kind: LetterKind, failure: MessageFailure) -> DeadLetter:
        """A letter that is not kept yet."""
        most_bytes = self.room.most_bytes // VALUES_SHARE
        return dead_letters.letter_of(lost, kind, failure, self._task.now(), most_bytes)

    def add(
        self, entries: KeyedState, letters: Sequence[DeadLetter], batch: int, left_out: int = 0
    ) -> None:
        """Add letters of a batch to those of the task, or to what is to take their place."""
        letter_entries.add_all(entries, letters, batch, self._task.task, self.room, left_out)
        self._returnable = None

    def replace_entries(self, entries: KeyedState) -> None:
        """Take over what `add` was given in place of the letters of the task."""
        self.entries, self._returnable = entries, None

    # Sent again

    def wanted(self, at_most: int) -> Iterator[WantedLetter]:
        """Yield letters to send now. One that can't be read is kept, with the reason."""
        while self._wanted and at_most > 0 and self._may_send:
            key = self._wanted.popleft()
            letter = DeadLetter.of(self.entries[key])
            try:
                values, msg_id = dead_letters.contents(letter.data or b"")
            except PASSED_ON:
                raise
            except BaseException as error:  # noqa: BLE001 (an author's class)
                self.keep_again(key, f"its values can't be read ({error_text(error)})")
                continue
            at_most -= 1
            yield WantedLetter(key, letter, values, msg_id)

    def sent(self, key: LetterKey, sequence: int | None) -> None:
        """Note that a letter is on its way, with a tree of that number; None: without one."""
        letter = DeadLetter.of(self.entries[key])
        if sequence is None:
            del self.entries[key]
            return
        self._sent[sequence] = key
        way = replace(
            letter,
            state=LetterState.ON_ITS_WAY,
            sequence=sequence,
            origin=self._origin,
            replays=letter.replays + 1,
        )
        self.entries[key] = way.entry()

    def emitted(self, stream: str, ids: Sequence[Any], first: int) -> None:
        """Note messages that begin trees with consecutive numbers: letters may be among them.

        A source may emit a message again that has killed its worker. If the tree is acked then, its
        letter is gone; until it ends, the letter is not sent by request.
        """
        if self._returnable is None:
            self._returnable = letter_entries.returnable(self.entries)
        if not self._returnable:
            return
        for number, msg_id in enumerate(ids, first):
            key = self._returnable.pop((stream, msg_id), None)
            if key is not None:
                letter_entries.returned(self.entries, key, number, self._origin)
                self._sent[number] = key

    def keep_again(self, key: LetterKey, reason: str, cause: FailureCause = UNKNOWN) -> None:
        """Keep a letter that failed again, or that can't be sent."""
        letter = DeadLetter.of(self.entries[key])
        kept = dead_letters.again(letter, reason, cause, self._task.now())
        self.entries[key] = kept.entry()
        letter_entries.make_room(self.entries, self.room)
        self._returnable = None

    def _back(self, sequence: int, reason: str, cause: FailureCause = UNKNOWN) -> None:
        self.keep_again(self._sent.pop(sequence), reason, cause)

    def acked(self, ranges: Any) -> None:
        """Letters whose trees were acked are gone.

        Args:
            ranges: Of the numbers of trees.
        """
        if self._sent:
            for first, end in ranges.tolist():
                for number in [number for number in self._sent if first <= number < end]:
                    del self.entries[self._sent.pop(number)]

    def ended(self, deliveries: Deliveries) -> Deliveries:
        """Take in how trees of letters have ended. Gives how those of other messages have."""
        if self._task.placed.topology.spec.max_replays is not None and deliveries.causes:
            causes = {why: FailureCause(*one) for why, one in deliveries.causes.items()}
            letter_entries.note_causes(self.entries, causes)
        if not self._sent:
            return deliveries
        self.acked(deliveries.acked)
        rest = []
        for number, reason in deliveries.failed:
            key = self._sent.get(number)
            if key is None or DeadLetter.of(self.entries[key]).state is LetterState.RETURNED:
                rest.append((number, reason))
            if key is not None:
                self._back(number, reason, FailureCause(*deliveries.causes.get(reason, ())))
        return replace(deliveries, failed=tuple(rest))
