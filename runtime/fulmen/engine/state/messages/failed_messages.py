"""Messages of one task that have failed: how often, and when they come again. Durable.

A spout with `backoff` hears of a failure after a pause, and each pause of a message is twice as
long as the one before. So a message that always fails costs next to nothing, and one that failed by
chance comes again at once. Time is the batch clock.

A message rests until its spout is told. From then on it is tried, until it fails again or is acked.
What is durable is a log of changes, as of pending messages: one pickle for each batch, however many
messages fail in it.
"""

from __future__ import annotations

import heapq
import pickle
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from fulmen.checkpoint.rewriting import Journals, RewritePolicy, Update
from fulmen.engine.state.journals import FAILED
from fulmen.engine.state.messages.message_ids import MessageIds
from fulmen.engine.state.pickling import IDS, dumps, made_of
from fulmen.engine.state.values.renamed_classes import loads
from fulmen.errors import IGNORED, PASSED_ON

FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 30.0
MOST_RESTING = 100_000
"""With so many, a task is asked for nothing new: they are in memory, and in the checkpoint."""
LEAST_SHARE, MOST_SHARE = 0.01, 0.5
"""While a spout has new messages, how much of what it emits may be messages that have failed."""
_REMEMBERED, _REASONS = 50, 1000
_LOOKED_AT = 64
"""Messages of which it is asked at once whether any of them has failed before."""
MOST_TRIED = 100_000
"""So many are counted; of those that are never emitted again, the oldest are forgotten."""
Change = Any
"""(sequence, due, id, reason, failures) of one that failed; the sequence of one that the spout was
told of; or (id,) of one that was acked."""
Record = tuple[Sequence[Change], Sequence[tuple[Any, tuple[int, str]]] | None]
"""The changes, and None; or all that rest, and all that are tried."""
_NEVER = 0, ""


_PAUSES = [min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0**n) for n in range(20)]


def pause_seconds(failures: int) -> float:
    """How long a message rests that has failed so many times, at least once."""
    return _PAUSES[failures - 1] if failures <= len(_PAUSES) else LONGEST_PAUSE_SECONDS


class FailedMessages:
    """Failed messages of a task, by sequence number: an author's id may have any `==`.

    Attributes:
        ids: Message ids that are equal to themselves alone.
        tried: Message id -> how many times it has failed, and why the last time.
    """

    def __init__(
        self,
        ids: MessageIds | None = None,
        journal: str = FAILED,
        most_tried: float = MOST_TRIED,
    ) -> None:
        """Begin with none.

        Args:
            ids: See the attribute.
            journal: What they are written to.
            most_tried: So many are counted; then the oldest are forgotten.
        """
        self.ids = MessageIds() if ids is None else ids
        self._journal, self._most_tried = journal, most_tried
        self.tried: dict[Any, tuple[int, str]] = {}
        self._resting: dict[int, Change] = {}  # as they were noted: there are many
        self._queue: list[tuple[float, int]] = []
        self._failures: Counter[int] = Counter()
        self._reason = ""
        self._hope = 0.0  # the part of the last messages tried again that were acked
        self._reasons: dict[str, str] = {}  # one object for equal ones: a pickle has it once
        self._changes: list[Change] = []
        self._policy = RewritePolicy()

    @property
    def resting(self) -> int:
        """The number of messages that rest."""
        return len(self._resting)

    @property
    def share(self) -> float:
        """How much of what a busy spout emits may be messages that have failed.

        If they fail again as a rule, little: new messages go first. If they are acked as a rule,
        such as after an outage, much.
        """
        return max(LEAST_SHARE, MOST_SHARE * self._hope)

    def add(self, messages: Iterable[tuple[int, Any, str]], clock: float, *, rests: bool) -> None:
        """Add failed messages.

        Args:
            messages: The sequence of each one's emit, its id, and why.
            clock: When.
            rests: Whether their spout is to hear of them after a pause.
        """
        if len(self._reasons) >= _REASONS:
            self._reasons.clear()
        one_of = self._reasons.setdefault
        due = clock + FIRST_PAUSE_SECONDS if rests else 0.0
        # no loop with calls: there may be many
        changes = [(n, due, msg_id, one_of(why, why), 1) for n, msg_id, why in messages]
        for i in self.among([msg_id for _, _, msg_id, _, _ in changes]):
            sequence, _, msg_id, reason, _ = changes[i]
            try:
                failures = self.tried.pop(msg_id, _NEVER)[0] + 1
            except PASSED_ON:
                raise
            except BaseException:  # noqa: BLE001 (an author's ==)
                continue  # such failures are not counted
            if failures > 1:
                self._hope -= self._hope / _REMEMBERED
                pause = clock + pause_seconds(failures) if rests else 0.0
                changes[i] = sequence, pause, msg_id, reason, failures
        if not changes:
            return
        self._failures.update([change[4] for change in changes])
        self._reason = changes[-1][3]
        self._changes += changes
        self._resting.update([(change[0], change) for change in changes])
        queue, push = self._queue, heapq.heappush
        for change in changes:
            push(queue, (change[1], change[0]))

    def _rest(self, change: Change) -> None:
        sequence, _, _, reason, failures = change
        self._resting[sequence] = change
        self._failures[failures] += 1
        self._reason = reason

    def take(self, clock: float, at_most: int) -> Iterator[tuple[Any, str]]:
        """Message ids and reasons of those whose pause is over, the longest over first."""
        while at_most > 0 and self._queue and self._queue[0][0] <= clock:
            _, sequence = heapq.heappop(self._queue)
            self._changes.append(sequence)
            at_most -= 1
            yield self._told(sequence)

    def acked(self, msg_ids: Sequence[Any]) -> None:
        """Forget messages that were acked."""
        for i in self.among(msg_ids):
            self._hope += (1 - self._hope) / _REMEMBERED
            with IGNORED:  # an author's ==
                change = (msg_ids[i],)
                self._changes.append(change)
                self._apply(change)

    def among(self, msg_ids: Sequence[Any]) -> list[int]:
        """The places of those that have failed before."""
        tried = self.tried
        if not tried:
            return []
        places: list[int] = []
        try:
            are_new = tried.keys().isdisjoint  # much quicker than to look at each
            for first in range(0, len(msg_ids), _LOOKED_AT):
                some = msg_ids[first : first + _LOOKED_AT]
                if not are_new(some):
                    places += [i for i, msg_id in enumerate(some, first) if msg_id in tried]
            return places
        except PASSED_ON:
            raise
        except BaseException:  # noqa: BLE001 (an author's ==, of one of them)
            return [i for i, msg_id in enumerate(msg_ids) if _is_in(msg_id, tried)]

    def msg_ids(self) -> Iterator[Any]:
        """The ids of all that are remembered."""
        yield from (change[2] for change in self._resting.values())
        yield from self.tried

    def described(self) -> tuple[int, float, int, str]:
        """How many rest, when the first is due, the most failures of one, the last reason."""
        return len(self._resting), self._queue[0][0], max(self._failures), self._reason

    def _told(self, sequence: int) -> tuple[Any, str]:
        """Move a message to those that are tried. Gives its id, and why it has failed."""
        _, _, msg_id, reason, failures = self._resting.pop(sequence)
        left = self._failures[failures] = self._failures[failures] - 1
        if not left:
            del self._failures[failures]
        try:
            self.tried[msg_id] = failures, reason
        except PASSED_ON:
            raise
        except BaseException:  # noqa: BLE001 (an author's ==)
            return msg_id, reason
        if len(self.tried) > self._most_tried:
            del self.tried[next(iter(self.tried))]
        return msg_id, reason

    def _apply(self, change: Change) -> None:
        if isinstance(change, int):
            self._told(change)
        elif len(change) == 1:
            self.tried.pop(change[0], None)
        else:
            with IGNORED:  # an author's ==
                self.tried.pop(change[2], None)
            self._rest(change)

    @staticmethod
    def ids_in(record: Record) -> dict[int, Any]:
        """The message ids in a record, by numbers of its own."""
        changes, tried = record
        ids = {n: _id_in(change) for n, change in enumerate(changes) if type(change) is tuple}
        return ids | {n: msg_id for n, (msg_id, _) in enumerate(tried or (), len(changes))}

    def replay(self, record: Record, kept: Container[int] | None = None) -> None:
        """Apply a record: what has changed, or all that rest and all that are tried.

        Args:
            record: The record.
            kept: Those of `ids_in` that stay; None: all.
        """
        changes, tried = record
        if tried is not None:
            some = enumerate(tried, len(changes))
            self.tried = dict(one for n, one in some if kept is None or n in kept)
            self._resting, self._failures = {}, Counter()
        for n, change in enumerate(changes):
            if type(change) is int and kept is not None:
                is_left = change in self._resting  # the spout is told of no other
            else:
                is_left = kept is None or n in kept
            if is_left and tried is None:
                self._apply(change)
            elif is_left:  # one that rests may have been told of before
                self._rest(change)

    def updates(self, number: int) -> dict[str, Update]:
        """The records for commit `number`, by journal; empty if nothing changed."""
        if not self._changes:
            return {}
        alive = len(self._resting) + len(self.tried)
        if self._policy.rewrite(alive, len(self._changes)):
            update = self._pickled(self.everything()), number
        else:
            update = self._pickled((self._changes, None)), 0
        self._changes = []
        return {self._journal: update}

    def everything(self) -> Record:
        """All that rest and all that are tried, as one record."""
        return list(self._resting.values()), list(self.tried.items())

    def _pickled(self, value: Any) -> bytes:
        return dumps(value, {}, {IDS: self.ids}) if self.ids else pickle.dumps(value, 5)

    @staticmethod
    def restore(
        journals: Journals,
        ids: MessageIds | None = None,
        journal: str = FAILED,
        most_tried: float = MOST_TRIED,
    ) -> FailedMessages:
        """Restore a task's from the checkpoint. Arguments as for a new one."""
        restored = FailedMessages(ids, journal, most_tried)
        records = journals.get(journal, ())
        for data in records:
            with made_of({IDS: restored.ids}):
                restored.replay(loads(data))
        restored._queue = [(due, n) for n, due, *_ in restored._resting.values()]
        heapq.heapify(restored._queue)
        restored._policy = RewritePolicy(len(records))
        return restored


def _id_in(change: Change) -> Any:
    """The message id of a message that failed, or was acked."""
    return change[0] if len(change) == 1 else change[2]


def _is_in(msg_id: Any, tried: Mapping[Any, Any]) -> bool:
    with IGNORED:
        return msg_id in tried
    return False
