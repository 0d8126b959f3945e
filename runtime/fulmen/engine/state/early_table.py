"""The rows that a sink with keys was given before their time, as `early_rows` says of others.

The last row of a key is the one that counts. So a sink's task knows that of each key:

- The next end of a run gives the sink the keys whose last row is another one.
- A row is taken back when the next end has none with its key: the sink deletes the key.
- What comes in time takes the place of the early row, which is then known no more.
- A key that has a None may be unlike itself for the store. So its row is deleted before another one
  takes its place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from fulmen.engine.state.early_rows import Key, Places, Row, digest_of, digests_of, placed
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.tuples.chunk import Chunk
from fulmen.engine.tuples.tuple_rows import TupleRows

Written = Iterable[tuple[Chunk, Mapping[int, str]]]
"""Rows, and why some of them failed."""


class GivenRows(NamedTuple):
    """Rows to give to a sink.

    Attributes:
        gone: Rows whose keys are deleted, first.
        rows: The rows.
    """

    gone: list[Chunk]
    rows: list[Chunk]


class EarlyTable:
    """The early rows of one task by key: what the last row is known by, the row, and `about`."""

    def __init__(self, state: KeyedState, key: Sequence[str], about: Any, places: Places) -> None:
        """Read the table from the checkpoint.

        Args:
            state: It is changed.
            key: The fields of the key.
            about: What must be as it was for rows to be deleted by what is known of them.
            places: Gives the places of rows.
        """
        self.state, self._key, self._places = state, key, places
        self._about = digest_of(about)
        for one in [k for k, entry in state.items() if entry[-1] != self._about]:
            del state[one]

    def ahead(self, chunks: Sequence[Chunk]) -> GivenRows:
        """The rows for the sink, of all that looking ahead has brought."""
        keys, known_by = [self._keys(chunk) for chunk in chunks], [*map(digests_of, chunks)]
        last = {
            key: by
            for some, others in zip(keys, known_by, strict=True)
            for key, by in zip(some, others, strict=True)
        }
        changed = {
            key
            for key, by in last.items()
            if key is None or by is None or self.state.get(key, (None,))[0] != by
        }
        rows = [
            chunk if len(at) == len(chunk) else chunk.take(at)
            for chunk, some in zip(chunks, keys, strict=True)
            if (at := [i for i, key in enumerate(some) if key in changed])
        ]
        gone = [
            entry[1]
            for key, entry in self.state.items()
            if key not in last or (key in changed and self._has_none(entry[1]))
        ]
        return GivenRows(_chunks(gone), rows)

    def in_time(self, chunks: Sequence[Chunk]) -> GivenRows:
        """The rows for the sink, of those that have come in time."""
        keys = dict.fromkeys(key for chunk in chunks for key in self._keys(chunk))
        rows = [self.state[key][1] for key in keys if key in self.state]
        return GivenRows(_chunks(filter(self._has_none, rows)), [*chunks])

    def wrote(self, gone: Written, rows: Written, *, early: bool) -> None:
        """Note what was written."""
        for chunk, failed in gone:
            self._forget(chunk, failed)
        for chunk, failed in rows:
            if not early:
                self._forget(chunk, failed)
                continue
            of = chunk.component, chunk.stream, chunk.fields
            for i, (key, by) in enumerate(zip(self._keys(chunk), digests_of(chunk), strict=True)):
                if by is not None and key is not None and i not in failed:
                    self.state[key] = by, (*of, list(chunk.rows[i])), self._about

    def _forget(self, chunk: Chunk, failed: Mapping[int, str]) -> None:
        for i, key in enumerate(self._keys(chunk)):
            if i not in failed and key in self.state:
                del self.state[key]

    def _keys(self, chunk: Chunk) -> list[Key | None]:
        at = [chunk.fields.index(name) for name in self._key]
        digests = (digest_of([row[i] for i in at]) for row in chunk.rows)
        return placed(digests, self._places(chunk))

    def _has_none(self, row: Row) -> bool:
        _, _, fields, values = row
        return any(values[fields.index(name)] is None for name in self._key)


def has_keys_alone(
    key: Collection[str], ways: Collection[tuple[str, Collection[str]]], tasks: int
) -> bool:
    """Whether a task of a sink has all rows of its keys.

    Another one might have written a row before this one deletes its key.

    Args:
        key: The fields of the key. Empty: there are no keys.
        ways: The groupings of the sink's inputs, each with its fields.
        tasks: How many there are of the sink.
    """
    [(way, by), *others] = ways
    is_by_key = not others and (way == "global" or (way == "fields" and {*by} <= {*key}))
    return bool(key) and (tasks == 1 or is_by_key)


def _chunks(rows: Iterable[Row]) -> list[Chunk]:
    by_stream: dict[tuple[str, str, tuple[str, ...]], list[list[Any]]] = {}
    for *of, values in rows:
        by_stream.setdefault(tuple(of), []).append(values)  # type: ignore[arg-type]
    return [Chunk(*of, -1, None, TupleRows(values)) for of, values in by_stream.items()]
