"""The dead letters of one task as entries of its state: added, asked for, dropped. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.state.letters.dead_letters import (
    DeadLetter,
    FailureCause,
    LetterId,
    LetterKind,
    LetterState,
)

MOST_CAUSES: Final = 20
"""Tracebacks of failures that are remembered until their messages are given up."""
COUNTS: Final = ()
"""The key under which it is counted how many letters were forgotten."""
CAUSES: Final = "causes"
"""The key under which it is kept where messages failed that are not given up yet."""


class LetterRoom(NamedTuple):
    """How much is kept of the letters of one task.

    Attributes:
        most: Letters.
        most_bytes: Bytes of all of them together.
    """

    most: int
    most_bytes: int


def letters_in(entries: Mapping[Any, Any]) -> Iterator[tuple[LetterId, DeadLetter]]:
    """Yield the letters of a task, the oldest first."""
    ids = sorted(key for key in entries if type(key) is tuple and key != COUNTS)
    yield from ((LetterId(*key), DeadLetter.of(entries[key])) for key in ids)


def forgotten_in(entries: Mapping[Any, Any]) -> int:
    """How many letters of a task were kept once, and had to make room for newer ones."""
    count: int = entries.get(COUNTS, 0)
    return count


def add_all(
    entries: KeyedState,
    letters: Sequence[DeadLetter],
    batch: int,
    task: int,
    room: LetterRoom,
    left_out: int = 0,
) -> None:
    """Keep letters: as new ones, or in place of what the same messages were before.

    Args:
        entries: The letters of the task so far.
        letters: The letters, the oldest first.
        batch: The batch at hand.
        task: The task.
        room: For how much there is room.
        left_out: How many there were besides, for which there is no room.
    """
    kept = {
        _message(letter): (one, letter)
        for one, letter in letters_in(entries)
        if letter.state is LetterState.KEPT and letter.msg_id is not None
    }
    place = _last_place(entries, batch, task)
    for letter in letters:
        one, before = kept.get(_message(letter), (None, letter))
        if one is None:
            place += 1
            one = LetterId(batch, task, place)
        entries[one.key] = replace(letter, replays=before.replays).entry()
    if left_out:
        entries[COUNTS] = forgotten_in(entries) + left_out
    make_room(entries, room)


def _last_place(entries: KeyedState, batch: int, task: int) -> int:
    return max((key[2] for key in entries if key[:2] == (batch, task)), default=-1)


def _message(letter: DeadLetter) -> str:
    """What letters of one message have in common."""
    return repr((letter.stream, letter.msg_id, letter.shown))


def make_room(entries: KeyedState, room: LetterRoom) -> None:
    """Forget the oldest letters, if there are too many. What is to be sent again stays."""
    letters = list(letters_in(entries))
    size = sum(letter.bytes for _, letter in letters)
    count, forgotten = len(letters), 0
    for one, letter in letters[:-1]:
        if count <= room.most and size <= room.most_bytes:
            break
        if letter.state is LetterState.KEPT:
            del entries[one.key]
            size -= letter.bytes
            count -= 1
            forgotten += 1
    if forgotten:
        entries[COUNTS] = forgotten_in(entries) + forgotten


def want(entries: KeyedState, wanted: Iterable[Sequence[int]], by: str) -> list[LetterId]:
    """Have letters sent again. Gives those that will be: not what is gone, or can't be."""
    found = []
    for key in map(tuple, wanted):
        if key in entries:
            letter = DeadLetter.of(entries[key])
            if letter.state is LetterState.KEPT and letter.data is not None:
                entries[key] = replace(letter, state=LetterState.WANTED, by=by).entry()
                found.append(LetterId(*key))
    return found


def send(
    entries: KeyedState, letters: Iterable[DeadLetter], batch: int, task: int, by: str
) -> list[LetterId]:
    """Have messages sent that are no letters yet. Gives what they are now."""
    first = _last_place(entries, batch, task) + 1
    ids = []
    for place, letter in enumerate(letters, first):
        one = LetterId(batch, task, place)
        entries[one.key] = replace(letter, state=LetterState.WANTED, by=by).entry()
        ids.append(one)
    return ids


def returned(entries: KeyedState, key: tuple[int, int, int], sequence: int, origin: int) -> None:
    """Note that the source of a letter has emitted its message again, with a tree."""
    letter = DeadLetter.of(entries[key])
    way = replace(letter, state=LetterState.RETURNED, sequence=sequence, origin=origin)
    entries[key] = way.entry()


def returnable(entries: Mapping[Any, Any]) -> dict[tuple[str, Any], tuple[int, int, int]]:
    """The letters whose messages their source may emit again: by stream and message id.

    A message that kills workers has failed at its source. Of one that was given up, the source has
    heard that it was acked. An id that is shown as another text than it has is never found.
    """
    return {
        (letter.stream, letter.msg_id): one.key
        for one, letter in letters_in(entries)
        if letter.kind is LetterKind.KILLS_WORKERS
        and letter.state is LetterState.KEPT
        and letter.msg_id is not None
    }


def drop(entries: KeyedState, dropped: Iterable[Sequence[int]]) -> list[LetterId]:
    """Remove letters. Gives those that are gone now: not what is on its way."""
    found = []
    for key in map(tuple, dropped):
        if key in entries and DeadLetter.of(entries[key]).state is not LetterState.ON_ITS_WAY:
            del entries[key]
            found.append(LetterId(*key))
    return found


def note_causes(entries: KeyedState, causes: Mapping[str, FailureCause]) -> None:
    """Remember where messages failed, by the reason, until they are given up."""
    known: dict[str, tuple[str, str]] = entries.get(CAUSES, {})
    new = known | {reason: tuple(cause) for reason, cause in causes.items()}
    if new != known:
        entries[CAUSES] = dict(list(new.items())[-MOST_CAUSES:])


def cause_of(entries: Mapping[Any, Any], reason: str) -> FailureCause:
    """Where a message failed for that reason."""
    return FailureCause(*entries.get(CAUSES, {}).get(reason, ()))


def count_of(entries: Mapping[Any, Any]) -> int:
    """How many letters a task has."""
    return len(entries) - (COUNTS in entries) - (CAUSES in entries)
