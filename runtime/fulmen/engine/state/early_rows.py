"""The rows that a sink's task was given before their time, at the end of a run that looked ahead.

They say what windows and timers would emit if nothing more came. Bolts are then as they were before
it, and know nothing of these rows. So a sink's task knows them, and of what comes later. Those of a
sink with keys are in `early_table`. Of others:

- The next end of a run gives the sink only what it does not have yet.
- A row that may be taken back, as it has the field `is_retraction`, is taken back before anything
  else comes, or when the next end does not have it any more.
- Where each row is one more, a row that comes in time and is there already is not written again.
- Elsewhere it is written again, as another row may have taken its place meanwhile. Then the next
  end gives the sink all that it has.

Each is kept with the position that its grouping gives it, by which it moves to another task.
"""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fulmen.api.times.event_time import RETRACTION
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.tuples.chunk import Chunk
from fulmen.engine.tuples.tuple_rows import TupleRows
from fulmen.errors import PASSED_ON

Row = tuple[str, str, tuple[str, ...], list[Any]]
"""Component, stream, fields and values of a row that may be taken back."""
Entry = tuple[int, tuple[str, str], Row | None]
"""How many times a row was given, of which stream, and the row, if it may be taken back."""
Place = int | None
"""The position of a row, by the fields that its input is grouped by; None: by none."""
Key = tuple[bytes, Place]
"""What a row is known by, and its place."""
Places = Callable[[Chunk], Sequence[Place]]
"""Gives the place of each row."""


class Given(NamedTuple):
    """Rows to give to a sink.

    Attributes:
        back: Rows that take back others, first.
        new: The rows.
        known: Those that it has already.
    """

    back: list[Chunk]
    new: list[Chunk]
    known: list[Chunk]


class EarlyRows:
    """The early rows of one task."""

    def __init__(self, state: KeyedState, places: Places) -> None:
        """Read them from the checkpoint. The state is changed."""
        self.state, self._places = state, places
        first: Any = next(iter(state.values()), None)
        if first is not None and type(first[0]) is not int:  # the sink had keys
            state.clear()
        self._streams = {stream for _, stream, _ in state.values()}

    # When a run looks ahead

    def ahead(self, chunks: Sequence[Chunk]) -> Given:
        """The rows that the sink does not have yet, of all that looking ahead has brought."""
        left = {key: count for key, (count, _, _) in self.state.items()}
        new: list[Chunk] = []
        for chunk in chunks:
            keys = self._keys(chunk)
            if at := [i for i, key in enumerate(keys) if not _takes(left, key)]:
                new.append(chunk.take(at))
        back = [
            _taken_back(row)
            for key, (_, _, row) in self.state.items()
            if row is not None
            for _ in range(left[key])
        ]
        for key, count in left.items():
            self._forget(key, count)
        return Given(back, new, [])

    def gave(self, written: Iterable[tuple[Chunk, Mapping[int, str]]]) -> None:
        """Note what was written when the run looked ahead."""
        for chunk, failed in written:
            may_be_taken_back, stream = RETRACTION in chunk.fields, (chunk.component, chunk.stream)
            for i, key in enumerate(self._keys(chunk)):
                if i in failed or key is None:
                    continue
                count, _, row = self.state.get(key, (0, stream, None))
                if may_be_taken_back:
                    row = (*stream, chunk.fields, list(chunk.rows[i]))
                self.state[key] = (count + 1, stream, row)
                self._streams.add(stream)

    # What comes in time

    def in_time(self, chunks: Sequence[Chunk], *, appends: bool) -> Given:
        """The rows to give when their time has come, and those to take back before.

        Args:
            chunks: The rows.
            appends: Whether each row is one more for the sink.
        """
        back = []
        for key, (count, _, row) in list(self.state.items()):
            if row is not None:  # taken back before anything else comes
                back += [_taken_back(row) for _ in range(count)]
                self._forget(key, count)
            elif not appends:
                self._forget(key, count)
        if not appends:  # all is written again: another row may have taken the place of one
            self.state.clear()
            return Given(back, [*chunks], [])
        given: list[Chunk] = []
        known: list[Chunk] = []
        for chunk in chunks:
            if (chunk.component, chunk.stream) not in self._streams:
                given.append(chunk)
                continue
            is_known = [self._forget(key, 1) for key in self._keys(chunk)]
            for some, wanted in ((given, False), (known, True)):
                if at := [i for i, known_one in enumerate(is_known) if known_one is wanted]:
                    some.append(chunk if len(at) == len(chunk) else chunk.take(at))
        return Given(back, given, known)

    def _keys(self, chunk: Chunk) -> list[Key | None]:
        return placed(digests_of(chunk), self._places(chunk))

    def _forget(self, key: Key | None, count: int) -> bool:
        """A row is not known so many times any more. False: it was not known."""
        if key is None or not count or key not in self.state:
            return False
        known, stream, row = self.state[key]
        if known > count:
            self.state[key] = (known - count, stream, row)
        else:
            del self.state[key]
        return True


def _takes(left: dict[Key, int], key: Key | None) -> bool:
    """Whether a row is one of those that are known; it is taken out of them."""
    if key is None or not left.get(key):
        return False
    left[key] -= 1
    return True


def digests_of(chunk: Chunk) -> list[bytes | None]:
    """What each row is known by; None: it can't be recognized again."""
    of = chunk.component, chunk.stream, chunk.fields
    return [digest_of((of, list(row))) for row in chunk.rows]


def placed(digests: Iterable[bytes | None], places: Iterable[Place]) -> list[Key | None]:
    """The keys of rows; None: the row can't be recognized again."""
    pairs = zip(digests, places, strict=True)
    return [None if digest is None else (digest, place) for digest, place in pairs]


def digest_of(value: Any) -> bytes | None:
    """Bytes that are equal if, and only if, values and their types are.

    Without a memo the bytes don't depend on which of the values are one object.
    """
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, 5)
    pickler.fast = True
    try:
        pickler.dump(value)
    except PASSED_ON:
        raise
    except BaseException:  # noqa: BLE001 (an author's object may raise anything)
        return None
    return hashlib.blake2b(buffer.getvalue(), digest_size=16).digest()


def _taken_back(row: Row) -> Chunk:
    component, stream, fields, values = row
    at = fields.index(RETRACTION)
    back = [*values[:at], not values[at], *values[at + 1 :]]
    return Chunk(component, stream, fields, -1, None, TupleRows([back]))
